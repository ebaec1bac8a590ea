"""ggml Q4_0: 32 weights in 18 bytes; weight = d * (q - 8), byte j holds weights j and j + 16."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u32x4

from .base import BlockFormat, raw_half, raw_word, unsigned_floats


@struct
class Quants:
    """The GGUF nibbles as they are."""

    q: u32x4


@struct
class Scales:
    """Scale of the block."""

    d: f16


class Q4_0(BlockFormat):
    """GGUF block: d f16, 16 bytes of nibbles."""

    name = "Q4_0"
    elements = 32
    disk = DiskBlock(d=f16, qs=u8[16])
    planes = Quants, Scales
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return (q.q[w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w))
        return f32(s.d) * (f32x4(a, b, c, d) - 8.0)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return f32(s.d) * d * f32(lo + hi - 8 * (sum_lo + sum_hi))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        s.d = raw_half(raw, at)
        for w in static_range(4):
            q.q[w] = raw_word(raw, at + 2 + 4 * w)
