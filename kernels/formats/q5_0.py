"""ggml Q5_0: 32 weights in 22 bytes; weight = d * (q - 16), nibbles as Q4_0 and a word of fifth bits."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u16, u32, u32x4

from .base import BlockFormat, raw_half, raw_word, spread_bits, unsigned_floats


@struct
class Quants:
    """The GGUF nibbles as they are."""

    q: u32x4


@struct
class Scales:
    """Scale, and the fifth bits of weights 0-15 and 16-31 (two halves: the element stays 6 bytes)."""

    d: f16
    low: u16
    high: u16


class Q5_0(BlockFormat):
    """GGUF block: d f16, qh u32, 16 bytes of nibbles."""

    name = "Q5_0"
    elements = 32
    disk = DiskBlock(d=f16, qh=u32, qs=u8[16])
    planes = Quants, Scales
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        bits = u32(s.low) | (u32(s.high) << 16)
        return ((q.q[w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F) | spread_bits(bits, w)

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w))
        return f32(s.d) * (f32x4(a, b, c, d) - 16.0)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return f32(s.d) * d * f32(lo + hi - 16 * (sum_lo + sum_hi))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        s.d = raw_half(raw, at)
        s.low = raw[at // 2 + 1]
        s.high = raw[at // 2 + 2]
        for w in static_range(4):
            q.q[w] = raw_word(raw, at + 6 + 4 * w)
