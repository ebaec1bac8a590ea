"""ggml Q3_K: 256 weights in 110 bytes; weight = d * (S - 32) * (q - 4), 6-bit scales S per 16 weights.

Codes as Q2_K; the third bit of weight e is bit e / 32 of hmask[e % 32].
"""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u32, u32x4

from .base import BlockFormat, byte_of, half, raw_word, unsigned_floats
from .q2_k import crumbs, repack_crumbs


@struct
class Quants:
    """The GGUF codes and third bits as they are."""

    q: u32x4[4]
    hi: u32x4[2]


@struct
class Scales:
    """Sixteen 6-bit scales as bytes, then d in the low half."""

    sc: u32[4]
    d: u32


class Q3_K(BlockFormat):
    """GGUF block: 32 bytes of third bits, 64 bytes of codes, 12 bytes of scales, d f16."""

    name = "Q3_K"
    elements = 256
    disk = DiskBlock(hmask=u8[32], qs=u8[64], scales=u8[12], d=f16)
    disk_elements = 256
    planes = Quants, Scales
    INTEGER = True
    HALVES = True

    @spirv_decode
    def packed(self, q, s, g, w):
        third = (q.hi[w // 4][w % 4] >> g) & 0x01010101
        return crumbs(q, g, w) | (third << 2)

    @spirv_decode
    def quad(self, q, s, g, w):
        scale = half(s.d) * (f32(byte_of(s.sc, g * 2 + w // 4)) - 32.0)
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w))
        return scale * (f32x4(a, b, c, d) - 4.0)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        low = (f32(byte_of(s.sc, g * 2)) - 32.0) * f32(lo - 4 * sum_lo)
        high = (f32(byte_of(s.sc, g * 2 + 1)) - 32.0) * f32(hi - 4 * sum_hi)
        return half(s.d) * d * (low + high)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        repack_crumbs(raw, at + 32, i, q)
        if i == 0:
            for w in static_range(8):
                q.hi[w // 4][w % 4] = raw_word(raw, at + 4 * w)
            a, b, c = raw_word(raw, at + 96), raw_word(raw, at + 100), raw_word(raw, at + 104)
            s.sc[0] = (a & 0x0F0F0F0F) | ((c & 0x03030303) << 4)
            s.sc[1] = (b & 0x0F0F0F0F) | (((c >> 2) & 0x03030303) << 4)
            s.sc[2] = ((a >> 4) & 0x0F0F0F0F) | (((c >> 4) & 0x03030303) << 4)
            s.sc[3] = ((b >> 4) & 0x0F0F0F0F) | (((c >> 6) & 0x03030303) << 4)
            s.d = u32(raw[(at + 108) // 2])
