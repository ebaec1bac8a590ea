"""Control flow: nestings of if, loop, break, continue, return, and calls. Registered in the same table as cases.py."""

from __future__ import annotations

from contextlib import contextmanager

from spirvdsl.ir.build import Builder
from spirvdsl.ir.nodes import Node
from spirvdsl.lang.types import Array, bool_, f32, i32, u32

from .cases import BLOCK, case
from .kit import Kit


@contextmanager
def counted(kit: Kit, count: Node, name: str = "i", **hints):
    """`for name in range(count)`; yields the index."""
    var = kit.local(u32, name)
    kit.store(var, kit.const(u32, 0))
    cond, body, step = kit.loop(**hints)
    with kit.at(cond):
        kit.yield_(kit.binary("lt", kit.load(var), count))
    with kit.at(step):
        kit.store(var, kit.binary("add", kit.load(var), kit.const(u32, 1)))
    with kit.at(body):
        yield kit.load(var)


def accumulate(kit: Kit, total: Node, value: Node) -> None:
    kit.store(total, kit.binary("add", kit.load(total), value))


def total_of(kit: Kit) -> Node:
    total = kit.local(u32, "total")
    kit.store(total, kit.const(u32, 0))
    return total


@case("flow.if", "op:if")
def _if(kit: Kit) -> None:
    a, b, total = kit.input(bool_), kit.input(bool_), total_of(kit)
    then, otherwise = kit.if_(a)
    with kit.at(then):
        accumulate(kit, total, kit.const(u32, 1))
        inner, _ = kit.if_(b)
        with kit.at(inner):
            accumulate(kit, total, kit.const(u32, 2))
    with kit.at(otherwise):
        accumulate(kit, total, kit.const(u32, 4))
    kit.if_(a)  # both sides empty
    kit.keep(kit.load(total))


@case("flow.loop", "op:loop", "op:yield", "op:break", "op:continue")
def _loop(kit: Kit) -> None:
    n, total = kit.input(u32), total_of(kit)
    with counted(kit, n) as i:
        with counted(kit, i, "j") as j:
            then, otherwise = kit.if_(kit.binary("eq", j, kit.const(u32, 3)))
            with kit.at(then):
                kit.node("continue", None)
            with kit.at(otherwise):
                deep, _ = kit.if_(kit.binary("gt", j, kit.const(u32, 7)))
                with kit.at(deep):
                    kit.node("break", None)
            accumulate(kit, total, j)
        stop, _ = kit.if_(kit.binary("gt", kit.load(total), kit.const(u32, 100)))
        with kit.at(stop):
            kit.node("break", None)
    kit.keep(kit.load(total))


@case("flow.return", "op:return", "op:unreachable")
def _return(kit: Kit) -> None:
    """Early return from nested constructs, and a merge block that nothing reaches."""
    n, total = kit.input(u32), total_of(kit)
    with counted(kit, n) as i:
        then, _ = kit.if_(kit.binary("eq", i, kit.const(u32, 9)))
        with kit.at(then):
            kit.return_()
        accumulate(kit, total, i)
    kit.keep(kit.load(total))
    then, otherwise = kit.if_(kit.input(bool_))
    with kit.at(then):
        kit.keep(kit.load(total))
        kit.return_()
    with kit.at(otherwise):
        kit.return_()
    kit.node("unreachable", None)


@case("flow.while_true")
def _while_true(kit: Kit) -> None:
    """Condition a constant, body ends in break on one side and continue on the other: the continue block is reached by a jump."""
    total = total_of(kit)
    cond, body, step = kit.loop()
    with kit.at(cond):
        kit.yield_(kit.const(bool_, True))
    with kit.at(body):
        accumulate(kit, total, kit.const(u32, 1))
        then, otherwise = kit.if_(kit.binary("gt", kit.load(total), kit.const(u32, 10)))
        with kit.at(then):
            kit.node("break", None)
        with kit.at(otherwise):
            kit.node("continue", None)
    kit.keep(kit.load(total))


@case("flow.body_always_breaks")
def _always_breaks(kit: Kit) -> None:
    total = total_of(kit)
    with counted(kit, kit.input(u32)):
        accumulate(kit, total, kit.const(u32, 1))
        kit.node("break", None)
    kit.keep(kit.load(total))


@case("flow.branching_condition")
def _branching_condition(kit: Kit) -> None:
    """`while a and b`: the condition branches by itself; the step branches too."""
    n, total, flag = kit.input(u32), total_of(kit), kit.local(bool_, "flag")
    cond, body, step = kit.loop()
    with kit.at(cond):
        first = kit.binary("lt", kit.load(total), n)
        kit.store(flag, first)
        then, _ = kit.if_(first)
        with kit.at(then):
            kit.store(flag, kit.binary("lt", kit.load(total), kit.const(u32, 50)))
        kit.yield_(kit.load(flag))
    with kit.at(body):
        accumulate(kit, total, kit.const(u32, 1))
    with kit.at(step):
        then, _ = kit.if_(kit.input(bool_))
        with kit.at(then):
            accumulate(kit, total, kit.const(u32, 2))
    kit.keep(kit.load(total))


@case("flow.hints")
def _hints(kit: Kit) -> None:
    n, total = kit.input(u32), total_of(kit)
    for hint, count in (("unroll", None), ("unroll", 4), ("dont_unroll", None), (None, None)):
        with counted(kit, n, hint=hint, hint_count=count) as i:
            accumulate(kit, total, i)
    kit.keep(kit.load(total))


@case("flow.call", "op:call", "op:param")
def _call(kit: Kit) -> None:
    """Values, structs and void through calls; a callee that returns from inside a loop; a call to a later function."""
    search, inner = kit.function("search", [("n", u32), ("key", u32)], i32)
    n, key = search.params
    _search_body(inner, n, key)
    weight, inner = kit.function("weight", [("block", BLOCK)], f32)
    inner.return_(inner.convert(inner.node("extract", BLOCK.fields[0].type, (weight.params[0],), index=0), f32))
    outer, inner = kit.function("outer", [("x", u32)], u32)
    inner.return_(inner.bitcast(inner.call(search, (outer.params[0], outer.params[0])), u32))
    touch, inner = kit.function("touch", [("x", u32)], None)
    cells = kit.buffer("cells", u32)
    inner.store(inner.index(inner.resource(cells.attrs["resource"]), touch.params[0]), touch.params[0])
    kit.keep(kit.call(outer, (kit.input(u32),)))
    kit.keep(kit.call(weight, (kit.load(kit.index(kit.buffer("blocks", BLOCK, "in"), kit.gid())),)))
    kit.call(touch, (kit.gid(),))


def _search_body(b: Builder, n: Node, key: Node) -> None:
    var = b.local(u32, "i")
    b.store(var, b.const(u32, 0))
    cond, body, step = b.loop()
    with b.at(cond):
        b.yield_(b.binary("lt", b.load(var), n))
    with b.at(body):
        found, _ = b.if_(b.binary("eq", b.binary("mul", b.load(var), b.load(var)), key))
        with b.at(found):
            b.return_(b.bitcast(b.load(var), i32))
    with b.at(step):
        b.store(var, b.binary("add", b.load(var), b.const(u32, 1)))
    b.return_(b.const(i32, -1))


@case("flow.workgroup")
def _workgroup(kit: Kit) -> None:
    """The usual shape: stage in workgroup memory, barrier, reduce in a loop with barriers."""
    stage = kit.declare("workgroup", "stage", Array(f32, 32))
    lane = kit.builtin("local_index")
    kit.store(kit.index(stage, lane), kit.input(f32))
    kit.node("barrier", None, scope="workgroup", memory=("workgroup",))
    half = kit.local(u32, "half")
    kit.store(half, kit.const(u32, 16))
    cond, body, step = kit.loop()
    with kit.at(cond):
        kit.yield_(kit.binary("gt", kit.load(half), kit.const(u32, 0)))
    with kit.at(body):
        then, _ = kit.if_(kit.binary("lt", lane, kit.load(half)))
        with kit.at(then):
            mine = kit.index(stage, lane)
            kit.store(mine, kit.binary("add", kit.load(mine), kit.load(kit.index(stage, kit.binary("add", lane, kit.load(half))))))
        kit.node("barrier", None, scope="workgroup", memory=("workgroup",))
    with kit.at(step):
        kit.store(half, kit.binary("shr", kit.load(half), kit.const(u32, 1)))
    kit.keep(kit.load(kit.index(stage, kit.const(u32, 0))))
