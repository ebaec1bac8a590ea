"""Subgroup operations of several widths, under masks and in partial subgroups, against Python over lane lists."""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np
import pytest

from spirvdsl.interp import InterpError, interpret
from spirvdsl.lang.types import Vector, bool_, f16, f32, i8, i32, u32, u64

from .harness import Kit, raw

THREADS = 20  # not a multiple of any width above 4
GROUPS = 3
N = THREADS * GROUPS
ACTIVE = [i % 7 not in (0, 3) for i in range(N)]


def teams(size: int) -> list[list[int]]:
    """Lanes of each subgroup, in order."""
    return [list(range(g * THREADS + s, min(g * THREADS + s + size, (g + 1) * THREADS))) for g in range(GROUPS) for s in range(0, THREADS, size)]


def run(build, t, values, size: int, masked: bool, result=None, check: bool = True) -> np.ndarray:
    """out[i] = build(kit, x[i]) for active lanes, 0 elsewhere."""
    result = result or t
    k = Kit()
    i = k.gid()
    x = k.at(k.storage("x", t), i)

    def body():
        value = build(k, x)
        k.put(k.storage("out", u32 if result is bool_ else result), i, k.convert(value, u32) if result is bool_ else value)

    if masked:
        on = k.binary("ne", k.at(k.storage("mask", u32), i), k.u32(0))
        then, _ = k.if_(on)
        with k.at(then):
            body()
    else:
        body()
    lanes = {2: 2, 3: 4, 4: 4}[result.lanes] if isinstance(result, Vector) else 1
    out = np.zeros((N, lanes), raw(u32 if result is bool_ else result.elem if lanes > 1 else result, [0]).dtype)
    buffers = {"x": raw(t, values), "out": out} | ({"mask": np.uint32(ACTIVE)} if masked else {})
    interpret(k.module((THREADS, 1, 1)), GROUPS, buffers, {}, None, subgroup_size=size, check=check)
    return out[:, 0] if lanes == 1 else out


OPS = {"add": operator.add, "mul": operator.mul, "min": min, "max": max, "and": operator.and_, "or": operator.or_, "xor": operator.xor}
NEUTRAL = {"add": 0, "mul": 1, "min": (1 << 31) - 1, "max": -(1 << 31), "and": -1, "or": 0, "xor": 0}


def wrap(v: int) -> int:
    return (v + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("size", [1, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("mode", ["reduce", "inclusive", "exclusive"])
@pytest.mark.parametrize("fn", sorted(OPS))
def test_integer_reductions_and_scans(fn, mode, masked, size):
    x = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, N).astype(np.int32)
    got = run(lambda k, v: k.node("subgroup", i32, (v,), fn=fn, mode=mode, cluster=None), i32, x, size, masked)
    want = [0] * N
    for team in teams(size):
        on = [i for i in team if ACTIVE[i] or not masked]
        for n, i in enumerate(on):
            part = {"reduce": on, "inclusive": on[: n + 1], "exclusive": on[:n]}[mode]
            want[i] = wrap(reduce(OPS[fn], [int(x[j]) for j in part], NEUTRAL[fn]))
    assert got.tolist() == want


@pytest.mark.parametrize("t", [f16, f32, i8, u64, Vector(f32, 3), Vector(i32, 2)], ids=str)
def test_reductions_of_other_types(t):
    lanes = t.lanes if isinstance(t, Vector) else 1
    x = np.random.default_rng(2).integers(0, 8, (N, lanes))
    for fn, want in (("add", np.sum), ("max", np.max)):
        got = run(lambda k, v, fn=fn: k.node("subgroup", t, (v,), fn=fn, mode="reduce", cluster=None), t, x if lanes > 1 else x[:, 0], 4, False)
        expected = np.concatenate([np.repeat(want(x[team], axis=0)[None], len(team), axis=0) for team in teams(4)])
        np.testing.assert_array_equal(got.reshape(N, -1)[:, :lanes], expected)


def test_bool_and_clustered_reductions():
    x = np.random.default_rng(3).integers(0, 100, N).astype(np.uint32)
    got = run(lambda k, v: k.node("subgroup", bool_, (k.binary("lt", v, k.u32(90)),), fn="and", mode="reduce", cluster=None), u32, x, 4, False, bool_)
    assert got.tolist() == [int(all(x[j] < 90 for j in team)) for team in teams(4) for _ in team]
    got = run(lambda k, v: k.node("subgroup", u32, (v,), fn="add", mode="reduce", cluster=4), u32, x, 16, False)
    assert got.tolist() == [int(sum(x[j] for j in team)) for team in teams(4) for _ in team]


@pytest.mark.parametrize("size", [4, 8, 32, 64, 128])
def test_votes_and_ballots(size):
    x = np.random.default_rng(4).integers(0, 4, N).astype(np.uint32)
    hit = [v < 3 for v in x.tolist()]

    def test(k, v):
        return k.binary("lt", v, k.u32(3))

    votes = {fn: run(lambda k, v, fn=fn: k.node("subgroup", bool_, (test(k, v),), fn=fn), u32, x, size, True, bool_) for fn in ("all", "any")}
    elect = run(lambda k, v: k.node("subgroup", bool_, (), fn="elect"), u32, x, size, True, bool_)
    equal = run(lambda k, v: k.node("subgroup", bool_, (k.binary("shr", v, k.u32(1)),), fn="all_equal"), u32, x, size, True, bool_)
    ballot = run(lambda k, v: k.node("subgroup", Vector(u32, 4), (test(k, v),), fn="ballot"), u32, x, size, True, Vector(u32, 4))

    def counted(k, v, mode):
        bits = k.node("subgroup", Vector(u32, 4), (test(k, v),), fn="ballot")
        return k.node("subgroup", u32, (bits,), fn="ballot_bit_count", mode=mode)

    counts = {m: run(lambda k, v, m=m: counted(k, v, m), u32, x, size, True) for m in ("reduce", "inclusive", "exclusive")}
    inverse = run(lambda k, v: k.node("subgroup", bool_, (k.const(Vector(u32, 4), (5, 0, 0, 1)),), fn="inverse_ballot"), u32, x, size, True, bool_)
    for team in teams(size):
        on = [i for i in team if ACTIVE[i]]
        mask = sum(1 << (i - team[0]) for i in on if hit[i])
        for i in on:
            place = i - team[0]
            assert votes["all"][i] == all(hit[j] for j in on) and votes["any"][i] == any(hit[j] for j in on)
            assert elect[i] == (i == on[0])
            assert equal[i] == (len({int(x[j]) >> 1 for j in on}) == 1)
            assert sum(int(w) << (32 * n) for n, w in enumerate(ballot[i])) == mask
            assert counts["reduce"][i] == mask.bit_count()
            assert counts["inclusive"][i] == (mask & ((2 << place) - 1)).bit_count()
            assert counts["exclusive"][i] == (mask & ((1 << place) - 1)).bit_count()
            assert inverse[i] == ((5 | 1 << 96) >> place & 1)


MOVES = {
    "shuffle": lambda lane, by, size: by, "shuffle_xor": lambda lane, by, size: lane ^ by, "shuffle_up": lambda lane, by, size: lane - by,
    "shuffle_down": lambda lane, by, size: lane + by, "rotate": lambda lane, by, size: (lane + by) % size,
    "quad_broadcast": lambda lane, by, size: lane // 4 * 4 + by, "broadcast": lambda lane, by, size: by,
}  # fmt: skip


@pytest.mark.parametrize("size", [4, 16])
@pytest.mark.parametrize("fn", sorted(MOVES))
def test_moves(fn, size):
    x = np.random.default_rng(5).standard_normal(N).astype(np.float32)
    for by in (0, 1, 3):
        got = run(lambda k, v, by=by: k.node("subgroup", f32, (v, k.u32(by)), fn=fn), f32, x, size, False)
        for team in teams(size):
            for lane, i in enumerate(team):
                source = MOVES[fn](lane, by, size)
                if 0 <= source < len(team):
                    assert got[i] == x[team[source]]
                else:
                    assert np.isnan(got[i])


def test_quad_swap_and_vectors_and_broadcast_first():
    x = np.random.default_rng(6).standard_normal((N, 2)).astype(np.float32)
    t = Vector(f32, 2)
    for direction in range(3):
        got = run(lambda k, v, d=direction: k.node("subgroup", t, (v,), fn="quad_swap", direction=d), t, x, 4, False)
        np.testing.assert_array_equal(got, x[np.arange(N) ^ (direction + 1)])
    got = run(lambda k, v: k.node("subgroup", t, (v,), fn="broadcast_first"), t, x, 16, True)
    for team in teams(16):
        on = [i for i in team if ACTIVE[i]]
        for i in on:
            np.testing.assert_array_equal(got[i], x[on[0]])


def test_shuffle_by_a_different_lane_each():
    x = np.arange(N, dtype=np.uint32)
    got = run(lambda k, v: k.node("subgroup", u32, (v, k.binary("and", k.binary("mul", v, k.u32(5)), k.u32(3))), fn="shuffle"), u32, x, 4, False)
    assert got.tolist() == [i // 4 * 4 + i * 5 % 4 for i in range(N)]


def test_broadcast_lane_must_be_uniform_and_active():
    x = np.arange(N, dtype=np.uint32)
    with pytest.raises(InterpError, match="lanes disagree on the lane to read"):
        run(lambda k, v: k.node("subgroup", u32, (v, k.binary("and", v, k.u32(1))), fn="broadcast"), u32, x, 4, False)
    with pytest.raises(InterpError, match="reads lane 0, which is not active"):
        run(lambda k, v: k.node("subgroup", u32, (v, k.u32(0)), fn="broadcast"), u32, x, 4, True)
    got = run(lambda k, v: k.node("subgroup", u32, (v, k.binary("shr", k.builtin("subgroup_id"), k.u32(1))), fn="broadcast"), u32, x, 4, False)
    assert got.tolist() == [team[(n % 5) >> 1] for n, team in enumerate(teams(4)) for _ in team]
