"""What the interpreter reports, in the author's terms; each check also with the lanes concerned switched off."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

from spirvdsl.interp import InterpError, interpret
from spirvdsl.ir.nodes import Span
from spirvdsl.lang.types import Array, Field, Struct, Vector, bool_, f32, i32, u32

from .harness import Kit


def buffers(k: Kit, n: int = 32) -> dict[str, np.ndarray]:
    return {r.name: np.zeros(n, np.uint32) for r in k.resources.values() if r.kind == "storage"}


def fails(k: Kit, words: str, groups: int = 1, **options) -> InterpError:
    with pytest.raises(InterpError, match=words) as caught:
        interpret(k.module(), groups, buffers(k), {}, None, **options)
    return caught.value


def keep(k: Kit, value) -> None:
    k.put(k.storage("out", u32), k.gid(), value if value.type == u32 else k.convert(value, u32))


UNDEFINED = {
    "shift by 32": lambda k, i: k.binary("shl", k.u32(1), k.binary("add", i, k.u32(27))),
    "shift by 40": lambda k, i: k.binary("shr", i, k.u32(40)),
    "division of 5 by zero": lambda k, i: k.binary("div", k.u32(5), k.binary("sub", i, k.u32(5))),
    "division of 5 by zero ": lambda k, i: k.binary("rem", i, k.binary("sub", i, i)),
    "by -1 overflows": lambda k, i: k.binary("div", k.const(i32, -(1 << 31)), k.binary("sub", k.convert(i, i32), k.const(i32, 6))),
    "-5.0 is out of range for u32": lambda k, i: k.convert(k.unary("neg", k.convert(i, f32)), u32),
    "nan is out of range for i32": lambda k, i: k.convert(k.binary("div", k.const(f32, 0.0), k.convert(k.binary("sub", i, k.u32(5)), f32)), i32),
    "4294967296.0 is out of range": lambda k, i: k.convert(k.const(f32, 2.0**32), u32),
    "bit field at 5 of 32 bits": lambda k, i: k.math("bit_extract", i, i, k.u32(32)),
    "index 5 is out of range of a vector": lambda k, i: k.node("extract_dynamic", u32, (k.splat(i, 4), i)),
    "index 5 is out of range of 'table', length 4": lambda k, i: k.at(table(k), i),
    "index 5 is out of range of 'v', length 3": lambda k, i: component(k, i),
    "index 40 is out of range of 'out', length 32": lambda k, i: k.at(k.storage("out", u32), k.binary("mul", i, k.u32(8))),
    "index -5 is out of range of 'out'": lambda k, i: k.at(k.storage("out", u32), k.unary("neg", k.convert(i, i32))),
    "index 9 is out of range of 'table', length 4": lambda k, i: k.at(table(k), k.u32(9)),
    "use of an undefined value": lambda k, i: k.binary("add", k.node("undef", u32), i),
    "an undefined value": lambda k, i: k.extract(k.binary("add", k.node("undef", Vector(u32, 2)), k.splat(i, 2)), 0),
    "read of 'x', which no store has reached": lambda k, i: k.load(k.local(u32, "x")),
    "a part of 'pair' that no store has reached": lambda k, i: half_stored(k, i),
    "read of workgroup memory 'tile' that no store": lambda k, i: k.at(k.shared("tile", Array(u32, 32)), i),
    "code marked unreachable": lambda k, i: unreachable(k),
    "loop still runs after 100 iterations": lambda k, i: forever(k),
}  # fmt: skip


def table(k: Kit):
    local = k.local(Array(u32, 4), "table")
    k.store(local, k.const(Array(u32, 4), (1, 2, 3, 4)))
    return local


def component(k: Kit, i):
    v = k.local(Vector(u32, 3), "v")
    k.store(v, k.splat(i, 3))
    return k.at(v, i)


def half_stored(k: Kit, i):
    pair = k.local(Struct("Pair", (Field("a", u32), Field("b", u32))), "pair")
    k.store(k.member(pair, 0), i)
    value = k.load(pair)
    return k.binary("add", k.extract(value, 0), k.extract(value, 1))


def unreachable(k: Kit):
    then, _ = k.if_(k.const(bool_, True))
    with k.at(then):
        k.node("unreachable", None)
    return k.u32(0)


def forever(k: Kit):
    cond, _, _ = k.loop()
    with k.at(cond):
        k.yield_(k.const(bool_, True))
    return k.u32(0)


@pytest.mark.parametrize("words", UNDEFINED)
def test_reported_in_the_lane_and_silent_elsewhere(words):
    """Only lane 5 executes: it is named; when no lane does, nothing happens."""
    for lanes, expected in ((5, True), (99, False)):
        k = Kit()
        i = k.gid()
        then, _ = k.if_(k.binary("eq", i, k.u32(lanes)))
        with k.at(then):
            keep(k, UNDEFINED[words](k, i))
        if expected:
            fails(k, words.strip(), max_iterations=100)
        else:
            interpret(k.module(), 1, buffers(k), {}, None, max_iterations=100)


@pytest.mark.parametrize("words", [w for w in UNDEFINED if w.split()[0] in ("shift", "division", "by", "-5.0", "nan", "bit", "index")])
def test_without_checks_nothing_is_reported(words):
    k = Kit()
    keep(k, UNDEFINED[words](k, k.gid()))
    interpret(k.module(), 1, buffers(k), {}, None, check=False)


def test_a_place_out_of_range_is_fine_until_it_is_used():
    k = Kit()
    i = k.gid()
    out = k.storage("out", u32)
    ref = k.index(out, k.binary("add", i, k.u32(16)))
    then, _ = k.if_(k.binary("lt", i, k.u32(16)))
    with k.at(then):
        k.store(ref, i)
    got = np.zeros(32, np.uint32)
    interpret(k.module(), 1, {"out": got}, {}, None)
    assert got.tolist() == [0] * 16 + list(range(16))


def test_stores_out_of_range_are_dropped_without_checks():
    k = Kit()
    k.put(k.storage("out", u32), k.gid(), k.u32(9))
    fails(k, "index 32 is out of range of 'out', length 32, in global_id .32, 0, 0.", groups=2)
    got = np.zeros(40, np.uint32)
    interpret(k.module(), 2, {"out": got[:33]}, {}, None, check=False)
    assert got.tolist() == [9] * 33 + [0] * 7
    interpret(k.module(), 2, {"out": np.zeros(0, np.uint32)}, {}, None, check=False)


@pytest.mark.parametrize("shared", [False, True])
def test_partly_assigned_variables(shared):
    """A variable assigned in some lanes may be read in those."""
    for limit, good in ((10, True), (11, False)):
        k = Kit()
        i = k.gid()
        place = k.index(k.shared("tile", Array(u32, 32)), i) if shared else k.local(u32, "x")
        then, _ = k.if_(k.binary("lt", i, k.u32(10)))
        with k.at(then):
            k.store(place, i)
        again, _ = k.if_(k.binary("lt", i, k.u32(limit)))
        with k.at(again):
            keep(k, k.load(place))
        if good:
            got = np.zeros(32, np.uint32)
            interpret(k.module(), 1, {"out": got}, {}, None)
            assert got[:10].tolist() == list(range(10))
        else:
            fails(k, "no store has reached.*global_id .10, 0, 0.")


def test_partly_assigned_arrays():
    for limit, good in ((4, True), (5, False)):
        k = Kit()
        i = k.gid()
        a = k.local(Array(u32, 8), "a")
        k.put(a, k.binary("and", i, k.u32(3)), i)
        reader = k.binary("rem", i, k.u32(limit))
        same, _ = k.if_(k.binary("eq", reader, k.binary("and", i, k.u32(3)))) if good else (k.block, None)
        with k.at(same):
            keep(k, k.at(a, reader))
        if good:
            interpret(k.module(), 1, buffers(k), {}, None)
        else:
            fails(k, "read of an element of 'a' that no store has reached")


def test_barrier_under_divergence():
    k = Kit()
    then, _ = k.if_(k.binary("lt", k.gid(), k.u32(40)))
    with k.at(then):
        k.node("barrier", None, scope="workgroup", memory=())
    fails(k, "barrier under divergent control flow: 8 of 32 lanes of the workgroup arrive, in global_id .0, 0, 0.", groups=2)
    interpret(k.module(), 1, buffers(k), {}, None)  # all lanes of the only workgroup arrive


def test_whole_workgroups_may_skip_a_barrier_and_whole_subgroups_theirs():
    for odd_too in (False, True):
        k = Kit()
        then, _ = k.if_(k.binary("lt", k.gid(), k.u32(64)))
        with k.at(then):
            k.node("barrier", None, scope="workgroup", memory=("workgroup",))
        half, _ = k.if_(k.binary("lt", k.builtin("subgroup_id"), k.u32(1)))
        with k.at(half):
            k.node("barrier", None, scope="subgroup", memory=("workgroup",))
        if odd_too:
            odd, _ = k.if_(k.binary("eq", k.binary("and", k.gid(), k.u32(1)), k.u32(1)))
            with k.at(odd):
                k.node("barrier", None, scope="subgroup", memory=())
            fails(k, "barrier under divergent control flow: 4 of 8 lanes of the subgroup", subgroup_size=8)
        else:
            interpret(k.module(), 4, buffers(k), {}, None, subgroup_size=8)


def test_errors_show_the_authors_line():
    text = "def kernel():\n    total = values[n + 1] * 2\n"
    linecache.cache["kernel.py"] = (len(text), None, text.splitlines(True), "kernel.py")
    k = Kit()
    out = k.storage("out", u32)
    i = k.gid()
    k.span = Span("kernel.py", 2, 12, 2, 25)
    value = k.at(out, k.binary("add", i, k.u32(1)))
    k.put(out, i, value)
    error = fails(k, "index 32")
    assert str(error).splitlines() == [
        "kernel.py:2:13: error[interp]: index 32 is out of range of 'out', length 32, in global_id (31, 0, 0)",
        "    2 |     total = values[n + 1] * 2",
        "      |             ^^^^^^^^^^^^^",
    ]
    assert error.span.line == 2


def test_accesses_can_be_watched():
    """The hook of race detection sees every access and the barrier it follows."""
    from spirvdsl.interp.memory import WorkgroupMemory

    k = Kit()
    tile = k.shared("tile", Array(u32, 32))
    k.put(tile, k.gid(), k.gid())
    k.node("barrier", None, scope="workgroup", memory=("workgroup",))
    keep(k, k.at(tile, k.u32(3)))
    seen = []
    WorkgroupMemory.watch = staticmethod(lambda kind, at, size, m, epoch: seen.append((kind, size, epoch)))
    try:
        interpret(k.module(), 1, buffers(k), {}, None)
    finally:
        WorkgroupMemory.watch = None
    assert seen == [("write", 4, 0), ("read", 4, 1)]
