"""The step loop: endings, refusals, reuse of a prefix, cancelling, dying and closing; the same text whatever the window."""

from __future__ import annotations

import dataclasses
import time

import pytest

from runtime.engine.engine import Engine, free_bytes
from runtime.engine.request import Request, RequestError, Sampling
from runtime.gguf import open_gguf
from runtime.models import read_model
from runtime.plan import make_plan
from runtime.vk import Device, DeviceLost
from tests.runtime.engine.rig import small_model

GREEDY = Sampling(temperature=0)
HOT = Sampling(temperature=4.0, top_k=0, top_p=1.0, min_p=0.0)  # random models are sure of themselves: only heat makes them vary
PROMPT = [5, 17, 200, 3, 3, 91, 44, 8, 310, 77]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("engine"), seed=35)  # one whose greedy reply is not one token for ever


def opened(path, window: int | None = None, ctx: int = 256) -> Engine:
    own = Device()
    try:
        with open_gguf(path) as file:
            return Engine(own, make_plan(read_model(file), own.caps, free_bytes(own), ctx=ctx, window=window))
    except BaseException:
        own.close()
        raise


@pytest.fixture(scope="module")
def engine(device, path):
    made = opened(path)
    yield made
    made.close()


def forget(engine: Engine) -> None:
    """Only for tests: the next prompt reuses nothing."""
    engine._history = []


def ask(engine: Engine, prompt=PROMPT, n: int = 8, sampling: Sampling = GREEDY, stops=()) -> tuple[list[int], object]:
    stream = engine.submit(Request(list(prompt), n, sampling, frozenset(stops)))
    return list(stream), stream


def test_a_request_is_answered_and_counted(engine):
    forget(engine)
    before = engine.stats()
    tokens, stream = ask(engine)
    after = engine.stats()
    assert len(tokens) == 8 and stream.finish == "length" and stream.error is None
    assert (stream.prompt_tokens, stream.completion_tokens, stream.cached_tokens) == (10, 8, 0)
    assert stream.prompt_ms > 0 and stream.predicted_ms > 0
    assert all(0 <= t < engine.vocab_size for t in tokens) and len(set(tokens)) > 1
    grown = {k: after[k] - before[k] for k in ("requests", "prompt_tokens", "completion_tokens")}
    assert grown == {"requests": 1, "prompt_tokens": 10, "completion_tokens": 8} and after["n_ctx"] == 256


def test_a_prefix_is_reused_and_changes_nothing(engine):
    forget(engine)
    fresh, _ = ask(engine)
    again, stream = ask(engine)
    assert again == fresh and stream.cached_tokens == len(PROMPT) - 1, "at least one token is fed"
    longer = [*PROMPT, *fresh[:5], 9, 9]
    warm, stream = ask(engine, longer)
    assert stream.cached_tokens == len(PROMPT) + 5
    other, stream = ask(engine, [*PROMPT[:4], 111, 112])
    assert stream.cached_tokens == 4
    forget(engine)
    assert ask(engine, longer)[0] == warm
    forget(engine)
    assert ask(engine, [*PROMPT[:4], 111, 112])[0] == other


def test_what_a_stop_left_in_the_queue_harms_no_later_request(engine):
    """Steps were queued behind the stop token; the cache behind it must not be believed."""
    forget(engine)
    fresh, _ = ask(engine, n=20)
    cut = next(i for i in range(2, 20) if fresh[i] not in fresh[:i])
    stopped, stream = ask(engine, n=20, stops=[fresh[cut]])
    assert stopped == fresh[:cut] and stream.finish == "stop" and stream.completion_tokens == cut
    resumed, stream = ask(engine, [*PROMPT, *fresh[:15]], n=5)
    assert resumed == fresh[15:20] and stream.cached_tokens >= len(PROMPT)


@pytest.mark.parametrize("sampling", [GREEDY, dataclasses.replace(HOT, seed=3)])
def test_max_tokens(engine, sampling):
    tokens, stream = ask(engine, n=0, sampling=sampling)
    assert (tokens, stream.finish, stream.completion_tokens) == ([], "length", 0)
    one, stream = ask(engine, n=1, sampling=sampling)
    assert len(one) == 1 and stream.finish == "length"
    two, _ = ask(engine, n=2, sampling=sampling)
    assert two[:1] == one


def test_the_context_ends_a_reply(engine):
    prompt = [i % 300 for i in range(240)]
    tokens, stream = ask(engine, prompt, n=-1)
    assert len(tokens) == 256 - 240 and stream.finish == "length"
    assert ask(engine, prompt, n=1000)[0] == tokens
    last, stream = ask(engine, [i % 300 for i in range(255)], n=-1)
    assert len(last) == 1 and stream.finish == "length"


@pytest.mark.parametrize("request_, field", [
    (Request([]), "prompt"), (Request([-1]), "prompt"), (Request([320]), "prompt"), (Request([1] * 256), "prompt"), (Request([1], -2), "max_tokens")])
def test_refused_before_it_is_queued(engine, request_, field):
    with pytest.raises(RequestError) as caught:
        engine.submit(request_)
    assert caught.value.field == field and "\n" not in str(caught.value)
    assert ask(engine, n=1)[1].finish == "length"


def test_cancelled_at_the_next_step_and_the_next_request_runs(engine):
    stream = engine.submit(Request(PROMPT, -1, GREEDY))
    waiting = engine.submit(Request(PROMPT, 4, GREEDY))
    never = engine.submit(Request(PROMPT, 4, GREEDY))
    never.cancel()
    first = next(iter(stream))
    stream.cancel()
    rest = list(stream)
    assert stream.finish == "cancelled" and len(rest) < 240
    tokens = list(waiting)
    assert waiting.finish == "length" and tokens[0] == first
    assert list(never) == [] and never.finish == "cancelled"


def test_a_seed_gives_the_same_text_whatever_the_window(device, path):
    """More prompts than one: a wrong state or position would have to hit the same draw each time."""
    requests = [([(7 * i + k) % 320 for i in range(n)], dataclasses.replace(HOT, seed=k, top_k=k)) for k, n in ((0, 70), (40, 33), (7, 9))]
    texts = {}
    for window in (1, 7, 32):
        engine = opened(path, window)
        try:
            assert engine.plan.window == window
            texts[window] = [ask(engine, prompt, 24, sampling)[0] for prompt, sampling in requests]
        finally:
            engine.close()
    assert texts[1] == texts[7] == texts[32] and len({tuple(t) for t in texts[1]}) == 3


def test_seeds_differ_and_repeat(engine):
    draws = [ask(engine, n=16, sampling=dataclasses.replace(HOT, seed=s))[0] for s in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    randomly = [ask(engine, n=16, sampling=HOT) for _ in range(2)]
    assert randomly[0][0] != randomly[1][0]
    again = ask(engine, n=16, sampling=dataclasses.replace(HOT, seed=randomly[0][1].seed))
    assert again[0] == randomly[0][0], "the seed that was drawn is reported"


@pytest.mark.parametrize("when", ["prefill", "decode"])
def test_a_lost_device_ends_every_stream_with_the_reason(device, path, when, monkeypatch):
    engine = opened(path)
    try:
        def lost(*args, **kwargs):
            raise DeviceLost("vkQueueSubmit2: VK_ERROR_DEVICE_LOST; restart the process")

        monkeypatch.setattr(engine.executor, when, lost)
        streams = [engine.submit(Request(PROMPT, 5, GREEDY)) for _ in range(1)]
        assert len(list(streams[0])) == 0
        assert streams[0].finish == "error" and "VK_ERROR_DEVICE_LOST" in streams[0].error
        assert not engine.alive and "VK_ERROR_DEVICE_LOST" in engine.error
        with pytest.raises(RequestError, match="VK_ERROR_DEVICE_LOST"):
            engine.submit(Request(PROMPT, 5, GREEDY))
    finally:
        engine.close()


def test_close_ends_what_runs_and_what_waits(device, path):
    engine = opened(path, ctx=2048)
    running, waiting = (engine.submit(Request(PROMPT, -1, GREEDY)) for _ in range(2))
    next(iter(running))
    began = time.monotonic()
    engine.close()
    engine.close()
    assert time.monotonic() - began < 20
    list(running), list(waiting)
    assert (running.finish, waiting.finish) == ("cancelled", "cancelled")
    assert not engine.alive
    with pytest.raises(RequestError):
        engine.submit(Request(PROMPT, 1, GREEDY))


def test_a_context_of_one_page_and_of_one_token(device, path):
    """The smallest engines start, refuse what does not fit, and end."""
    engine = opened(path, ctx=2)
    try:
        tokens, stream = ask(engine, [1], n=-1)
        assert len(tokens) == 1 and stream.finish == "length"
    finally:
        engine.close()
    engine = opened(path, ctx=1)
    try:
        with pytest.raises(RequestError, match="context 1"):
            engine.submit(Request([1], 1, GREEDY))
    finally:
        engine.close()
