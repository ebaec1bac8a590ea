"""GLSL.std.450 functions and dot products against math, fractions and plain Python."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from spirvdsl.interp.mathfn import fma
from spirvdsl.interp.values import dtype_of
from spirvdsl.ir.ops import MATH
from spirvdsl.lang.types import Vector, f16, f32, f64, i8, i32, i64, lanes_of, u8, u16, u32, u64

from .harness import apply
from .test_ops import both, numbers, wrap

REAL = {
    "abs": abs, "sign": lambda x: (x > 0) - (x < 0), "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
    "fract": lambda x: x - math.floor(x), "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "exp": math.exp, "exp2": lambda x: 2.0**x,
    "log": math.log, "log2": math.log2, "pow": math.pow, "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin,
    "acos": math.acos, "atan": math.atan, "atan2": math.atan2, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "min": min, "max": max,
    "clamp": lambda x, lo, hi: min(max(x, lo), hi), "mix": lambda x, y, a: x * (1 - a) + y * a, "step": lambda e, x: float(x >= e),
    "smoothstep": lambda lo, hi, x: (lambda t: t * t * (3 - 2 * t))(min(max((x - lo) / (hi - lo), 0), 1)), "fma": lambda a, b, c: a * b + c,
}  # fmt: skip
POSITIVE, UNIT = ("sqrt", "rsqrt", "log", "log2", "pow"), ("asin", "acos")
ALGEBRA = ("mix", "smoothstep", "fma", "fract")  # several roundings, or cancellation: an absolute bar


def inputs(fn: str, s, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.01 if fn in POSITIVE else -0.99 if fn in UNIT else -6, 0.99 if fn in UNIT else 6, 64)
    return values.astype(dtype_of(s))


@pytest.mark.parametrize("s", [f16, f32, f64], ids=str)
@pytest.mark.parametrize("fn", sorted(REAL))
def test_real_functions(fn, s):
    columns = [inputs(fn, s, seed) for seed in range(MATH[fn].arity)]
    if fn in ("clamp", "smoothstep"):
        pair = (1, 2) if fn == "clamp" else (0, 1)
        low, high = np.minimum(columns[pair[0]], columns[pair[1]]), np.maximum(columns[pair[0]], columns[pair[1]]) + dtype_of(s).type(1)
        columns[pair[0]], columns[pair[1]] = low, high
    got = both(lambda k, *x: k.math(fn, *x), [s] * len(columns), s, *columns)
    expected = np.array([REAL[fn](*row) for row in zip(*(c.tolist() for c in columns))])
    info = np.finfo(dtype_of(s))
    eps = float(info.eps) * (4 if s is f64 else 1.01)  # libm and numpy differ by an ulp or two in f64
    loose = fn in ALGEBRA
    np.testing.assert_allclose(got.astype(float), expected, rtol=0 if loose else eps, atol=64 * eps if loose else float(info.smallest_subnormal))


def test_round_is_half_to_even():
    got = both(lambda k, x: k.math("round", x), [f32], f32, np.float32([0.5, 1.5, 2.5, -0.5, -1.5]))
    assert got.tolist() == [0, 2, 2, 0, -2]


@pytest.mark.parametrize("s", [i8, i32, i64, u8, u32, u64], ids=str)
def test_integer_functions(s):
    a, b, c = (numbers(s, seed) for seed in (20, 21, 22))
    rows = list(zip(a.tolist(), b.tolist(), c.tolist()))
    assert both(lambda k, x, y: k.math("min", x, y), [s, s], s, a, b).tolist() == [min(x, y) for x, y, _ in rows]
    assert both(lambda k, x, y: k.math("max", x, y), [s, s], s, a, b).tolist() == [max(x, y) for x, y, _ in rows]
    low, high = np.minimum(b, c), np.maximum(b, c)
    assert both(lambda k, x, y, z: k.math("clamp", x, y, z), [s] * 3, s, a, low, high).tolist() == np.clip(a, low, high).tolist()
    if s.is_signed:
        assert both(lambda k, x: k.math("abs", x), [s], s, a).tolist() == [wrap(s, abs(x)) for x in a.tolist()]
        assert both(lambda k, x: k.math("sign", x), [s], s, a).tolist() == [(x > 0) - (x < 0) for x in a.tolist()]
    words = [x & ((1 << s.bits) - 1) for x in a.tolist()]
    assert both(lambda k, x: k.math("bit_count", x), [s], s, a).tolist() == [w.bit_count() for w in words]
    reversed_ = [wrap(s, int(f"{w:0{s.bits}b}"[::-1], 2)) for w in words]
    assert both(lambda k, x: k.math("bit_reverse", x), [s], s, a).tolist() == reversed_
    lowest = [wrap(s, (w & -w).bit_length() - 1) for w in words]
    assert both(lambda k, x: k.math("find_lsb", x), [s], s, a).tolist() == lowest
    highest = [wrap(s, ((~x if x < 0 else x) if s.is_signed else x).bit_length() - 1) for x in a.tolist()]
    assert both(lambda k, x: k.math("find_msb", x), [s], s, a).tolist() == highest


@pytest.mark.parametrize("s", [i32, u32], ids=str)
def test_bit_extract(s):
    a = numbers(s, 23)
    at = (np.arange(64) % 33).astype(np.uint32)
    count = np.minimum(np.arange(64) * 7 % 33, 32 - at).astype(np.uint32)
    got = both(lambda k, x, y, z: k.math("bit_extract", x, y, z), [s, u32, u32], s, a, at, count)
    fields = [((int(x) & 0xFFFFFFFF) >> int(y)) & ((1 << int(n)) - 1) for x, y, n in zip(a, at, count)]
    signed = [f - (1 << int(n)) if s.is_signed and n and f >> (int(n) - 1) else f for f, n in zip(fields, count)]
    assert got.tolist() == signed


@pytest.mark.parametrize("s", [f16, f32, f64], ids=str)
def test_fma_rounds_once(s):
    rng = np.random.default_rng(24)
    dtype = dtype_of(s)
    a, b = (rng.uniform(1, 2, 2000).astype(dtype) for _ in range(2))
    c = (-(a.astype(np.float64) * b)).astype(dtype) * rng.choice([1, 1e-3, 2.0**-30], 2000).astype(dtype)
    got = fma(a, b, c)
    assert got.dtype == dtype
    for x, y, z, g in zip(a, b, c, got):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        off = [abs(Fraction(float(v)) - exact) for v in (g, np.nextafter(g, dtype.type(9)), np.nextafter(g, dtype.type(-9)))]
        assert off[0] <= min(off[1:])
    assert np.any(got != a * b + c)


@pytest.mark.parametrize("dtype, x, y, up", [
    (np.float32, 1 + 2.0**-12, 1 + 2.0**-12, 1 + 2.0**-11 + 2.0**-23),
    (np.float64, 1 + 2.0**-27, 1 + 2.0**-26, 1 + 2.0**-26 + 2.0**-27 + 2.0**-52),
])  # fmt: skip
def test_fma_sees_what_lies_beyond_a_tie(dtype, x, y, up):
    """The product is half-way between two numbers; an addend far below decides, though no wider sum can hold it."""
    a, b, c = (np.array([v] * 3, dtype) for v in (x, y, 0))
    c[0], c[1] = 2.0**-100, -(2.0**-100)
    below = up - float(np.finfo(dtype).eps)
    even = below if int(below / np.finfo(dtype).eps) % 2 == 0 else up
    assert fma(a, b, c).tolist() == [up, below, even]


def test_vector_functions():
    rng = np.random.default_rng(25)
    a, b = (rng.standard_normal((16, 3)).astype(np.float32) for _ in range(2))
    t = Vector(f32, 3)
    wide = a.astype(np.float64)
    norm = np.sqrt((wide**2).sum(axis=1))
    np.testing.assert_allclose(both(lambda k, x: k.math("length", x, type=f32), [t], f32, a), norm, rtol=1e-7)
    np.testing.assert_allclose(both(lambda k, x: k.math("normalize", x), [t], t, a), wide / norm[:, None], rtol=1e-6)
    np.testing.assert_allclose(both(lambda k, x, y: k.math("cross", x, y), [t, t], t, a, b), np.cross(wide, b), atol=1e-6)
    np.testing.assert_allclose(both(lambda k, x, y: k.node("dot", f32, (x, y)), [t, t], f32, a, b), (wide * b).sum(axis=1), atol=1e-6)


def test_ldexp_and_halves():
    x, e = np.float32([1.5, -3, 0.1]), np.int32([4, -2, 10])
    np.testing.assert_array_equal(both(lambda k, x, e: k.math("ldexp", x, e), [f32, i32], f32, x, e), x * np.float32(2.0) ** e)
    pair = np.float32([[1.0, -2.5], [0.1, 65504.0]])
    packed = both(lambda k, v: k.math("pack_half_2x16", v, type=u32), [Vector(f32, 2)], u32, pair)
    assert packed.tolist() == [struct.unpack("<I", struct.pack("<2e", *row))[0] for row in pair.tolist()]
    back = both(lambda k, w: k.math("unpack_half_2x16", w, type=Vector(f32, 2)), [u32], Vector(f32, 2), packed)
    np.testing.assert_array_equal(back, pair.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("signed_a", [True, False])
@pytest.mark.parametrize("signed_b", [True, False])
@pytest.mark.parametrize("saturate", [True, False])
def test_int_dot(signed_a, signed_b, saturate):
    result = i32 if signed_a or signed_b else u32
    a, b = (np.random.default_rng(s).integers(0, 1 << 32, 64, dtype=np.uint32) for s in (26, 27))
    a[0] = b[0] = 0x80808080
    acc = numbers(result, 28)

    def body(k, x, y, z):
        args = (x, y, z) if saturate else (x, y)
        return k.node("int_dot", result, args, signed_a=signed_a, signed_b=signed_b, saturate=saturate)

    got = both(body, [u32, u32, result], result, a, b, acc)

    def parts(w, signed):
        return struct.unpack("4b" if signed else "4B", struct.pack("<I", w))

    totals = [sum(x * y for x, y in zip(parts(x, signed_a), parts(y, signed_b))) for x, y in zip(a.tolist(), b.tolist())]
    if saturate:
        lo, hi = result.range()
        totals = [min(max(t + z, lo), hi) for t, z in zip(totals, acc.tolist())]
    assert got.tolist() == totals


def test_every_math_function_is_tested():
    others = {"ldexp", "length", "normalize", "cross", "find_lsb", "find_msb", "bit_count", "bit_reverse", "bit_extract",
              "pack_half_2x16", "unpack_half_2x16"}
    assert set(REAL) | others == set(MATH)


def test_small_integer_bits_stay_in_their_type():
    got = apply(lambda k, x: k.math("bit_count", x), [u16], u16, np.uint16([0xFFFF, 0]))
    assert got.dtype == np.uint16 and lanes_of(u16) == 1 and got.tolist() == [16, 0]
