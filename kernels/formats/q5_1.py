"""ggml Q5_1: 32 weights in 24 bytes; weight = d * q + m, nibbles as Q4_0 and a word of fifth bits."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u32, u32x4

from .base import BlockFormat, halves, raw_word, spread_bits, unsigned_floats


@struct
class Quants:
    """The GGUF nibbles as they are."""

    q: u32x4


@struct
class Scales:
    """d in the low half and m in the high one, then the fifth bits."""

    dm: u32
    hi: u32


class Q5_1(BlockFormat):
    """GGUF block: d f16, m f16, qh u32, 16 bytes of nibbles."""

    name = "Q5_1"
    elements = 32
    disk = DiskBlock(d=f16, m=f16, qh=u32, qs=u8[16])
    planes = Quants, Scales
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return ((q.q[w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F) | spread_bits(s.hi, w)

    @spirv_decode
    def quad(self, q, s, g, w):
        scale, low = halves(s.dm)
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w))
        return scale * f32x4(a, b, c, d) + low

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        scale, low = halves(s.dm)
        return d * (scale * f32(lo + hi) + low * f32(sum_lo + sum_hi))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        s.dm = raw_word(raw, at)
        s.hi = raw_word(raw, at + 4)
        for w in static_range(4):
            q.q[w] = raw_word(raw, at + 8 + 4 * w)
