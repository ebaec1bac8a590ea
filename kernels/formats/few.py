"""ggml Q1_0 and Q2_0: one or two bits a weight in the order of the weights, and a scale per 128 or 64."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u32x4

from .base import BlockFormat, bit_bytes, crumb_bytes, raw_half, raw_word, unsigned_floats


@struct
class Quants:
    """The GGUF codes as they are."""

    q: u32x4


@struct
class Scales:
    """Scale of the block."""

    d: f16


class Q1_0(BlockFormat):
    """GGUF block: d f16, 16 bytes of bits; 128 weights, d where the bit is set and -d elsewhere."""

    name = "Q1_0"
    elements = 128
    disk = DiskBlock(d=f16, qs=u8[16])
    disk_elements = 128
    planes = Quants, Scales
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return bit_bytes(q.q[g] >> (4 * w))

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w))
        return f32(s.d) * (2.0 * f32x4(a, b, c, d) - 1.0)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return f32(s.d) * d * f32(2 * (lo + hi) - sum_lo - sum_hi)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.d = raw_half(raw, at)
        q.q[i] = raw_word(raw, at + 2 + 4 * i)


class Q2_0(BlockFormat):
    """GGUF block: d f16, 16 bytes of two-bit codes; 64 weights, (code - 1) * d."""

    name = "Q2_0"
    elements = 64
    disk = DiskBlock(d=f16, qs=u8[16])
    disk_elements = 64
    planes = Quants, Scales
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return crumb_bytes((q.q[g * 2 + w // 4] >> ((w % 4) * 8)) & 0xFF)

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w))
        return f32(s.d) * (f32x4(a, b, c, d) - 1.0)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return f32(s.d) * d * f32(lo + hi - sum_lo - sum_hi)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.d = raw_half(raw, at)
        for w in static_range(2):
            q.q[i * 2 + w] = raw_word(raw, at + 2 + 8 * i + 4 * w)
