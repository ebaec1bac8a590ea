"""One small kernel per IR operation and variant: the table that the lowering, census and determinism tests walk.

A case is registered with the keys it covers, e.g. "op:add" or "math:fma"; test_lowering.py asserts that every operation of
spirvdsl.ir.ops is covered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from spirvdsl.compiled import CompiledKernel
from spirvdsl.ir.nodes import Module
from spirvdsl.ir.ops import MATH
from spirvdsl.lang.types import (
    Array,
    Field,
    Struct,
    Type,
    Vector,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    scalar_of,
    u8,
    u16,
    u32,
    u64,
    with_scalar,
)  # fmt: skip
from spirvdsl.spirv import compile_module
from spirvdsl.spirv.lower_group import ATOMICS, PLAIN, REDUCTIONS

from .kit import Kit

CASES: dict[str, tuple[Callable[[], Module], tuple[str, ...]]] = {}


@cache
def compiled(name: str) -> CompiledKernel:
    """A case compiled once per process."""
    return compile_module(CASES[name][0]())


def case(name: str, *covers: str) -> Callable:
    """Register a function that fills a Kit."""

    def register(fill: Callable[[Kit], None]) -> Callable[[Kit], None]:
        def make() -> Module:
            kit = Kit(name.replace(".", "_"))
            fill(kit)
            return kit.module()

        assert name not in CASES, name
        CASES[name] = (make, covers)
        return fill

    return register


FLOATS: tuple[Type, ...] = (f32, f16, f64, Vector(f32, 4), Vector(f16, 2))
INTS: tuple[Type, ...] = (i32, u32, i64, u64, i16, u16, i8, u8, Vector(i32, 2), Vector(u32, 3), Vector(u8, 4), Vector(i16, 2))
BOOLS: tuple[Type, ...] = (bool_, Vector(bool_, 3))


def _binary(kit: Kit, op: str, t: Type) -> None:
    kit.keep(kit.binary(op, kit.input(t), kit.input(t)))


def _unary(kit: Kit, op: str, t: Type) -> None:
    kit.keep(kit.unary(op, kit.input(t)))


def _register_arithmetic() -> None:
    groups = {
        "add": FLOATS + INTS, "sub": FLOATS + INTS, "mul": FLOATS + INTS, "div": FLOATS + INTS, "rem": FLOATS + INTS,
        "and": INTS + BOOLS, "or": INTS + BOOLS, "xor": INTS + BOOLS, "shl": INTS, "shr": INTS,
        "eq": FLOATS + INTS + BOOLS, "ne": FLOATS + INTS + BOOLS,
        "lt": FLOATS + INTS, "le": FLOATS + INTS, "gt": FLOATS + INTS, "ge": FLOATS + INTS,
    }  # fmt: skip
    for op, types in groups.items():
        for t in types:
            case(f"{op}.{t}", f"op:{op}")(partial(_binary, op=op, t=t))
    for op, types in {"neg": FLOATS + INTS, "not": INTS + BOOLS}.items():
        for t in types:
            case(f"{op}.{t}", f"op:{op}")(partial(_unary, op=op, t=t))


_register_arithmetic()


def _convert(kit: Kit, source: Type, target: Type) -> None:
    kit.keep(kit.convert(kit.input(source), target))


def _register_conversions() -> None:
    scalars = (bool_, f16, f32, f64, bf16, i8, i16, i32, i64, u8, u16, u32, u64)
    for a in scalars:
        for b in scalars[1:]:
            if a != b:
                case(f"convert.{a}.{b}", "op:convert")(partial(_convert, source=a, target=b))
    for a, b in ((f32, f16), (u8, f32), (i8, i32), (u8, i32), (bool_, f32), (u32, i8)):
        case(f"convert.{a}x4.{b}x4", "op:convert")(partial(_convert, source=Vector(a, 4), target=Vector(b, 4)))


_register_conversions()


def _bitcast(kit: Kit, source: Type, target: Type) -> None:
    kit.keep(kit.bitcast(kit.input(source), target))


for _a, _b in (
    (u32, f32), (f32, i32), (u32, Vector(u8, 4)), (Vector(i8, 4), u32), (u32, Vector(f16, 2)), (Vector(i16, 2), u32), (u64, Vector(u32, 2)),
    (Vector(u32, 4), Vector(f32, 4)), (u16, f16), (bf16, u16), (u8, i8), (Vector(u32, 2), Vector(f16, 4)),
):  # fmt: skip
    case(f"bitcast.{_a}.{_b}", "op:bitcast")(partial(_bitcast, source=_a, target=_b))


@case("composites", "op:vector", "op:splat", "op:extract", "op:extract_dynamic", "op:insert", "op:shuffle", "op:any", "op:all")
def _composites(kit: Kit) -> None:
    a, b = kit.input(f32), kit.input(Vector(f32, 2))
    v = kit.vector(f32, (a, b, a), 4)
    kit.keep(v)
    kit.keep(kit.splat(a, 3))
    kit.keep(kit.extract(v, 2))
    kit.keep(kit.node("extract_dynamic", f32, (v, kit.gid())))
    kit.keep(kit.node("insert", v.type, (v, a), index=1))
    kit.keep(kit.node("shuffle", Vector(f32, 3), (v, b), lanes=(3, 4, 0)))
    kit.keep(kit.node("shuffle", f32, (v, b), lanes=(5,)))
    mask = kit.binary("lt", v, kit.splat(a, 4))
    kit.keep(kit.node("any", bool_, (mask,)))
    kit.keep(kit.node("all", bool_, (mask,)))
    kit.keep(kit.splat(kit.const(f32, 2.0), 4))
    kit.keep(kit.vector(f32, (kit.const(Vector(f32, 2), (1.0, 2.0)), kit.const(Vector(f32, 2), (3.0, 4.0))), 4))


@case("select", "op:select", "op:is_nan", "op:is_inf")
def _select(kit: Kit) -> None:
    a, b = kit.input(Vector(f32, 3)), kit.input(Vector(f32, 3))
    cond = kit.input(bool_)
    kit.keep(kit.select(cond, a, b))
    kit.keep(kit.select(kit.binary("lt", a, b), a, b))
    kit.keep(kit.select(cond, kit.extract(a, 0), kit.extract(b, 1)))
    kit.keep(kit.node("is_nan", Vector(bool_, 3), (a,)))
    kit.keep(kit.node("is_inf", bool_, (kit.extract(a, 0),)))


@case("constants", "op:const", "op:undef", "op:spec_const")
def _constants(kit: Kit) -> None:
    for t, value in ((f32, float("nan")), (f32, float("-inf")), (f16, 0.1), (f64, 1e300), (i8, -5), (u8, 250), (i16, -1), (i64, -(1 << 40)), (u64, (1 << 64) - 1)):
        kit.keep(kit.const(t, value))
    kit.keep(kit.const(bf16, 1.5))
    kit.keep(kit.const(bool_, True))
    kit.keep(kit.const(Vector(u32, 3), (1, 2, 3)))
    table = kit.const(Array(Array(f32, 2), 2), ((1.0, 2.0), (3.0, 4.0)))
    kit.keep(kit.node("extract", f32, (table,), index=(1, 0)))
    kit.keep(kit.node("undef", u32))
    kit.keep(kit.spec("rows", u32, 7))
    kit.keep(kit.spec("scale", f32, 0.5))
    kit.keep(kit.spec("fast", bool_, True))


@case("builtins", "op:builtin")
def _builtins(kit: Kit) -> None:
    for name in ("global_id", "group_id", "num_groups", "local_id", "local_index", "subgroup_id", "num_subgroups", "subgroup_size", "subgroup_lane"):
        kit.keep(kit.builtin(name))


BLOCK = Struct("Block", (Field("d", f16), Field("m", f16), Field("q", Array(u32, 4))))
WIDE = Struct("Wide", (Field("d", f16), Field("q", Array(u8, 32))))
NEST = Struct("Nest", (Field("head", Vector(f32, 3)), Field("blocks", Array(BLOCK, 2)), Field("tail", bf16)))


@case("memory", "op:resource", "op:index", "op:member", "op:load", "op:store", "op:local", "op:array_length")
def _memory(kit: Kit) -> None:
    blocks, out = kit.buffer("blocks", NEST, "in"), kit.buffer("out", f32)
    i = kit.gid()
    block = kit.index(kit.member(kit.index(blocks, i), 1), kit.const(u32, 1))
    kit.store(kit.index(out, i), kit.convert(kit.load(kit.member(block, 0)), f32))
    kit.store(kit.index(out, i), kit.load(kit.index(kit.member(kit.index(blocks, i), 0), i), volatile=True), volatile=True)
    kit.keep(kit.node("array_length", u32, (blocks,)))
    table = kit.local(Array(Vector(f32, 4), 3), "table")
    kit.store(kit.index(table, i), kit.input(Vector(f32, 4)))
    kit.keep(kit.load(kit.index(kit.index(table, kit.const(i32, 2)), i)))
    kit.keep(kit.load(kit.local(bool_, "flag")))


@case("memory.struct", "op:struct", "op:array")
def _struct(kit: Kit) -> None:
    """Small and large composites through buffers, locals, workgroup memory and functions."""
    for t in (BLOCK, WIDE, NEST):
        source, target = kit.buffer(f"src_{t.title}", t, "in"), kit.buffer(f"dst_{t.title}", t, "out")
        value = kit.load(kit.index(source, kit.gid()))
        copy = kit.local(t, f"copy_{t.title}")
        kit.store(copy, value)
        kit.store(kit.index(target, kit.gid()), kit.load(copy))
        kit.store(kit.index(kit.declare("workgroup", f"stage_{t.title}", Array(t, 2)), kit.const(u32, 0)), value)
    q = kit.node("array", Array(u32, 4), tuple(kit.input(u32) for _ in range(4)))
    built = kit.node("struct", BLOCK, (kit.input(f16), kit.const(f16, 1.0), q))
    kit.keep(built)
    kit.keep(kit.node("extract", u32, (built,), index=(2, 3)))


@case("memory.push", "op:member")
def _push(kit: Kit) -> None:
    t = Struct("Push", (Field("n", u32), Field("scale", f32), Field("base", u64), Field("shape", Array(u32, 3)), Field("h", f16), Field("b", u8)))
    push = kit.declare("push", "push", t)
    for i in (0, 1, 2, 4, 5):
        kit.keep(kit.load(kit.member(push, i)))
    kit.keep(kit.load(kit.index(kit.member(push, 3), kit.gid())))


@case("memory.uniform", "op:member")
def _uniform(kit: Kit) -> None:
    inner = Struct("Inner", (Field("a", Vector(f32, 4)), Field("b", Vector(u32, 3))))
    uniform = kit.declare("uniform", "args", Struct("Args", (Field("n", u32), Field("inner", Array(inner, 2)), Field("h", Vector(f16, 2)))))
    kit.keep(kit.load(kit.member(uniform, 0)))
    kit.keep(kit.load(kit.member(kit.index(kit.member(uniform, 1), kit.gid()), 1)))
    kit.keep(kit.load(kit.member(uniform, 2)))


@case("memory.storage_only")
def _storage_only(kit: Kit) -> None:
    """8- and 16-bit values that are only loaded, stored and width-converted: no Int8, Int16, Float16."""
    kit.keep(kit.convert(kit.input(u8), u32))
    kit.keep(kit.convert(kit.input(f16), f32))
    kit.keep(kit.convert(kit.convert(kit.input(i8), i32), i16))
    kit.keep(kit.convert(kit.input(f32), bf16))


@case("memory.aliased")
def _aliased(kit: Kit) -> None:
    words, floats = kit.buffer("words", u32, "in", binding=3), kit.buffer("floats", f32, "in", binding=3)
    kit.keep(kit.load(kit.index(words, kit.gid())))
    kit.keep(kit.load(kit.index(floats, kit.gid())))


def _math(kit: Kit, fn: str, t: Type) -> None:
    a = kit.input(t)
    special = {
        "ldexp": lambda: kit.math(fn, a, kit.input(with_scalar(t, i32))),
        "length": lambda: kit.math(fn, a, type=scalar_of(t)),
        "bit_extract": lambda: kit.math(fn, a, kit.input(u32), kit.input(u32)),
        "pack_half_2x16": lambda: kit.math(fn, a, type=u32),
        "unpack_half_2x16": lambda: kit.math(fn, a, type=Vector(f32, 2)),
    }
    kit.keep(special[fn]() if fn in special else kit.math(fn, *([a] + [kit.input(t) for _ in range(MATH[fn].arity - 1)])))


def _math_types(fn: str) -> tuple[Type, ...]:
    if fn == "cross":
        return (Vector(f32, 3), Vector(f16, 3))
    if fn == "pack_half_2x16":
        return (Vector(f32, 2),)
    if fn == "unpack_half_2x16":
        return (u32,)
    info = MATH[fn]
    floats = (f32, f16, Vector(f32, 3)) if info.float_op else ()
    return floats + ((i32,) if info.signed_op else ()) + ((u32, Vector(u32, 2)) if info.unsigned_op else ())


for _fn in MATH:
    for _t in _math_types(_fn):
        case(f"math.{_fn}.{_t}", "op:math", f"math:{_fn}")(partial(_math, fn=_fn, t=_t))


@case("dot", "op:dot")
def _dot(kit: Kit) -> None:
    for t in (Vector(f32, 4), Vector(f16, 2)):
        kit.keep(kit.node("dot", t.elem, (kit.input(t), kit.input(t))))


@case("int_dot", "op:int_dot")
def _int_dot(kit: Kit) -> None:
    for a, b, signed_a, signed_b in ((i32, i32, True, True), (u32, u32, False, False), (i32, u32, True, False), (u32, u32, False, True), (u32, i32, True, True)):
        result = i32 if signed_a or signed_b else u32
        x, y = kit.input(a), kit.input(b)
        kit.keep(kit.node("int_dot", result, (x, y), signed_a=signed_a, signed_b=signed_b))
        kit.keep(kit.node("int_dot", result, (x, y, kit.input(result)), signed_a=signed_a, signed_b=signed_b, saturate=True))


def _atomic(kit: Kit, fn: str, t: Type, storage: str) -> None:
    if storage == "storage":
        place = kit.index(kit.buffer("cells", t), kit.gid())
    else:
        place = kit.index(kit.declare("workgroup", "cells", Array(t, 4)), kit.gid())
    scope = "device" if storage == "storage" else "workgroup"
    if fn == "store":
        kit.node("atomic", None, (place, kit.input(t)), fn=fn, scope=scope)
        return
    count = {"load": 0, "compare_exchange": 2}.get(fn, 1)
    kit.keep(kit.node("atomic", t, (place, *(kit.input(t) for _ in range(count))), fn=fn, scope=scope))


for _fn, _ops in ATOMICS.items():
    for _t in (i32, u32, u64) + ((f32,) if "f" in _ops else ()):
        for _storage in ("storage", "workgroup"):
            case(f"atomic.{_fn}.{_t}.{_storage}", "op:atomic", f"atomic:{_fn}")(partial(_atomic, fn=_fn, t=_t, storage=_storage))


@case("barriers", "op:barrier", "op:memory_barrier")
def _barriers(kit: Kit) -> None:
    for scope in ("workgroup", "subgroup"):
        for memory in ((), ("workgroup",), ("storage",), ("workgroup", "storage")):
            kit.node("barrier", None, scope=scope, memory=memory)
    for scope in ("device", "workgroup", "subgroup"):
        kit.node("memory_barrier", None, scope=scope, memory=("storage", "workgroup"))


def _reduce(kit: Kit, fn: str, t: Type) -> None:
    x = kit.input(t)
    for mode in ("reduce", "inclusive", "exclusive"):
        kit.keep(kit.node("subgroup", t, (x,), fn=fn, mode=mode, cluster=None))
    kit.keep(kit.node("subgroup", t, (x,), fn=fn, mode="reduce", cluster=8))


for _fn, _ops in REDUCTIONS.items():
    _types = ((f32, Vector(f32, 4), f16) if "f" in _ops else ()) + (i32, u32, u64) + ((bool_,) if "b" in _ops else ())
    for _t in _types:
        case(f"subgroup.{_fn}.{_t}", "op:subgroup", f"subgroup:{_fn}")(partial(_reduce, fn=_fn, t=_t))


def _subgroup(kit: Kit, fn: str, t: Type) -> None:
    """fn that takes any value and a lane, mask or delta."""
    second = {"quad_broadcast": kit.const(u32, 2)}.get(fn) or kit.input(u32)
    kit.keep(kit.node("subgroup", t, (kit.input(t), second), fn=fn))


for _fn in ("broadcast", "shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "quad_broadcast", "rotate"):
    for _t in (f32, Vector(u32, 2), f16, bool_):
        case(f"subgroup.{_fn}.{_t}", f"subgroup:{_fn}")(partial(_subgroup, fn=_fn, t=_t))


@case("subgroup.vote", *(f"subgroup:{fn}" for fn in ("elect", "all", "any", "all_equal", "ballot", "broadcast_first", "inverse_ballot")))
def _vote(kit: Kit) -> None:
    cond, x = kit.input(bool_), kit.input(f32)
    kit.keep(kit.node("subgroup", bool_, (), fn="elect"))
    for fn in ("all", "any"):
        kit.keep(kit.node("subgroup", bool_, (cond,), fn=fn))
    kit.keep(kit.node("subgroup", bool_, (x,), fn="all_equal"))
    ballot = kit.node("subgroup", Vector(u32, 4), (cond,), fn="ballot")
    kit.keep(ballot)
    kit.keep(kit.node("subgroup", bool_, (ballot,), fn="inverse_ballot"))
    kit.keep(kit.node("subgroup", f32, (x,), fn="broadcast_first"))


@case("subgroup.special", "subgroup:broadcast", "subgroup:quad_swap", "subgroup:ballot_bit_count")
def _special(kit: Kit) -> None:
    x = kit.input(f32)
    kit.keep(kit.node("subgroup", f32, (x, kit.const(u32, 3)), fn="broadcast"))
    for direction in (0, 1, 2):
        kit.keep(kit.node("subgroup", f32, (x,), fn="quad_swap", direction=direction))
    ballot = kit.node("subgroup", Vector(u32, 4), (kit.input(bool_),), fn="ballot")
    for mode in ("reduce", "inclusive", "exclusive"):
        kit.keep(kit.node("subgroup", u32, (ballot,), fn="ballot_bit_count", mode=mode))


SUBGROUP_FNS = (*PLAIN, *REDUCTIONS, "broadcast", "quad_swap", "ballot_bit_count")
