"""What a step costs the host: nothing is recorded again, and no arithmetic on activations or weights is done here."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest

from runtime.engine.engine import Engine, free_bytes
from runtime.engine.executor import Executor
from runtime.engine.request import Request, Sampling
from runtime.gguf import open_gguf
from runtime.models import read_model
from runtime.plan import make_plan
from runtime.vk import Device
from tests.runtime.engine.rig import FEW_BITS, feed, loaded, small_model

LARGE = 4096  # elements; no host array of a step is near it, every weight matrix is above it
ARITHMETIC = ("matmul", "dot", "einsum", "tensordot", "inner", "vdot", "exp", "multiply", "add", "sum", "sqrt", "argmax", "argsort", "max", "mean", "cumsum")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("steps"))


class HostArithmetic(AssertionError):
    """numpy was asked to compute with a large array."""


@contextlib.contextmanager
def forbidden(monkeypatch):
    """numpy's functions refuse large arrays, in whichever module they are looked up through `np.`."""
    def guard(name, real):
        def call(*args, **kwargs):
            if any(getattr(a, "size", 0) >= LARGE for a in args):
                raise HostArithmetic(f"numpy.{name} on an array of {[getattr(a, 'shape', None) for a in args]}")
            return real(*args, **kwargs)
        return call

    with monkeypatch.context() as patch:
        for name in ARITHMETIC:
            patch.setattr(np, name, guard(name, getattr(np, name)))
        yield


def test_no_host_arithmetic_while_tokens_are_made(device, path, monkeypatch):
    """Prefill, greedy and sampled decoding, through the engine."""
    with open_gguf(path) as file:
        own = Device()
        engine = Engine(own, make_plan(read_model(file), own.caps, free_bytes(own), ctx=256))
    try:
        with forbidden(monkeypatch):
            for temperature in (0.0, 1.0):
                stream = engine.submit(Request(list(range(40)), 20, Sampling(temperature=temperature)))
                assert len(list(stream)) == 20 and stream.finish == "length", stream.error
            with pytest.raises(HostArithmetic):
                np.matmul(np.ones((64, 64)), np.ones((64, 64)))
    finally:
        engine.close()


def test_nothing_is_recorded_in_a_steady_state(device, path):
    """1,000 tokens behind a warm start: no vkBeginCommandBuffer, no vkCmd*, one submit a token, over 15 page borders."""
    with loaded(device, path, ctx=1200, window=32) as executor:
        executor.set_table(0, executor.pages.take(executor.plan.pages))
        executor.set_state(0)
        executor.prefill(list(range(50)), 0, 0, 0, pick="greedy")
        executor.wait(executor.decode(1, "greedy"))
        before = dataclasses.replace(device.counters)
        tokens = []
        for i in range(1000):
            executor.wait(executor.decode(1, "greedy"))
            tokens.append(executor.drawn(0, i + 2))
        after = device.counters
        assert (after.begin_command_buffer, after.cmd_calls) == (before.begin_command_buffer, before.cmd_calls)
        assert after.submits - before.submits == 1000
        assert all(0 <= t < executor.config.n_vocab for t in tokens)


def test_a_prompt_of_a_known_length_is_recorded_once(device, path):
    with loaded(device, path, window=32) as executor:
        executor.set_table(0, executor.pages.take(2))
        executor.prefill(list(range(40)), 0, 0, 0)
        executor.wait()
        before = device.counters.begin_command_buffer
        executor.prefill(list(range(40, 80)), 0, 0, 0)
        executor.wait()
        assert device.counters.begin_command_buffer == before


@pytest.mark.parametrize("barriers", ["derived", "everywhere"])
def test_a_barrier_before_every_dispatch_changes_no_bit(device, path, barriers, monkeypatch):
    """Paranoid mode is another device, so the same logits on both."""
    with loaded(device, path) as executor:
        here = feed(executor, list(range(70)), 32, 50)
    with Device(paranoid=barriers == "everywhere") as other, loaded(other, path) as executor:
        assert np.array_equal(feed(executor, list(range(70)), 32, 50), here)
        assert np.isfinite(here).all() and here.std() > 0.1


@pytest.mark.parametrize("types", ["Q8_0", FEW_BITS], ids=["Q8_0", "codebooks"])
def test_the_plan_is_what_is_allocated(tmp_path, types):
    """To the byte, buffer by buffer; only the alignment of blocks may add."""
    with Device() as own, open_gguf(small_model(tmp_path, types=types, tied=types == "Q8_0")) as file:
        plan = make_plan(read_model(file), own.caps, free_bytes(own), ctx=512, window=64)
        executor = Executor(own, plan)
        executor.wait()
        held = sum({id(s.buffer): s.buffer.size for s in executor.names.values()}.values())
        assert held == plan.total
