"""ggml Q6_K: 256 weights in 210 bytes; weight = d * sc[e / 16] * (q - 32), signed 8-bit scales, d last."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, i8, spirv_decode, static_range, struct, u8, u32, u32x2, u32x4

from .base import BlockFormat, half, raw_word, signed_byte, unsigned_floats


@struct
class Quants:
    """Per sub-block 16 bytes of low nibbles (weight j low, j + 16 high) and 8 bytes of high bits: bits 2j of word w belong to word 4w + j."""

    q: u32x4[8]
    hi: u32x2[8]


@struct
class Scales:
    """Sixteen signed scales, one per 16 weights, then d in the low half."""

    sc: u32[4]
    d: u32


def scale_of(s, at):
    """Signed scale `at` (0..15) as f32."""
    return f32(signed_byte(s.sc[at // 4], at % 4))


class Q6_K(BlockFormat):
    """GGUF block: 128 bytes of low nibbles, 64 of high bits, 16 x i8 scales, d f16."""

    name = "Q6_K"
    elements = 256
    disk = DiskBlock(ql=u8[128], qh=u8[64], scales=i8[16], d=f16)
    disk_elements = 256
    planes = Quants, Scales
    INTEGER = True
    HALVES = True

    @spirv_decode
    def packed(self, q, s, g, w):
        high = (q.hi[g][w // 4] >> ((w % 4) * 2)) & 0x03030303
        return ((q.q[g][w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F) | (high << 4)

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w))
        return half(s.d) * scale_of(s, g * 2 + w // 4) * (f32x4(a, b, c, d) - 32.0)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        low = scale_of(s, g * 2) * f32(lo - 32 * sum_lo)
        return half(s.d) * d * (low + scale_of(s, g * 2 + 1) * f32(hi - 32 * sum_hi))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        side, r = i // 4, i % 4
        nibble_shift = (r // 2) * 4
        base = at + 64 * side + 32 * (r % 2)
        for w in static_range(4):
            low = (raw_word(raw, base + 4 * w) >> nibble_shift) & 0x0F0F0F0F
            high = (raw_word(raw, base + 16 + 4 * w) >> nibble_shift) & 0x0F0F0F0F
            q.q[i][w] = low | (high << 4)
        for c in static_range(2):
            bits = u32(0)
            for j in static_range(4):
                word = (raw_word(raw, at + 128 + 32 * side + 16 * c + 4 * j) >> (2 * r)) & 0x03030303
                bits = bits | (word << (2 * j))
            q.hi[i][c] = bits
        if i == 0:
            for c in static_range(4):
                s.sc[c] = raw_word(raw, at + 192 + 4 * c)
            s.d = u32(raw[(at + 208) // 2])
