"""Every arithmetic op of the IR against Python integers or float64, per lane and in uniform values."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from spirvdsl.interp.values import dtype_of, round_bf16
from spirvdsl.ir.nodes import FloatControls
from spirvdsl.lang.types import (
    SCALARS,
    Scalar,
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
    u8,
    u16,
    u32,
    u64,
    with_scalar,
)

from .harness import Kit, apply

INTS = [i8, i16, i32, i64, u8, u16, u32, u64]
FLOATS = [f16, f32, f64]


def numbers(s: Scalar, seed: int, n: int = 64, zero: bool = True) -> np.ndarray:
    """Random values of a type with its extremes among them."""
    rng = np.random.default_rng([seed, s.bits])
    if s.is_float:
        values = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)
        values[:4] = [0.0 if zero else 1.0, -1.0, 65504.0 if s.bits == 16 else 1e30, 2.0**-14]
        return values.astype(dtype_of(s))
    if s.is_bool:
        return rng.integers(0, 2, n).astype(bool)
    lo, hi = s.range()
    raw = rng.integers(lo, hi, n, dtype=dtype_of(s), endpoint=True)
    raw[:4] = [lo, hi, 1, 0 if zero else 2]
    return raw if zero else np.where(raw == 0, dtype_of(s).type(3), raw)


def wrap(s: Scalar, v: int) -> int:
    v &= (1 << s.bits) - 1
    return v - (1 << s.bits) if s.is_signed and v >> (s.bits - 1) else v


def trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


PYTHON = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": trunc,
    "rem": lambda a, b: a - b * trunc(a, b), "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def both(body, types, result, *columns, **options) -> np.ndarray:
    """Per-lane results, after checking that uniform evaluation gives the same first row."""
    lanes = apply(body, types, result, *columns, **options)
    alone = apply(body, types, result, *columns, uniform=True, **options)
    np.testing.assert_array_equal(lanes[:1], alone)
    return lanes


@pytest.mark.parametrize("s", INTS, ids=str)
@pytest.mark.parametrize("op", sorted(PYTHON))
def test_int_binary(op, s):
    a, b = numbers(s, 1), numbers(s, 2, zero=op not in ("div", "rem"))
    if s.is_signed and op in ("div", "rem"):
        b = np.where((a == s.range()[0]) & (b == -1), dtype_of(s).type(3), b)
    got = both(lambda k, x, y: k.binary(op, x, y), [s, s], bool_ if op in COMPARE else s, a, b)
    exact = [PYTHON[op](x, y) for x, y in zip(a.tolist(), b.tolist())]
    np.testing.assert_array_equal(got, exact if op in COMPARE else [wrap(s, v) for v in exact])
    assert len(set(np.asarray(got).tolist())) > 1


@pytest.mark.parametrize("s", INTS, ids=str)
def test_int_unary_and_shifts(s):
    a = numbers(s, 3)
    n = (np.arange(64) % s.bits).astype(dtype_of(s))
    assert both(lambda k, x: k.unary("neg", x), [s], s, a).tolist() == [wrap(s, -x) for x in a.tolist()]
    assert both(lambda k, x: k.unary("not", x), [s], s, a).tolist() == [wrap(s, ~x) for x in a.tolist()]
    shl = both(lambda k, x, y: k.binary("shl", x, y), [s, s], s, a, n)
    shr = both(lambda k, x, y: k.binary("shr", x, y), [s, u32], s, a, n.astype(np.uint32))
    assert shl.tolist() == [wrap(s, x << y) for x, y in zip(a.tolist(), n.tolist())]
    assert shr.tolist() == [x >> y for x, y in zip(a.tolist(), n.tolist())]


@pytest.mark.parametrize("s", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "rem", *COMPARE])
def test_float_binary(op, s):
    a, b = numbers(s, 4), numbers(s, 5, zero=False)
    with np.errstate(all="ignore"):
        if op in COMPARE:
            expected = [PYTHON[op](x, y) for x, y in zip(a.tolist(), b.tolist())]
        elif op == "rem":
            expected = np.array([math.fmod(x, y) for x, y in zip(a.tolist(), b.tolist())]).astype(a.dtype)
        else:  # one rounding of the exact result; f64 has more than twice the bits of f16 and f32
            wide = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
            expected = wide(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)
    got = both(lambda k, x, y: k.binary(op, x, y), [s, s], bool_ if op in COMPARE else s, a, b)
    np.testing.assert_array_equal(got, expected)


def test_nan_compares_as_ordered():
    a, b = np.float32([np.nan, 1, np.nan, 2]), np.float32([1, np.nan, np.nan, 2])
    for op in COMPARE:
        got = apply(lambda k, x, y, op=op: k.binary(op, x, y), [f32, f32], bool_, a, b)
        assert got.tolist() == [op == "ne"] * 3 + [op in ("eq", "le", "ge")]
    assert apply(lambda k, x: k.node("is_nan", bool_, (x,)), [f32], bool_, a).tolist() == [True, False, True, False]
    inf = np.float32([np.inf, -np.inf, np.nan, 1])
    assert apply(lambda k, x: k.node("is_inf", bool_, (x,)), [f32], bool_, inf).tolist() == [True, True, False, False]


@pytest.mark.parametrize("lanes", [2, 3, 4])
@pytest.mark.parametrize("s", [f32, i16, u8], ids=str)
def test_vectors_work_per_component(s, lanes):
    t = Vector(s, lanes)
    a, b = (numbers(s, seed, 64 * lanes, zero=False).reshape(64, lanes) for seed in (6, 7))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(both(lambda k, x, y: k.binary("mul", x, y), [t, t], t, a, b), a * b)
    np.testing.assert_array_equal(both(lambda k, x, y: k.binary("lt", x, y), [t, t], with_scalar(t, bool_), a, b), a < b)
    picked = both(lambda k, x, y: k.select(k.binary("lt", x, y), x, y), [t, t], t, a, b)
    np.testing.assert_array_equal(picked, np.where(a < b, a, b))
    some = both(lambda k, x, y: k.node("any", bool_, (k.binary("lt", x, y),)), [t, t], bool_, a, b)
    every = both(lambda k, x, y: k.node("all", bool_, (k.binary("lt", x, y),)), [t, t], bool_, a, b)
    np.testing.assert_array_equal(some, (a < b).any(axis=1))
    np.testing.assert_array_equal(every, (a < b).all(axis=1))
    last = both(lambda k, x: k.extract(x, lanes - 1), [t], s, a)
    np.testing.assert_array_equal(last, a[:, -1])
    lane = np.arange(64, dtype=np.uint32) % lanes
    chosen = both(lambda k, x, i: k.node("extract_dynamic", s, (x, i)), [t, u32], s, a, lane)
    np.testing.assert_array_equal(chosen, a[np.arange(64), lane])
    put = both(lambda k, x, y: k.node("insert", t, (x, k.extract(y, 0)), index=1), [t, t], t, a, b)
    np.testing.assert_array_equal(put, np.insert(np.delete(a, 1, 1), 1, b[:, 0], axis=1))
    order = (lanes, 0, 1)[:lanes]
    mixed = both(lambda k, x, y: k.node("shuffle", Vector(s, len(order)), (x, y), lanes=order), [t, t], Vector(s, len(order)), a, b)
    np.testing.assert_array_equal(mixed, np.concatenate([a, b], axis=1)[:, list(order)])
    spread = both(lambda k, x: k.splat(k.extract(x, 1), lanes), [t], t, a)
    np.testing.assert_array_equal(spread, np.repeat(a[:, 1:2], lanes, axis=1))


def test_vector_of_parts():
    pair, one = np.float32([[1, 2], [3, 4]]), np.float32([5, 6])
    got = both(lambda k, v, x: k.vector(f32, (v, x, x), 4), [Vector(f32, 2), f32], Vector(f32, 4), pair, one)
    assert got.tolist() == [[1, 2, 5, 5], [3, 4, 6, 6]]


@pytest.mark.parametrize("dst", [t for t in SCALARS.values() if t is not bool_], ids=str)
@pytest.mark.parametrize("src", [t for t in SCALARS.values() if t is not bool_], ids=str)
def test_convert(src, dst):
    if src.is_float and dst.is_int:
        lo, hi = dst.range()
        low = max(lo, -60000) if lo else -0.99
        a = np.linspace(low, min(hi, 60000), 64)
        a = round_bf16(a) if src is bf16 else a.astype(dtype_of(src))
        a = a[(a.astype(np.float64) >= low) & (a.astype(np.float64) <= hi)]
    else:
        a = round_bf16(numbers(f32, 8)) if src is bf16 else numbers(src, 8)
        if src.is_float:
            a = np.where(np.abs(a) > 1e4, 1, a).astype(a.dtype)
    got = both(lambda k, x: k.convert(x, dst), [src], dst, a)
    if dst.is_int:
        expected = [wrap(dst, math.trunc(x)) for x in a.tolist()]
    elif dst is bf16:
        expected = [bf16_of(x) for x in a.tolist()]
    else:
        expected = [nearest(x, dst) for x in a.tolist()]
    np.testing.assert_array_equal(got, np.array(expected))


def nearest(x, dst: Scalar) -> float:
    """`x` (int or float) rounded once to f16, f32 or f64, by exact comparison of the neighbours."""
    exact = Fraction(x)
    with np.errstate(over="ignore"):
        guess = dtype_of(dst).type(float(x))
    near = [guess, np.nextafter(guess, guess.dtype.type(np.inf)), np.nextafter(guess, guess.dtype.type(-np.inf))]
    if not np.isfinite(guess):
        return float(guess)
    kind = np.dtype(f"u{dst.bits // 8}")
    return float(min((v for v in near if np.isfinite(v)), key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(kind)) & 1)))


def bf16_of(x) -> float:
    """`x` rounded once to bf16: the neighbours are f32 values with 16 zero bits."""
    exact = Fraction(x)
    bits = int(np.float32(x).view(np.uint32)) >> 16
    near = [np.uint32((bits + d) << 16).view(np.float32) for d in (-1, 0, 1) if 0 <= bits + d]
    near = [v for v in near if np.isfinite(v)]
    return float(min(near, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) >> 16 & 1)))


def test_bool_converts_to_numbers():
    a = np.uint32([0, 1, 2])
    for t in (f32, i8, u64):
        got = apply(lambda k, x, t=t: k.convert(k.binary("eq", x, k.u32(1)), t), [u32], t, a)
        assert got.tolist() == [0, 1, 0]


@pytest.mark.parametrize("src, dst", [
    (f32, u32), (u32, f32), (i32, u32), (f16, u16), (i64, f64), (u32, Vector(u8, 4)), (Vector(i8, 4), u32), (u32, Vector(f16, 2)),
    (Vector(u32, 2), u64), (u64, Vector(u32, 2)), (Vector(u32, 2), Vector(f16, 4)), (Vector(f32, 3), Vector(i32, 3)), (bf16, u16),
    (u32, Vector(bf16, 2)), (u64, Vector(u16, 4)),
], ids=str)  # fmt: skip
def test_bitcast(src, dst):
    elem = src.elem if isinstance(src, Vector) else src
    lanes = src.lanes if isinstance(src, Vector) else 1
    bits = np.random.default_rng(9).integers(0, 0x3F, (16, lanes * elem.bits // 8), dtype=np.uint8)
    a = bits.view(np.uint16 if elem is bf16 else dtype_of(elem))
    bytes_before = np.ascontiguousarray(a).view(np.uint8).reshape(16, -1)
    if elem is bf16:
        a = (a.astype(np.uint32) << 16).view(np.float32)
    got = both(lambda k, x: k.bitcast(x, dst), [src], dst, a if lanes > 1 else a[:, 0])
    if (dst.elem if isinstance(dst, Vector) else dst) is bf16:
        got = (np.ascontiguousarray(got).view(np.uint32) >> 16).astype(np.uint16)
    np.testing.assert_array_equal(np.ascontiguousarray(got).view(np.uint8).reshape(16, -1), bytes_before)


def test_bf16_arithmetic_rounds_each_result():
    a, b = round_bf16(numbers(f32, 10)), round_bf16(numbers(f32, 11))
    got = both(lambda k, x, y: k.binary("add", x, y), [bf16, bf16], bf16, a, b)
    np.testing.assert_array_equal(got, [bf16_of(float(x) + float(y)) for x, y in zip(a, b)])


def test_subnormals_are_kept_unless_flushed():
    a = np.float32([1e-39, 2.0**-126, 1.0])
    half = np.float32([1.0, 0.5, 0.5])
    mul = (lambda k, x, y: k.binary("mul", x, y)), [f32, f32], f32
    np.testing.assert_array_equal(apply(*mul, a, half), a * half)
    flushed = apply(*mul, a, half, controls=FloatControls(denorm_flush=(32,)))
    assert flushed.tolist() == [0.0, 0.0, 0.5]


def test_struct_and_array_values():
    from spirvdsl.lang.types import Array, Field, Struct

    pair = Struct("Pair", (Field("a", f32), Field("b", Array(u32, 2))))

    def body(k: Kit, x, y):
        made = k.node("struct", pair, (x, k.node("array", Array(u32, 2), (y, k.u32(7)))))
        again = k.node("insert", pair, (made, k.binary("mul", x, x)), index=0)
        total = k.binary("add", k.convert(k.extract(again, 0), u32), k.node("extract", u32, (again,), index=(1, 0)))
        return k.binary("add", total, k.node("extract", u32, (again,), index=(1, 1)))

    assert both(body, [f32, u32], u32, np.float32([2, 3]), np.uint32([10, 20])).tolist() == [21, 36]
