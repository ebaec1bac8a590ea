"""GLSL.std.450 functions and the dot products in numpy.

Formulas as the extended instruction set gives them (GLSL.std.450 1.00). Transcendental functions are computed in
float64 and rounded once, so the interpreter is at least as accurate as any device; the algebraic ones (mix, step,
smoothstep, fract ...) round after each operation, as a device does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..lang.types import Scalar, Type, scalar_of
from .values import dtype_of, round_bf16, squeeze

_WIDE = {
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "pow": np.power,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
}


def _fmin(x, y):
    return np.where(y < x, y, x)


def _fmax(x, y):
    return np.where(x < y, y, x)


def _smoothstep(lo, hi, x):
    t = (x - lo) / (hi - lo)
    one, zero = t.dtype.type(1), t.dtype.type(0)
    t = _fmin(_fmax(t, zero), one)
    return t * t * (t.dtype.type(3) - t.dtype.type(2) * t)


_FLOAT = {
    "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sqrt": np.sqrt,
    "fract": lambda x: x - np.floor(x), "min": _fmin, "max": _fmax, "clamp": lambda x, lo, hi: _fmin(_fmax(x, lo), hi),
    "mix": lambda x, y, a: x * (a.dtype.type(1) - a) + y * a,
    "step": lambda edge, x: np.where(x < edge, x.dtype.type(0), x.dtype.type(1)), "smoothstep": _smoothstep,
    "ldexp": np.ldexp,
    "cross": lambda a, b: a[[1, 2, 0]] * b[[2, 0, 1]] - b[[1, 2, 0]] * a[[2, 0, 1]],
}
_INT = {
    "abs": np.abs, "sign": np.sign, "min": np.minimum, "max": np.maximum,
    "clamp": lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
}


def function(fn: str, arg: Type) -> Callable:
    """The numpy function of math op `fn` whose first argument has type `arg`."""
    s = scalar_of(arg)
    if fn in ("pack_half_2x16", "unpack_half_2x16"):
        return _pack_half if fn == "pack_half_2x16" else _unpack_half
    if s.is_int:
        return _INT[fn] if fn in _INT else _bits_function(fn, s)
    if fn == "fma":
        return fma
    if fn in ("length", "normalize"):
        return _length if fn == "length" else _normalize
    if fn in _WIDE:
        body = _wide(_WIDE[fn], dtype_of(s))
    else:
        body = _FLOAT[fn]
    return (lambda *args: round_bf16(body(*args))) if s.encoding == "bf16" else body


def _wide(fn: Callable, dtype: np.dtype) -> Callable:
    if dtype == np.float64:
        return fn
    return lambda *args: fn(*[a.astype(np.float64) for a in args]).astype(dtype)


def _norm(v):
    wide = v.astype(np.float64)
    return np.sqrt((wide * wide).sum(axis=0)) if v.ndim == 2 else np.abs(wide)


def _length(v):
    r = _norm(v).astype(v.dtype)
    return squeeze(r) if v.ndim == 2 else r


def _normalize(v):
    return (v.astype(np.float64) / _norm(v)).astype(v.dtype)


def _two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _odd(s, err):
    """`s` moved to the neighbour whose last bit is 1 where the exact sum s + err is not s: rounding to odd."""
    s = np.asarray(s, np.float64)
    lost = (err != 0) & np.isfinite(s) & ((s.view(np.uint64) & np.uint64(1)) == 0)
    return np.where(lost, np.nextafter(s, np.where(err > 0, np.inf, -np.inf)), s)


def fma(a, b, c):
    """a * b + c rounded once (Boldo and Melquiond: the last addition takes operands rounded to odd)."""
    dtype = a.dtype
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    p = x * y
    if dtype != np.float64:  # p is exact
        s, err = _two_sum(p, z)
        return _odd(s, err).astype(dtype)[()]
    split = 134217729.0  # Dekker: 2^27 + 1

    def halves(v):
        t = split * v
        hi = t - (t - v)
        return hi, v - hi

    (xh, xl), (yh, yl) = halves(x), halves(y)
    low = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl
    th, tl = _two_sum(z, low)
    vh, vl = _two_sum(p, th)
    exact = vh + _odd(*_two_sum(tl, vl))
    return np.where(np.isfinite(low) & np.isfinite(exact), exact, p + z)[()]


def _msb(x):
    """Position of the highest set bit of unsigned x, -1 for 0 (int32)."""
    if x.dtype.itemsize < 8:
        return np.frexp(x.astype(np.float64))[1] - 1
    hi, lo = (x >> np.uint64(32)).astype(np.float64), (x & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(hi > 0, np.frexp(hi)[1] + 31, np.frexp(lo)[1] - 1)


def _bit_reverse(x):
    bits = x.dtype.itemsize * 8
    kind = x.dtype.type
    step = 1
    while step < bits:
        low = sum(((1 << step) - 1) << at for at in range(0, bits, 2 * step))
        x = ((x >> kind(step)) & kind(low)) | ((x & kind(low)) << kind(step))
        step *= 2
    return x


def _bits_function(fn: str, s: Scalar) -> Callable:
    dtype, unsigned = dtype_of(s), np.dtype(f"u{s.bits // 8}")

    def on_unsigned(body):
        return lambda x: body(x.view(unsigned)).astype(dtype)

    if fn == "find_msb" and s.is_signed:
        return lambda x: _msb(np.where(x < 0, ~x, x).view(unsigned)).astype(dtype)
    if fn == "bit_extract":
        return lambda base, at, count: _bit_extract(base, at.astype(dtype), count.astype(dtype), s)
    return {
        "find_msb": on_unsigned(_msb), "find_lsb": on_unsigned(lambda x: _msb(x & (~x + unsigned.type(1)))),
        "bit_count": on_unsigned(np.bitwise_count), "bit_reverse": lambda x: _bit_reverse(x.view(unsigned)).view(dtype),
    }[fn]


def _bit_extract(base, at, count, s: Scalar):
    bits = base.dtype.type(s.bits)
    field = (base << (bits - at - count)) >> (bits - count)
    return np.where(count == 0, base.dtype.type(0), field)


def _pack_half(v):
    h = v.astype(np.float16).view(np.uint16).astype(np.uint32)
    return squeeze(h[0] | (h[1] << np.uint32(16)))


def _unpack_half(x):
    halves = np.stack([np.atleast_1d(x) & np.uint32(0xFFFF), np.atleast_1d(x) >> np.uint32(16)]).astype(np.uint16)
    return halves.view(np.float16).astype(np.float32)


def dot(a, b):
    """Float dot product, products added in lane order in the type's precision."""
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return squeeze(total)


def int_dot(signed_a: bool, signed_b: bool) -> Callable:
    """Packed 4x8-bit dot product, with a saturating accumulator when there is a third argument."""
    out = np.dtype(np.int32 if signed_a or signed_b else np.uint32)
    limits = np.iinfo(out)

    def body(a, b, *acc):
        x, y = _bytes(a, signed_a), _bytes(b, signed_b)
        total = x[0::4].astype(np.int32) * y[0::4].astype(np.int32)
        for j in (1, 2, 3):
            total += x[j::4].astype(np.int32) * y[j::4].astype(np.int32)
        if acc:
            total = np.clip(total.astype(np.int64) + acc[0], limits.min, limits.max)
        total = total.astype(out, copy=False)
        return squeeze(total)

    return body


def _bytes(x, signed: bool):
    return np.ascontiguousarray(np.atleast_1d(x)).view(np.int8 if signed else np.uint8)
