"""ggml IQ3_S and IQ3_XXS: four magnitudes a codebook entry, signs apart; weight = d * scale * magnitude * sign, a scale per 32.

On the device both have explicit signs. IQ3_XXS stores seven of eight, since their number is even, and its scale in the four
bits that are then left of 32: the repacker puts the eighth signs there and the scales beside d.
"""

from __future__ import annotations

from spirvdsl import DiskBlock, bit_count, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u32, u32x2, u32x4

from .base import BlockFormat, byte_at, half, negated, raw_word, signed_floats, word_at
from .codebooks import IQ3_S as BOOK_S
from .codebooks import IQ3_XXS as BOOK_XXS
from .codebooks import words


@struct
class Quants:
    """64 index bytes, one for four weights, and 256 sign bits, both in the order of the weights."""

    q: u32x4[4]
    signs: u32x4[2]


@struct
class ScalesS:
    """d in the low half; eight scale nibbles; the ninth index bits, byte g: bit w of block g."""

    d: u32
    sc: u32
    high: u32x2


@struct
class ScalesXXS:
    """d in the low half; eight scale nibbles."""

    d: u32
    sc: u32


def nibble_bytes(code):
    """Four codes of four bits, one in each byte."""
    pairs = (code | (code << 8)) & 0x00FF00FF
    return (pairs | (pairs << 4)) & 0x0F0F0F0F


def all_signs(word):
    """32 signs of the 28 that ggml stores (bits 7l.. for eight weights each): the eighth is set where those are odd in number."""
    out = u32(0)
    for group in static_range(4):
        seven = (word >> (7 * group)) & 0x7F
        out = out | ((seven | ((u32(bit_count(seven)) & 1) << 7)) << (8 * group))
    return out


class _IQ3(BlockFormat):
    """What both share: the quant plane, and one scale a block."""

    elements = 256
    disk_elements = 256
    INTEGER = True

    @spirv_decode
    def quad(self, q, s, g, w, book):
        a, b, c, d = signed_floats(self.packed(q, s, g, w, book))
        return self.scale(s, g) * f32x4(a, b, c, d)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return self.scale(s, g) * d * f32(lo + hi)


class IQ3_S(_IQ3):
    """GGUF block: d f16, 64 index bytes, 8 bytes of ninth index bits, 32 of signs, 4 of scale nibbles; magnitudes 1, 3 ... 15."""

    name = "IQ3_S"
    disk = DiskBlock(d=f16, qs=u8[64], qh=u8[8], signs=u8[32], scales=u8[4])
    planes = Quants, ScalesS
    CODEBOOK = words(BOOK_S)

    @spirv_decode
    def scale(self, s, g):
        """d * (2 * S + 1) of block g."""
        return half(s.d) * (2.0 * f32((s.sc >> (4 * g)) & 15) + 1.0)

    @spirv_decode
    def packed(self, q, s, g, w, book):
        ninth = (s.high[g // 4] >> ((g % 4) * 8 + w)) & 1
        codes = nibble_bytes(u32(book[byte_at(q.q, g * 8 + w) | (ninth << 8)]))
        return negated(2 * codes + 0x01010101, word_at(q.signs, g) >> (4 * w))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.d = u32(raw[at // 2])
            s.sc = raw_word(raw, at + 106)
            s.high[0] = raw_word(raw, at + 66)
            s.high[1] = raw_word(raw, at + 70)
        for c in static_range(2):
            word = i * 2 + c
            q.q[word // 4][word % 4] = raw_word(raw, at + 2 + 4 * word)
        q.signs[i // 4][i % 4] = raw_word(raw, at + 74 + 4 * i)


class IQ3_XXS(_IQ3):
    """GGUF block: d f16, 64 index bytes, 8 words of 28 sign bits and a scale nibble; magnitudes 4, 12 ... 52 and 62."""

    name = "IQ3_XXS"
    disk = DiskBlock(d=f16, qs=u8[64], aux=u32[8])
    planes = Quants, ScalesXXS
    CODEBOOK = words(BOOK_XXS)

    @spirv_decode
    def scale(self, s, g):
        """d * (S + 0.5) / 2 of block g."""
        return half(s.d) * (0.5 * f32((s.sc >> (4 * g)) & 15) + 0.25)

    @spirv_decode
    def packed(self, q, s, g, w, book):
        codes = nibble_bytes(u32(book[byte_at(q.q, g * 8 + w)]))
        last = ((codes + 0x01010101) >> 3) & 0x01010101  # code 7 stands for 62, not 60
        return negated(8 * codes + 2 * last + 0x04040404, word_at(q.signs, g) >> (4 * w))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.d = u32(raw[at // 2])
            nibbles = u32(0)
            for block in static_range(8):
                nibbles = nibbles | ((raw_word(raw, at + 66 + 4 * block) >> 28) << (4 * block))
            s.sc = nibbles
        for c in static_range(2):
            word = i * 2 + c
            q.q[word // 4][word % 4] = raw_word(raw, at + 2 + 4 * word)
        q.signs[i // 4][i % 4] = all_signs(raw_word(raw, at + 66 + 4 * i))
