"""ggml Q4_1: 32 weights in 20 bytes; weight = d * q + m, nibbles as Q4_0."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u32, u32x4

from .base import BlockFormat, halves, raw_word, unsigned_floats


@struct
class Quants:
    """The GGUF nibbles as they are."""

    q: u32x4


@struct
class Scales:
    """d in the low half, m in the high one."""

    dm: u32


class Q4_1(BlockFormat):
    """GGUF block: d f16, m f16, 16 bytes of nibbles."""

    name = "Q4_1"
    elements = 32
    disk = DiskBlock(d=f16, m=f16, qs=u8[16])
    planes = Quants, Scales
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return (q.q[w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F

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
        for w in static_range(4):
            q.q[w] = raw_word(raw, at + 4 + 4 * w)
