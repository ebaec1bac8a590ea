"""ggml Q8_0: 32 weights in 34 bytes; weight = d * q."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, i8, spirv_decode, static_range, struct, u32x4

from .base import BlockFormat, raw_half, raw_word, signed_floats


@struct
class Quants:
    """Block of 32 signed bytes."""

    q: u32x4[2]


@struct
class Scales:
    """Its scale."""

    d: f16


class Q8_0(BlockFormat):
    """GGUF block: d f16, 32 x i8."""

    name = "Q8_0"
    elements = 32
    disk = DiskBlock(d=f16, qs=i8[32])
    planes = Quants, Scales
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return q.q[w // 4][w % 4]

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = signed_floats(q.q[w // 4][w % 4])
        return f32(s.d) * f32x4(a, b, c, d)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return f32(s.d) * d * f32(lo + hi)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        s.d = raw_half(raw, at)
        for w in static_range(8):
            q.q[w // 4][w % 4] = raw_word(raw, at + 2 + 4 * w)
