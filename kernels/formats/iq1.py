"""ggml IQ1_S and IQ1_M: eight of -1, 0, 1 a codebook entry, all moved by an eighth up or down; weight = d * (2S + 1) * (c +- 1/8).

The integer arm takes eighths: 8 * code + 2 where it goes up, for codes 0, 1, 2, which is 9 more than the value.
"""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u16, u32, u32x4

from .base import BlockFormat, byte_at, crumb_bytes, half, raw_word, unsigned_floats
from .codebooks import IQ1 as BOOK
from .codebooks import words

EIGHTH = 0.125


@struct
class QuantsS:
    """32 low index bytes, one for eight weights."""

    q: u32x4[2]


@struct
class ScalesS:
    """d in the low half; the file's 16 bits of each block: high index bits 3l of group l, scale bits 12-14, down in bit 15."""

    d: u32
    high: u32[4]


@struct
class QuantsM:
    """32 low index bytes; a nibble for each eight weights: high index bits, and down in bit 3."""

    q: u32x4[2]
    high: u32x4


@struct
class ScalesM:
    """The file's four 16-bit words: three bits a scale, one per 16 weights; a nibble of d in the highest bits of each."""

    sc: u32[2]


class _IQ1(BlockFormat):
    """What both share. high(q, s, g, l): index bits 8-10 of group l and, in bit 3, whether it goes down. scale: without /8."""

    elements = 256
    disk_elements = 256
    INTEGER = True
    CODEBOOK = words(BOOK)

    @spirv_decode
    def packed(self, q, s, g, w, book):
        high = self.high(q, s, g, w // 2)
        entry = u32(book[byte_at(q.q, g * 4 + w // 2) | ((high & 7) << 8)])
        up = (high >> 3) ^ 1
        return 8 * crumb_bytes((entry >> ((w % 2) * 8)) & 0xFF) + up * 0x02020202

    @spirv_decode
    def quad(self, q, s, g, w, book):
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w, book))
        return (self.scale(s, g, w // 4) * EIGHTH) * (f32x4(a, b, c, d) - 9.0)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        if self.HALVES:
            return EIGHTH * d * (self.scale(s, g, 0) * f32(lo - 9 * sum_lo) + self.scale(s, g, 1) * f32(hi - 9 * sum_hi))
        return EIGHTH * d * (self.scale(s, g, 0) * f32(lo + hi - 9 * (sum_lo + sum_hi)))


class IQ1_S(_IQ1):
    """GGUF block: d f16, 32 index bytes, 8 words of high index bits, scale and direction."""

    name = "IQ1_S"
    disk = DiskBlock(d=f16, qs=u8[32], qh=u16[8])
    planes = QuantsS, ScalesS

    @spirv_decode
    def high(self, q, s, g, group):
        word = s.high[g // 2] >> ((g % 2) * 16)
        return ((word >> (3 * group)) & 7) | ((word >> 12) & 8)

    @spirv_decode
    def scale(self, s, g, side):
        return half(s.d) * (2.0 * f32((s.high[g // 2] >> ((g % 2) * 16 + 12)) & 7) + 1.0)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.d = u32(raw[at // 2])
            for c in static_range(4):
                s.high[c] = raw_word(raw, at + 34 + 4 * c)
        q.q[i // 4][i % 4] = raw_word(raw, at + 2 + 4 * i)


class IQ1_M(_IQ1):
    """GGUF block: 32 index bytes, 16 bytes of high index bits and directions, 4 words of scales and d."""

    name = "IQ1_M"
    disk = DiskBlock(qs=u8[32], qh=u8[16], scales=u16[4])
    planes = QuantsM, ScalesM
    HALVES = True

    @spirv_decode
    def high(self, q, s, g, group):
        return (q.high[g // 2] >> ((g % 2) * 16 + 4 * group)) & 15

    @spirv_decode
    def scale(self, s, g, side):
        a, b = s.sc[0], s.sc[1]
        d = ((a >> 12) & 0xF) | ((a >> 24) & 0xF0) | ((b >> 4) & 0xF00) | ((b >> 16) & 0xF000)
        bits = s.sc[g // 4] >> ((g // 2 % 2) * 16 + 6 * (g % 2) + 3 * side)
        return half(d) * (2.0 * f32(bits & 7) + 1.0)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            for c in static_range(2):
                s.sc[c] = raw_word(raw, at + 48 + 4 * c)
            for c in static_range(4):
                q.high[c] = raw_word(raw, at + 32 + 4 * c)
        q.q[i // 4][i % 4] = raw_word(raw, at + 4 * i)
