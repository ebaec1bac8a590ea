"""The verifier names each broken rule. That well-formed kernels pass, random programs and a table of every op show elsewhere."""

from __future__ import annotations

import pytest

from spirvdsl.diagnostics import CompileError
from spirvdsl.ir.nodes import Block, Function, Node
from spirvdsl.ir.ops import OPS
from spirvdsl.ir.verify_types import _RULES
from spirvdsl.lang.types import Array, Field, Ref, Struct, Vector, bool_, f32, i32, u8, u32, u64

from ..interp.harness import SPAN, Kit

PAIR = Struct("Pair", (Field("a", u32), Field("b", f32)))


def test_every_op_has_a_rule():
    assert set(_RULES) == set(OPS)


def leaf(k: Kit):
    return k.at(k.storage("x", u32), k.gid())


def in_branch(k: Kit):
    then, _ = k.if_(k.const(bool_, True))
    with k.at(then):
        value = k.binary("add", k.u32(1), k.u32(2))
    k.put(k.storage("out", u32), k.gid(), value)


def loop_of(k: Kit, cond=None, body=None, step=None):
    blocks = k.loop()
    for block, fill in zip(blocks, (cond or (lambda: k.yield_(k.const(bool_, True))), body, step)):
        with k.at(block):
            if fill:
                fill()


def result_missing(k: Kit):
    def body(k, x):
        then, _ = k.if_(k.const(bool_, True))
        with k.at(then):
            k.return_(x)

    k.function("f", [u32], u32, body)


def bad_param(k: Kit):
    fn = k.function("f", [u32], None, lambda k, x: None)
    fn.params[0].attrs["index"] = 3


BROKEN = {
    "is no operation of the table": lambda k: k.node("frobnicate", u32, ()),
    "takes 2 to 2 arguments, has 1": lambda k: k.node("add", u32, (leaf(k),)),
    "yields a value without a type": lambda k: k.node("add", None, (leaf(k), leaf(k))),
    "yields nothing but has a type": lambda k: k.node("barrier", u32, (), scope="workgroup", memory=()),
    "has 0 blocks, needs 2": lambda k: k.node("if", None, (k.const(bool_, True),)),
    "not defined before it or not visible here": in_branch,
    "control transfer is not the last node": lambda k: (k.return_(), k.u32(1)),
    "stands outside a loop's body": lambda k: k.node("break", None),
    "only ends the cond block of a loop": lambda k: loop_of(k, body=lambda: k.yield_(k.const(bool_, True))),
    "the cond block does not end in yield": lambda k: loop_of(k, lambda: k.u32(1)),
    "yields something that is not bool": lambda k: loop_of(k, lambda: k.yield_(k.u32(1))),
    "cond or step returns": lambda k: loop_of(k, step=lambda: k.return_()),
    "stands outside a loop's body ": lambda k: loop_of(k, step=lambda: k.node("continue", None)),
    "returns u32 where the function returns nothing": lambda k: k.return_(k.u32(1)),
    "a path reaches the end without returning u32": result_missing,
    "parameter 0 is not `param` with index=0": bad_param,
    "a parameter stands in a body": lambda k: k.node("param", u32, (), name="x", index=0),
    "argument 1 is a place": lambda k: k.node("store", None, (k.local(u32, "x"), k.local(u32, "y"))),
    "argument 0 is a place": lambda k: k.node("convert", f32, (k.local(u32, "y"),)),
    "argument types differ: u32, i32": lambda k: k.node("add", u32, (leaf(k), k.const(i32, 1))),
    "type should be bool": lambda k: k.node("lt", u32, (leaf(k), leaf(k))),
    "is not defined for f32": lambda k: k.binary("xor", k.const(f32, 1.0), k.const(f32, 1.0)),
    "value 300 is not a u8": lambda k: k.const(u8, 300),
    "value 1 is not a bool": lambda k: k.const(bool_, 1),
    "value .1, 2. is not a u32x3": lambda k: k.const(Vector(u32, 3), (1, 2)),
    "is not a named Ref": lambda k: k.node("local", u32, (), name="x"),
    "index is u64, not a 32-bit integer": lambda k: k.index(k.storage("x", u32), k.const(u64, 0)),
    "cannot index": lambda k: k.node("index", Ref(u32, "function"), (k.local(u32, "x"), k.u32(0))),
    "has no members": lambda k: k.node("member", Ref(u32, "function"), (k.local(u32, "x"),), field=0),
    "malformed .IndexError": lambda k: k.node("member", Ref(u32, "function"), (k.local(PAIR, "x"),), field=5),
    "malformed .KeyError": lambda k: k.node("const", u32, ()),
    "cannot load f32 from": lambda k: k.node("load", f32, (k.local(u32, "x"),)),
    "cannot store f32 to": lambda k: k.store(k.local(u32, "x"), k.const(f32, 0.0)),
    "stores to push memory": lambda k: (k.push(n=u32), k.store(k.member(k.resource(k.resources["push"]), 0), k.u32(1))),
    "is not the u32 length": lambda k: k.node("array_length", u32, (k.local(Array(u32, 3), "x"),)),
    "cannot shift u32 by f32": lambda k: k.binary("shl", leaf(k), k.const(f32, 1.0)),
    "chooses between u32 and f32": lambda k: k.select(k.const(bool_, True), leaf(k), k.const(f32, 1.0)),
    "condition is u32": lambda k: k.select(leaf(k), leaf(k), leaf(k)),
    "cannot convert u32 to bool": lambda k: k.convert(leaf(k), bool_),
    "have different sizes": lambda k: k.bitcast(leaf(k), u64),
    "parts do not fill u32x3": lambda k: k.vector(u32, (leaf(k), leaf(k)), 3),
    "parts are not components": lambda k: k.vector(f32, (leaf(k), leaf(k)), 2),
    "cannot splat": lambda k: k.node("splat", Vector(f32, 2), (leaf(k),)),
    "no u32 at 5 of u32x3": lambda k: k.node("extract", u32, (k.builtin("global_id"),), index=5),
    "cannot take lane f32": lambda k: k.node("extract_dynamic", u32, (k.builtin("global_id"), k.const(f32, 0.0))),
    "cannot put f32 at 0": lambda k: k.node("insert", Vector(u32, 3), (k.builtin("global_id"), k.const(f32, 0.0)), index=0),
    "lanes .0, 9. do not make": lambda k: k.node("shuffle", Vector(u32, 2), (k.builtin("global_id"),) * 2, lanes=(0, 9)),
    "members do not make Pair": lambda k: k.node("struct", PAIR, (leaf(k), leaf(k))),
    "elements do not make u32.2.": lambda k: k.node("array", Array(u32, 2), (leaf(k),)),
    "math sqrt is not defined for u32": lambda k: k.math("sqrt", leaf(k)),
    "math nothing is unknown": lambda k: k.math("nothing", leaf(k)),
    "cannot take the dot product": lambda k: k.node("dot", u32, (k.builtin("global_id"),) * 2),
    "takes packed u32 or i32 and yields i32": lambda k: k.node("int_dot", u32, (leaf(k), leaf(k)), signed_a=True, signed_b=True),
    "atomic add is not defined for f32": lambda k: k.node("atomic", f32, (k.index(k.storage("f", f32), k.gid()), leaf(k)), fn="add", scope="device"),
    "atomic on function&u32": lambda k: k.node("atomic", u32, (k.local(u32, "x"), leaf(k)), fn="add", scope="device"),
    "atomic store yields nothing": lambda k: k.node("atomic", u32, (k.index(k.storage("x", u32), k.gid()), leaf(k)), fn="store", scope="device"),
    "subgroup elect yields bool": lambda k: k.node("subgroup", u32, (), fn="elect"),
    "subgroup wave is unknown": lambda k: k.node("subgroup", u32, (leaf(k),), fn="wave"),
    "call of f.. does not match": lambda k: k.node("call", u32, (leaf(k),), function=k.function("f", [f32], u32, lambda k, x: k.return_(k.u32(1)))),
    "calls a function that is not the module's": lambda k: k.node("call", None, (), function=Function("g", [], None, Block(), SPAN)),
    "names a resource that is not the module's": lambda k: (k.storage("lost", u32), k.resources.clear()),
    "barrier of scope device": lambda k: k.node("barrier", None, scope="device", memory=()),
    "builtin lane is not u32": lambda k: k.node("builtin", u32, (), name="lane"),
}  # fmt: skip


@pytest.mark.parametrize("words", BROKEN)
def test_broken_rules_are_named(words):
    k = Kit()
    BROKEN[words](k)
    with pytest.raises(CompileError, match=words.strip()) as caught:
        k.module()
    assert caught.value.code == "E0901" and caught.value.span is not None


def test_a_node_may_stand_in_one_place_only():
    k = Kit()
    k.block.nodes.append(k.u32(1))
    with pytest.raises(CompileError, match="stands in the function twice"):
        k.module()


def test_infinite_loops_need_no_return_after_them():
    k = Kit()

    def body(k, x):
        loop_of(k, body=lambda: k.return_(x))

    fn = k.function("f", [u32], u32, body)
    k.call(fn, (k.gid(),))
    k.module()
    assert isinstance(fn.params[0], Node)
