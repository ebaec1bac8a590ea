"""Inlining: tail forms, spans of call sites, what stays a call, the size limit."""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl.diagnostics import CompileError
from spirvdsl.interp import InterpError, interpret
from spirvdsl.ir.nodes import Module, Span, walk
from spirvdsl.ir.verify import verify
from spirvdsl.lang.types import Vector, f32, u32
from spirvdsl.passes import inline, run_passes

from ..interp.harness import Kit


def calls(module: Module) -> int:
    return sum(n.op == "call" for fn in module.functions for n in walk(fn.body))


def results(module: Module, n: int = 32) -> list[int]:
    out = np.zeros(n, np.uint32)
    interpret(module, n // 32, {"out": out}, {}, None)
    return out.tolist()


def kernel_of(params, result, body) -> Module:
    k = Kit()
    fn = k.function("f", params, result, body)
    value = k.call(fn, (k.gid(),) * len(params))
    k.put(k.storage("out", u32), k.gid(), value if result else k.gid())
    return k.module()


def guard(k, x):
    then, _ = k.if_(k.binary("lt", x, k.u32(5)))
    with k.at(then):
        k.return_(k.u32(50))
    inner, other = k.if_(k.binary("lt", x, k.u32(10)))
    with k.at(inner):
        k.return_(k.binary("add", x, k.u32(100)))
    with k.at(other):
        pass
    k.return_(x)


def else_guard(k, x):
    then, other = k.if_(k.binary("lt", x, k.u32(5)))
    with k.at(other):
        k.return_(k.u32(60))
    k.return_(x)


def ladder(k, x):
    then, other = k.if_(k.binary("lt", x, k.u32(5)))
    with k.at(then):
        k.return_(k.u32(1))
    with k.at(other):
        then, other = k.if_(k.binary("lt", x, k.u32(9)))
        with k.at(then):
            k.return_(k.u32(2))
        with k.at(other):
            k.return_(k.binary("mul", x, x))


def straight(k, x):
    local = k.local(u32, "t")
    k.store(local, x)
    k.return_(k.binary("add", k.load(local), k.u32(1)))


@pytest.mark.parametrize("body", [guard, else_guard, ladder, straight])
def test_tail_forms_are_inlined(body):
    module = kernel_of([u32], u32, body)
    made = inline(module)
    verify(made)
    assert calls(module) == 1 and calls(made) == 0 and len(made.functions) == 1
    assert results(made) == results(module) and len(set(results(made))) > 1


def loop_return(k, x):
    i = k.local(u32, "i")
    k.store(i, k.u32(0))
    cond, body, step = k.loop()
    with k.at(cond):
        k.yield_(k.binary("lt", k.load(i), k.u32(9)))
    with k.at(body):
        then, _ = k.if_(k.binary("eq", k.load(i), x))
        with k.at(then):
            k.return_(k.binary("mul", x, k.u32(7)))
    with k.at(step):
        k.store(i, k.binary("add", k.load(i), k.u32(1)))
    k.return_(k.u32(77))


def fall_through(k, x):
    then, _ = k.if_(k.binary("lt", x, k.u32(8)))
    with k.at(then):
        inner, _ = k.if_(k.binary("lt", x, k.u32(4)))
        with k.at(inner):
            k.return_(k.u32(4))
    k.return_(x)


@pytest.mark.parametrize("body", [loop_return, fall_through])
def test_other_forms_stay_calls(body):
    module = kernel_of([u32], u32, body)
    made = run_passes(module)
    verify(made)
    assert calls(made) == 1 and len(made.functions) == 2
    assert results(made) == results(module)


def test_void_functions_and_nested_calls():
    k = Kit()
    out = k.storage("out", u32)

    def write(k, i, v):
        then, _ = k.if_(k.binary("lt", i, k.u32(30)))
        with k.at(then):
            k.put(k.storage("out", u32), i, v)
            k.return_()
        k.put(k.storage("out", u32), i, k.u32(1))

    write_fn = k.function("write", [u32, u32], None, write)
    twice = k.function("twice", [u32], u32, lambda k, x: k.return_(k.binary("mul", x, k.u32(2))))
    k.function("unused", [u32], u32, lambda k, x: k.return_(x))

    def both(k, x):
        k.call(write_fn, (x, k.call(twice, (x,))))
        k.return_(k.call(twice, (k.call(twice, (x,)),)))

    both_fn = k.function("both", [u32], u32, both)
    value = k.call(both_fn, (k.gid(),))
    then, _ = k.if_(k.binary("lt", k.gid(), k.u32(3)))
    with k.at(then):
        k.put(out, k.gid(), value)
    module = k.module()
    made = inline(module)
    verify(made)
    assert [f.name for f in made.functions] == ["main"]
    assert results(made) == results(module) == [0, 4, 8] + [2 * i for i in range(3, 30)] + [1, 1]


def test_spans_name_the_call_sites():
    k = Kit()

    def body(k, x):
        k.span = Span("lib.py", 3, 4)
        k.return_(k.binary("div", k.u32(1), x))

    fn = k.function("inverse", [u32], u32, body)

    def outer(k, x):
        k.span = Span("lib.py", 9, 8)
        k.return_(k.call(fn, (x,)))

    outer_fn = k.function("outer", [u32], u32, outer)
    k.span = Span("kernel.py", 20, 12)
    k.put(k.storage("out", u32), k.gid(), k.call(outer_fn, (k.gid(),)))
    module = k.module()
    for m in (module, inline(module)):
        with pytest.raises(InterpError) as caught:
            results(m)
        lines = [line for line in str(caught.value).splitlines() if "note" in line or "error" in line]
        assert lines == ["lib.py:3:5: error[interp]: division of 1 by zero, in global_id (0, 0, 0)",
                         "note: called from lib.py:9:9", "note: called from kernel.py:20:13"]


def test_locals_of_each_call_are_their_own():
    k = Kit()

    def body(k, x):
        v = k.local(Vector(f32, 2), "v")
        k.store(v, k.splat(k.convert(x, f32), 2))
        k.return_(k.convert(k.extract(k.load(v), 1), u32))

    fn = k.function("f", [u32], u32, body)
    a, b = k.call(fn, (k.gid(),)), k.call(fn, (k.u32(5),))
    k.put(k.storage("out", u32), k.gid(), k.binary("add", a, b))
    made = inline(k.module())
    assert sum(n.op == "local" for n in walk(made.entry.body)) == 2
    assert results(made) == [i + 5 for i in range(32)]


def test_size_limit_and_recursion():
    k = Kit()
    f = k.function("f", [u32], u32, lambda k, x: k.return_(k.binary("mul", x, x)))
    value = k.gid()
    for _ in range(50):
        k.span = Span("kernel.py", 5, 0)
        value = k.call(f, (value,))
    k.put(k.storage("out", u32), k.gid(), value)
    module = k.module()
    inline(module, budget=100)
    with pytest.raises(CompileError) as caught:
        inline(module, budget=99)
    assert caught.value.code == "E0408" and caught.value.span.line == 5

    k = Kit()
    g = k.function("g", [u32], u32, lambda k, x: k.return_(x))
    with k.at(g.body):
        g.body.nodes.insert(0, k.node("call", u32, (g.params[0],), function=g))
        g.body.nodes.pop()
    k.call(g, (k.gid(),))
    with pytest.raises(CompileError) as caught:
        inline(k.module())
    assert caught.value.code == "E0109"
