"""What control flow and calls mean, against plain Python: merges, loops, early returns, closures."""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl import In, InOut, Out, f32, global_id, i32, kernel, static_range, u32, u32x4
from spirvdsl.interp import InterpError

N = 12
U = (np.arange(N, dtype="u4") * 5 + 2) % 13


def run(k, *more, dtype="u4", **push):
    out = np.zeros(N, dtype)
    k.interpret(3, U, *more, out, **push)
    return out


@kernel(workgroup_size=4)
def merges(u: In[u32], z: Out[u32]):
    i = global_id.x
    v = u[i]
    if v < 3:
        kind = u32(1)
        v += 100
    elif v < 6:
        kind = u32(2)
    else:
        kind = u32(3)
        if v == 7:
            v = 0
    z[i] = v * 10 + kind


def test_if_elif():
    def one(v):
        return (v + 100) * 10 + 1 if v < 3 else v * 10 + 2 if v < 6 else (0 if v == 7 else v) * 10 + 3

    np.testing.assert_array_equal(run(merges), [one(v) for v in U.tolist()])


@kernel(workgroup_size=4)
def collatz(u: In[u32], z: Out[u32]):
    i = global_id.x
    n, steps = u[i] + 1, u32(0)
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps > 50:
            break
    z[i] = steps


def test_while_and_break():
    def one(n):
        steps = 0
        while n != 1 and steps <= 50:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    np.testing.assert_array_equal(run(collatz), [one(v + 1) for v in U.tolist()])


@kernel(workgroup_size=4)
def loops(u: In[u32], z: Out[u32], n: u32, start: i32):
    i = global_id.x
    total = u32(0)
    for j in range(i, n, 3):
        if j % 2 == 1:
            continue
        total += j
    for j in range(start, -5, -2):
        total += u32(j + 10)
    for j in range(2, 5, unroll=True):
        for k in range(j):
            if k == 3:
                break
            total += 100 * k
    z[i] = total


def test_range_steps_continue_and_nested_break():
    want = [sum(j for j in range(i, 40, 3) if j % 2 == 0) + sum(j + 10 for j in range(6, -5, -2)) + sum(100 * k for j in (2, 3, 4) for k in range(min(j, 3))) for i in range(N)]
    np.testing.assert_array_equal(run(loops, n=40, start=6), want)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_loops_that_run_no_time(n):
    np.testing.assert_array_equal(run(loops, n=n, start=-9), [sum(j for j in range(i, n, 3) if j % 2 == 0) + sum(100 * k for j in (2, 3, 4) for k in range(min(j, 3))) for i in range(N)])


@kernel(workgroup_size=4)
def unrolled(u: In[u32], z: Out[u32]):
    i = global_id.x
    total = u[i]
    for j in static_range(1, 10, 2):
        if j == 3:
            continue
        if j == 9:
            break
        total = total * 2 + j
    for name, factor in (("a", 1), ("b", 2)):
        total += factor if name == "b" else 0
    z[i] = total


def test_static_loops():
    np.testing.assert_array_equal(run(unrolled), [((v * 2 + 1) * 2 + 5) * 2 + 7 + 2 for v in U.tolist()])


def clamp3(v, low=2, *, high=9) -> u32:
    if v < low:
        return low
    if v > high:
        return high
    return v


def first_above(u, limit) -> u32:
    """Element form: the callee reads the buffer of its caller, and returns from inside a loop."""
    for j in range(12):
        if u[j] > limit:
            return j
    return 99


@kernel(workgroup_size=4)
def early(u: In[u32], z: Out[u32]):
    i = global_id.x
    z[i] = clamp3(u[i]) + 100 * clamp3(u[i], 4, high=6) + 10000 * first_above(u, u[i])


def test_early_returns():
    def above(limit):
        return next((j for j, v in enumerate(U.tolist()) if v > limit), 99)

    np.testing.assert_array_equal(run(early), [min(max(v, 2), 9) + 100 * min(max(v, 4), 6) + 10000 * above(v) for v in U.tolist()])


def made(factor, add):
    def inner(x):
        return x * factor + add

    @kernel(workgroup_size=4)
    def k(u: In[u32], z: Out[u32]):
        z[global_id.x] = inner(u[global_id.x])

    return k


def test_closures_are_constants():
    np.testing.assert_array_equal(run(made(3, 4)), U * 3 + 4)
    np.testing.assert_array_equal(run(made(5, 0)), U * 5)


@kernel(workgroup_size=4)
def guarded(u: In[u32], z: Out[u32], n: u32):
    i = global_id.x
    if i >= n:
        return
    z[i] = u[i] + 1


def test_return_of_the_entry():
    np.testing.assert_array_equal(run(guarded, n=5), np.where(np.arange(N) < 5, U + 1, 0))


def gather(pair, scale):
    a, b = pair
    return a * scale, b + scale


@kernel(workgroup_size=4)
def tuples(u: In[u32], z: InOut[u32]):
    i = global_id.x
    a, b = gather((u[i], i), 3)
    pair = (a, b) if i is not None else (b, a)
    z[i] = pair[0] * 1000 + pair[-1]
    z[i] -= 1
    z[i] <<= 1


def test_tuples_and_augmented_assignment():
    np.testing.assert_array_equal(run(tuples), ((U * 3) * 1000 + np.arange(N) + 3 - 1) << 1)


@kernel(workgroup_size=4)
def accumulated(u: In[u32], y: Out[f32]):
    i = global_id.x
    total = 0.0
    count = 0
    for j in range(u[i]):
        total += f32(j)
        count += 1
    y[i] = total / f32(max(count, 1))


def test_literals_become_variables_before_a_loop():
    np.testing.assert_allclose(run(accumulated, dtype="f4"), [sum(range(v)) / max(v, 1) for v in U.tolist()], rtol=1e-6)


@kernel(workgroup_size=4)
def guarded_lanes(u: In[u32], z: Out[u32]):
    i = global_id.x
    v = u32x4(u[0], u[1], u[2], u[3])
    z[i] = (v[i] if i < 4 else 0) + u32(i < 4 and v[i] > 5)


def test_a_guarded_vector_index_is_not_evaluated_past_the_vector():
    """OpVectorExtractDynamic past the vector is undefined behaviour; the interpreter reports it."""
    assert np.array_equal(run(guarded_lanes)[4:], np.zeros(8)) and run(guarded_lanes)[1] == U[1] + (U[1] > 5)


def test_the_interpreter_takes_the_dtypes_that_a_launch_takes():
    with pytest.raises(InterpError, match="buffer 'u' holds u32, the array float32; convert it with astype"):
        guarded_lanes.interpret(3, U.astype(np.float32), np.zeros(N, "u4"))
    for grid in (1.5, "12", (1, 1.0), ()):
        with pytest.raises(InterpError, match="grid"):
            guarded_lanes.interpret(grid, U, np.zeros(N, "u4"))
