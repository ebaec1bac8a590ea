"""Constant folding: what folds, to what, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl.interp import interpret
from spirvdsl.ir.nodes import Module, Node, walk
from spirvdsl.lang.types import Array, Field, Struct, Vector, bool_, f16, f32, i8, i32, u8, u32, u64
from spirvdsl.passes import dce, fold

from ..interp.harness import Kit


def stored(module: Module) -> Node:
    """The value of the last store of the kernel."""
    return [n for n in walk(module.entry.body) if n.op == "store"][-1].args[1]


def folded(build, t=u32) -> Node:
    """What the value built by `build(kit, x)` becomes; x is a value no pass can know."""
    k = Kit()
    value = build(k, k.at(k.storage("x", t), k.gid()))
    k.put(k.storage("out", value.type), k.u32(0), value)
    return stored(fold(k.module()))


@pytest.mark.parametrize("op, s, a, b, want", [
    ("add", u32, 0xFFFFFFFF, 2, 1), ("sub", u8, 1, 2, 255), ("mul", i8, 100, 3, 44), ("div", i32, -7, 2, -3), ("rem", i32, -7, 2, -1),
    ("and", u32, 6, 3, 2), ("shl", u8, 200, 1, 144), ("shr", i8, -128, 3, -16), ("lt", i32, -1, 1, True), ("ge", u64, 1 << 63, 1, True),
    ("add", f32, 0.1, 0.2, float(np.float32(0.1) + np.float32(0.2))), ("mul", f16, 0.5, 3.0, 1.5),
])  # fmt: skip
def test_two_constants(op, s, a, b, want):
    if s.is_float:
        a, b = (float(np.dtype(f"f{s.bits // 8}").type(v)) for v in (a, b))
    node = folded(lambda k, x: k.convert(k.binary(op, k.const(s, a), k.const(s, b)), u32) if isinstance(want, bool) else k.binary(op, k.const(s, a), k.const(s, b)))
    assert node.op == "const" and node.attrs["value"] == want and type(node.attrs["value"]) is (int if isinstance(want, bool) else type(want))


def test_vectors_fold():
    t = Vector(i32, 3)
    node = folded(lambda k, x: k.binary("mul", k.const(t, (1, -2, 3)), k.splat(k.const(i32, 4), 3)))
    assert node.op == "const" and node.attrs["value"] == (4, -8, 12)


@pytest.mark.parametrize("build", [
    lambda k, x: k.binary("add", x, k.u32(0)), lambda k, x: k.binary("add", k.u32(0), x), lambda k, x: k.binary("sub", x, k.u32(0)),
    lambda k, x: k.binary("mul", k.u32(1), x), lambda k, x: k.binary("div", x, k.u32(1)), lambda k, x: k.binary("or", x, k.u32(0)),
    lambda k, x: k.binary("and", x, k.u32(0xFFFFFFFF)), lambda k, x: k.binary("shl", x, k.u32(0)), lambda k, x: k.binary("xor", k.u32(0), x),
    lambda k, x: k.select(k.const(bool_, True), x, k.u32(9)), lambda k, x: k.select(k.binary("lt", x, k.u32(3)), x, x),
    lambda k, x: k.extract(k.vector(u32, (k.u32(1), k.vector(u32, (x, k.u32(2)), 2)), 3), 1), lambda k, x: k.extract(k.splat(x, 4), 2),
    lambda k, x: k.extract(k.node("insert", Vector(u32, 2), (k.splat(k.u32(5), 2), x), index=1), 1),
    lambda k, x: k.node("extract_dynamic", u32, (k.vector(u32, (k.u32(1), x), 2), k.u32(1))),
])  # fmt: skip
def test_what_is_the_value_itself(build):
    assert folded(build).op == "load"


def test_zero_and_self_comparison():
    assert folded(lambda k, x: k.binary("mul", x, k.u32(0))).attrs["value"] == 0
    assert folded(lambda k, x: k.binary("and", k.u32(0), x)).attrs["value"] == 0
    assert folded(lambda k, x: k.binary("rem", x, k.u32(1))).attrs["value"] == 0
    assert folded(lambda k, x: k.convert(k.binary("le", x, x), u32)).attrs["value"] == 1


@pytest.mark.parametrize("build, t", [
    (lambda k, x: k.binary("mul", x, k.const(f32, 1.0)), f32), (lambda k, x: k.binary("add", x, k.const(f32, 0.0)), f32),
    (lambda k, x: k.convert(k.binary("eq", x, x), u32), f32), (lambda k, x: k.binary("div", k.const(f32, 1.0), k.const(f32, 3.0)), f32),
    (lambda k, x: k.binary("div", k.u32(1), k.u32(0)), u32), (lambda k, x: k.binary("shl", k.u32(1), k.u32(32)), u32),
    (lambda k, x: k.binary("div", k.const(i32, -(1 << 31)), k.const(i32, -1)), u32), (lambda k, x: k.convert(k.const(f32, 3e9), i32), u32),
    (lambda k, x: k.binary("mul", k.const(f32, 1e38), k.const(f32, 1e38)), f32), (lambda k, x: k.convert(k.const(f32, 1e-7), f16), f32),
    (lambda k, x: k.math("exp", k.const(f32, 1.0)), f32),
])  # fmt: skip
def test_what_is_left_alone(build, t):
    """Float identities, division of floats, undefined operations, overflow to infinity, subnormal results, library functions."""
    assert folded(build, t).op not in ("const", "load")


def test_composites_fold_through_extract():
    pair = Struct("Pair", (Field("a", u32), Field("b", Array(u32, 2))))

    def build(k, x):
        made = k.node("struct", pair, (x, k.node("array", Array(u32, 2), (k.u32(4), x))))
        first = k.node("extract", u32, (made,), index=(1, 0))
        return k.binary("add", first, k.node("extract", u32, (k.const(Array(u32, 2), (7, 8)),), index=1))

    assert folded(build).attrs["value"] == 12


def test_constant_branches_and_loops_go():
    k = Kit()
    out = k.storage("out", u32)
    then, other = k.if_(k.binary("lt", k.u32(1), k.u32(2)))
    with k.at(then):
        k.put(out, k.gid(), k.u32(5))
    with k.at(other):
        k.put(out, k.gid(), k.u32(6))
    cond, body, _ = k.loop()
    with k.at(cond):
        k.yield_(k.binary("eq", k.u32(1), k.u32(2)))
    with k.at(body):
        k.put(out, k.gid(), k.u32(7))
    made = fold(k.module())
    assert not [n for n in walk(made.entry.body) if n.op in ("if", "loop")]
    assert stored(made).attrs["value"] == 5


def test_code_after_a_taken_return_goes():
    k = Kit()
    then, _ = k.if_(k.const(bool_, True))
    with k.at(then):
        k.return_()
    k.put(k.storage("out", u32), k.gid(), k.u32(1))
    made = dce(fold(k.module()))
    assert [n.op for n in made.entry.body.nodes] == ["return"]


def test_dce_drops_unread_locals_and_keeps_effects():
    k = Kit()
    out = k.storage("out", u32)
    dead, alive = k.local(u32, "dead"), k.local(u32, "alive")
    k.store(dead, k.load(alive) if False else k.u32(3))
    k.store(alive, k.binary("add", k.gid(), k.u32(1)))
    then, _ = k.if_(k.binary("lt", k.gid(), k.u32(4)))
    with k.at(then):
        k.store(dead, k.u32(9))
    k.binary("mul", k.gid(), k.gid())
    k.load(k.index(out, k.gid()))
    k.node("barrier", None, scope="workgroup", memory=())
    k.load(k.index(out, k.u32(0)), volatile=True)
    k.put(out, k.gid(), k.load(alive))
    module = k.module()
    made = dce(module)
    ops = [n.op for n in walk(made.entry.body)]
    assert ops.count("local") == 1 and "if" not in ops and "mul" not in ops
    assert ops.count("load") == 2 and "barrier" in ops
    got = np.zeros(32, np.uint32)
    interpret(made, 1, {"out": got}, {}, None)
    assert got.tolist() == list(range(1, 33))
