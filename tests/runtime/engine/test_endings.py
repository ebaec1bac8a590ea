"""Ends that come at a bad moment, and data that must not come to the host."""

from __future__ import annotations

import threading

import pytest

from runtime.engine.engine import Engine, free_bytes
from runtime.engine.request import Request, Sampling
from runtime.gguf import GGUFFile, open_gguf
from runtime.models import read_model
from runtime.plan import make_plan
from runtime.vk import Device
from tests.runtime.engine.rig import small_model

GREEDY = Sampling(temperature=0)


@pytest.fixture
def engine(device, tmp_path):
    own = Device()
    with open_gguf(small_model(tmp_path)) as file:
        made = Engine(own, make_plan(read_model(file), own.caps, free_bytes(own), ctx=256, window=8))
    yield made
    made.close()


def test_requests_are_answered_in_order(engine, monkeypatch):
    order, real = [], Engine._run
    monkeypatch.setattr(Engine, "_run", lambda self, stream: order.append(stream.request.id) or real(self, stream))
    streams = [engine.submit(Request([i + 1, 2, 3], 3, GREEDY, id=str(i))) for i in range(6)]
    assert [len(list(s)) for s in streams] == [3] * 6 and order == list("012345")


def test_closing_in_the_middle_of_a_prompt_runs_no_step_on_it(engine, monkeypatch):
    """The prefill stops between two windows and nothing was drawn: a step then would read rows of another request."""
    entered, go = threading.Event(), threading.Event()
    steps, step = [], engine.executor.step

    def slow(form):
        steps.append(form)
        entered.set()
        assert go.wait(20)
        return step(form)

    monkeypatch.setattr(engine.executor, "step", slow)
    stream = engine.submit(Request(list(range(200)), 50, GREEDY))
    assert entered.wait(20)
    closing = threading.Thread(target=engine.close)
    closing.start()
    while not engine._closing.is_set():
        pass
    go.set()
    closing.join(20)
    assert list(stream) == [] and stream.finish == "cancelled" and not engine.alive
    assert len(steps) == 1 and not steps[0].decode


def test_a_request_that_arrives_as_the_engine_closes_ends(engine, monkeypatch):
    """close() runs between the check and the put; nobody would read the queue any more."""
    real = engine._queue.put

    class Late:
        def put(self, item):
            if item is not None:
                monkeypatch.setattr(engine, "_queue", queue)
                engine.close()
            real(item)

        def __getattr__(self, name):
            return getattr(queue, name)

    queue = engine._queue
    monkeypatch.setattr(engine, "_queue", Late())
    stream = engine.submit(Request([1, 2], 5, GREEDY))
    assert list(stream) == [] and stream.finish == "cancelled"


def test_no_weight_or_activation_comes_to_the_host_while_tokens_are_made(engine, monkeypatch):
    """The host cannot compute with what it never sees: no read of the file, no download, uploads of rows and sampling state alone."""
    uploads, upload = [], engine.device.upload

    def refuse(*_):
        raise AssertionError("a step read data back")

    monkeypatch.setattr(GGUFFile, "data", refuse)
    monkeypatch.setattr(engine.device, "download", refuse)
    monkeypatch.setattr(engine.device, "upload", lambda buffer, offset, data: uploads.append(memoryview(data).nbytes) or upload(buffer, offset, data))
    for sampling in (GREEDY, Sampling(temperature=1.0, seed=4)):
        stream = engine.submit(Request(list(range(20)), 12, sampling))
        assert len(list(stream)) == 12, stream.error
    assert uploads and max(uploads) <= 16 * 8
