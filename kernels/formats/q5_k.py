"""ggml Q5_K: 256 weights in 176 bytes; as Q4_K with a fifth bit: bit j of qh[e % 32] belongs to sub-block j."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u32, u32x4

from .base import BlockFormat, raw_word, spread_bits, unsigned_floats
from .q4_k import Scales, repack_nibbles, repack_scales, scale_and_min


@struct
class Quants:
    """Nibbles paired j / j + 16 per sub-block, then one word of fifth bits per sub-block (bit e: weight e)."""

    q: u32x4[8]
    hi: u32[8]


class Q5_K(BlockFormat):
    """GGUF block: d f16, dmin f16, 12 bytes of scales and minima, 32 bytes of fifth bits, 128 bytes of nibbles."""

    name = "Q5_K"
    elements = 256
    disk = DiskBlock(d=f16, dmin=f16, scales=u8[12], qh=u8[32], qs=u8[128])
    disk_elements = 256
    planes = Quants, Scales
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return ((q.q[g][w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F) | spread_bits(q.hi[g], w)

    @spirv_decode
    def quad(self, q, s, g, w):
        scale, low = scale_and_min(s, g)
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w))
        return scale * f32x4(a, b, c, d) - low

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        scale, low = scale_and_min(s, g)
        return d * (scale * f32(lo + hi) - low * f32(sum_lo + sum_hi))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            repack_scales(raw, at, s)
        bits = u32(0)
        for w in static_range(8):
            word = (raw_word(raw, at + 16 + 4 * w) >> i) & 0x01010101
            bits = bits | ((((word * 0x01020408) >> 24) & 0xF) << (4 * w))  # one bit of each byte side by side
        q.hi[i] = bits
        repack_nibbles(raw, at + 48, i, q)
