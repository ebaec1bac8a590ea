"""ggml IQ2_S, IQ2_XS and IQ2_XXS: eight magnitudes (8, 25 or 43) a codebook entry, signs apart.

weight = d * (S + 0.5) / 4 * magnitude * sign, a scale nibble S per 16 weights, in IQ2_XXS per 32. The signs of IQ2_XXS are
made explicit as those of IQ3_XXS are (iq3.py); IQ2_XS keeps the file's words of nine index and seven sign bits, which have no
room for them.
"""

from __future__ import annotations

from spirvdsl import DiskBlock, bit_count, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u16, u32, u32x4

from .base import BlockFormat, byte_at, crumb_bytes, half, negated, raw_word, signed_floats, word_at
from .codebooks import IQ2_S as BOOK_S
from .codebooks import IQ2_XS as BOOK_XS
from .codebooks import IQ2_XXS as BOOK_XXS
from .codebooks import words
from .iq3 import all_signs


@struct
class Quants:
    """32 index bytes, one for eight weights, and 256 sign bits, both in the order of the weights."""

    q: u32x4[2]
    signs: u32x4[2]


@struct
class QuantsXS:
    """The GGUF words as they are, two a u32: an index in bits 0-8, seven signs above."""

    q: u32x4[4]


@struct
class ScalesS:
    """d in the low half; scale nibbles, byte g: low the first half of block g; index bits 8 and 9, byte g: bits 2l of group l."""

    d: u32
    sc: u32[2]
    high: u32[2]


@struct
class ScalesXS:
    """d in the low half; scale nibbles, byte g: low the first half of block g."""

    d: u32
    sc: u32[2]


@struct
class ScalesXXS:
    """d in the low half; eight scale nibbles."""

    d: u32
    sc: u32


def magnitudes(entry, w):
    """Weights 4 * (w % 2).. of a codebook entry, one a byte: codes 0, 1, 2 stand for 8, 25, 43."""
    codes = crumb_bytes((u32(entry) >> ((w % 2) * 8)) & 0xFF)
    return 0x08080808 + 17 * codes + ((codes >> 1) & 0x01010101)


def step(nibble):
    """(S + 0.5) / 4."""
    return 0.25 * f32(nibble) + 0.125


class _IQ2(BlockFormat):
    """What all share. scale(s, g, side): that of half `side` of block g, without d."""

    elements = 256
    disk_elements = 256
    INTEGER = True

    @spirv_decode
    def quad(self, q, s, g, w, book):
        a, b, c, d = signed_floats(self.packed(q, s, g, w, book))
        return half(s.d) * self.scale(s, g, w // 4) * f32x4(a, b, c, d)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        if self.HALVES:
            return half(s.d) * d * (self.scale(s, g, 0) * f32(lo) + self.scale(s, g, 1) * f32(hi))
        return half(s.d) * d * (self.scale(s, g, 0) * f32(lo + hi))


class _Halves(_IQ2):
    """A scale per 16 weights."""

    HALVES = True

    @spirv_decode
    def scale(self, s, g, side):
        return step((s.sc[g // 4] >> ((g % 4) * 8 + 4 * side)) & 15)


class IQ2_S(_Halves):
    """GGUF block: d f16, 32 index bytes, 32 of signs, 8 of high index bits, 8 of scale nibbles."""

    name = "IQ2_S"
    disk = DiskBlock(d=f16, qs=u8[32], signs=u8[32], qh=u8[8], scales=u8[8])
    planes = Quants, ScalesS
    CODEBOOK = words(BOOK_S)

    @spirv_decode
    def packed(self, q, s, g, w, book):
        high = (s.high[g // 4] >> ((g % 4) * 8 + (w // 2) * 2)) & 3
        entry = book[byte_at(q.q, g * 4 + w // 2) | (high << 8)]
        return negated(magnitudes(entry, w), word_at(q.signs, g) >> (4 * w))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.d = u32(raw[at // 2])
            for c in static_range(2):
                s.high[c] = raw_word(raw, at + 66 + 4 * c)
                s.sc[c] = raw_word(raw, at + 74 + 4 * c)
        q.q[i // 4][i % 4] = raw_word(raw, at + 2 + 4 * i)
        q.signs[i // 4][i % 4] = raw_word(raw, at + 34 + 4 * i)


class IQ2_XS(_Halves):
    """GGUF block: d f16, 32 words of index and signs, 8 bytes of scale nibbles."""

    name = "IQ2_XS"
    disk = DiskBlock(d=f16, qs=u16[32], scales=u8[8])
    planes = QuantsXS, ScalesXS
    CODEBOOK = words(BOOK_XS)

    @spirv_decode
    def packed(self, q, s, g, w, book):
        group = (word_at(q.q, g * 2 + w // 4) >> ((w // 2 % 2) * 16)) & 0xFFFF
        seven = group >> 9
        signs = seven | ((u32(bit_count(seven)) & 1) << 7)  # the eighth is set where those are odd in number
        return negated(magnitudes(book[group & 511], w), signs >> ((w % 2) * 4))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.d = u32(raw[at // 2])
            for c in static_range(2):
                s.sc[c] = raw_word(raw, at + 66 + 4 * c)
        for c in static_range(2):
            word = i * 2 + c
            q.q[word // 4][word % 4] = raw_word(raw, at + 2 + 4 * word)


class IQ2_XXS(_IQ2):
    """GGUF block: d f16, 8 times four index bytes and a word of 28 sign bits and a scale nibble."""

    name = "IQ2_XXS"
    disk = DiskBlock(d=f16, qs=u32[16])
    planes = Quants, ScalesXXS
    CODEBOOK = words(BOOK_XXS)

    @spirv_decode
    def scale(self, s, g, side):
        return step((s.sc >> (4 * g)) & 15)

    @spirv_decode
    def packed(self, q, s, g, w, book):
        entry = book[byte_at(q.q, g * 4 + w // 2)]
        return negated(magnitudes(entry, w), word_at(q.signs, g) >> (4 * w))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.d = u32(raw[at // 2])
            nibbles = u32(0)
            for block in static_range(8):
                nibbles = nibbles | ((raw_word(raw, at + 6 + 8 * block) >> 28) << (4 * block))
            s.sc = nibbles
        q.q[i // 4][i % 4] = raw_word(raw, at + 2 + 8 * i)
        q.signs[i // 4][i % 4] = all_signs(raw_word(raw, at + 6 + 8 * i))
