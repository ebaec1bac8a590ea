"""Control flow under masks: random structured programs against a one-lane-at-a-time executor, and a few by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spirvdsl.interp import interpret
from spirvdsl.ir.nodes import Module
from spirvdsl.lang.types import bool_, u32

from .harness import Kit
from .programs import LANES, WORDS, program
from .walker import walk_module

X = np.random.default_rng(3).integers(0, 1 << 32, LANES, dtype=np.uint32) >> np.arange(LANES, dtype=np.uint32)


def run(module: Module, batch: int = 1 << 15) -> np.ndarray:
    out = np.full(LANES * WORDS, 0xABCD, np.uint32)
    interpret(module, LANES // 8, {n: a for n, a in (("x", X), ("out", out)) if n in {r.name for r in module.resources}}, {}, None, batch_lanes=batch)
    return out


def walked(module: Module) -> np.ndarray:
    memory = {"x": X.tolist(), "out": [0xABCD] * (LANES * WORDS)}
    walk_module(module, LANES, memory)
    return np.array(memory["out"], np.uint32)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_random_programs_do_what_one_lane_at_a_time_does(random):
    module = program(random)
    expected = walked(module)
    np.testing.assert_array_equal(run(module), expected)
    np.testing.assert_array_equal(run(module, batch=1), expected)  # a batch per workgroup


@pytest.mark.full
def test_many_random_programs():
    for seed in range(3000):
        module = program(Random(seed))
        np.testing.assert_array_equal(run(module), walked(module), err_msg=str(seed))


def test_early_return_keeps_uniform_loops_and_results():
    """Lanes past n return; the others go on over a loop with continue and a return inside."""
    k = Kit()
    i, n = k.gid(), k.push(n=u32)["n"]
    out = k.storage("out", u32)
    then, _ = k.if_(k.binary("ge", i, n))
    with k.at(then):
        k.return_()
    total, j = k.local(u32, "total"), k.local(u32, "j")
    k.store(total, k.u32(0))
    k.store(j, k.u32(0))
    cond, body, step = k.loop()
    with k.at(cond):
        k.yield_(k.binary("lt", k.load(j), k.u32(10)))
    with k.at(body):
        odd, _ = k.if_(k.binary("eq", k.binary("and", k.load(j), k.u32(1)), k.u32(1)))
        with k.at(odd):
            k.node("continue", None)
        k.store(total, k.binary("add", k.load(total), k.load(j)))
        late, _ = k.if_(k.binary("eq", k.load(j), i))
        with k.at(late):
            k.put(out, i, k.binary("add", k.load(total), k.u32(1000)))
            k.return_()
    with k.at(step):
        k.store(j, k.binary("add", k.load(j), k.u32(1)))
    k.put(out, i, k.load(total))
    got = np.full(64, 7, np.uint32)
    interpret(k.module(), 2, {"out": got}, {"n": 20}, None)
    want = [1000 + sum(range(0, i + 1, 2)) if i % 2 == 0 and i < 10 else 20 for i in range(20)] + [7] * 44
    assert got.tolist() == want


def test_function_results_differ_per_lane():
    k = Kit()

    def body(k: Kit, x):
        then, other = k.if_(k.binary("lt", x, k.u32(10)))
        with k.at(then):
            inner, _ = k.if_(k.binary("eq", x, k.u32(3)))
            with k.at(inner):
                k.return_(k.u32(333))
        with k.at(other):
            k.return_(k.binary("mul", x, k.u32(2)))
        k.return_(x)

    fn = k.function("pick", [u32], u32, body)
    k.put(k.storage("out", u32), k.gid(), k.call(fn, (k.gid(),)))
    out = np.zeros(32, np.uint32)
    interpret(k.module(), 1, {"out": out}, {}, None)
    assert out.tolist() == [333 if i == 3 else i if i < 10 else 2 * i for i in range(32)]


def test_conditions_that_are_the_same_in_all_lanes_cost_no_masks():
    """A uniform loop of 20,000 turns over 16,384 lanes ends in seconds because its counter stays one number."""
    k = Kit()
    total, j = k.local(u32, "total"), k.local(u32, "j")
    k.store(total, k.gid())
    k.store(j, k.u32(0))
    cond, body, step = k.loop()
    with k.at(cond):
        k.yield_(k.binary("lt", k.load(j), k.u32(20000)))
    with k.at(body):
        k.store(total, k.binary("add", k.load(total), k.load(j)))
    with k.at(step):
        k.store(j, k.binary("add", k.load(j), k.u32(1)))
    k.put(k.storage("out", u32), k.gid(), k.load(total))
    out = np.zeros(16384, np.uint32)
    interpret(k.module((128, 1, 1)), 128, {"out": out}, {}, None)
    np.testing.assert_array_equal(out, np.arange(16384, dtype=np.uint32) + np.uint32(20000 * 19999 // 2 % (1 << 32)))


def test_divergent_trip_counts():
    k = Kit()
    n = k.local(u32, "n")
    k.store(n, k.gid())
    count = k.local(u32, "count")
    k.store(count, k.u32(0))
    cond, body, _ = k.loop()
    with k.at(cond):
        k.yield_(k.binary("ne", k.load(n), k.u32(0)))
    with k.at(body):
        k.store(count, k.binary("add", k.load(count), k.binary("and", k.load(n), k.u32(1))))
        k.store(n, k.binary("shr", k.load(n), k.u32(1)))
    k.put(k.storage("out", u32), k.gid(), k.load(count))
    out = np.zeros(512, np.uint32)
    interpret(k.module(), 16, {"out": out}, {}, None)
    assert out.tolist() == [i.bit_count() for i in range(512)]


def test_a_loop_in_the_condition_of_a_loop():
    k = Kit()
    total, i = k.local(u32, "total"), k.local(u32, "i")
    k.store(total, k.u32(0))
    cond, body, _ = k.loop()
    with k.at(cond):
        k.store(i, k.u32(0))
        test, inner, step = k.loop()
        with k.at(test):
            k.yield_(k.const(bool_, True))
        with k.at(inner):
            done, _ = k.if_(k.binary("ge", k.load(i), k.gid()))
            with k.at(done):
                k.node("break", None)
        with k.at(step):
            k.store(i, k.binary("add", k.load(i), k.u32(1)))
        k.yield_(k.binary("lt", k.load(total), k.load(i)))
    with k.at(body):
        k.store(total, k.binary("add", k.load(total), k.u32(1)))
    k.put(k.storage("out", u32), k.gid(), k.load(total))
    out = np.zeros(32, np.uint32)
    interpret(k.module(), 1, {"out": out}, {}, None)
    assert out.tolist() == list(range(32))
