"""ggml IQ4_NL and IQ4_XS: nibbles that index sixteen signed values, spaced for normally distributed weights."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, select, spirv_decode, static_range, struct, u8, u16, u32, u32x4

from .base import BlockFormat, half, raw_half, raw_word, signed_floats

# ggml's kvalues_iq4nl, four signed bytes a word: -127 -104 -83 -65 | -49 -35 -22 -10 | 1 13 25 38 | 53 69 89 113
_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


@struct
class QuantsNL:
    """The GGUF nibbles as they are."""

    q: u32x4


@struct
class ScalesNL:
    """Scale of the block."""

    d: f16


@struct
class QuantsXS:
    """The GGUF nibbles as they are: 16 bytes a sub-block, byte j: weight j low, j + 16 high."""

    q: u32x4[8]


@struct
class ScalesXS:
    """d in the low half and the high scale bits in the high one; the low scale nibbles."""

    dh: u32
    low: u32


def byte_words(values):
    """Sixteen signed bytes as four words."""
    return tuple(sum((values[4 * w + i] & 0xFF) << (8 * i) for i in range(4)) for w in range(4))


_WORDS = byte_words(_VALUES)


def value_of(nibble, table):
    """The signed byte of one nibble, in the low byte of a u32. table: sixteen of them, as four words."""
    first, second = u32(table[0]), u32(table[1])
    third, fourth = u32(table[2]), u32(table[3])
    word = select(nibble < 8, select(nibble < 4, first, second), select(nibble < 12, third, fourth))
    return (word >> ((nibble % 4) * 8)) & 0xFF


def values_of(nibbles, table=_WORDS):
    """Four nibbles, one in each byte, as the four signed bytes they stand for."""
    a, b = value_of(nibbles & 15, table), value_of((nibbles >> 8) & 15, table)
    c, d = value_of((nibbles >> 16) & 15, table), value_of((nibbles >> 24) & 15, table)
    return a | (b << 8) | (c << 16) | (d << 24)


class IQ4_NL(BlockFormat):
    """GGUF block: d f16, 16 bytes of nibbles; 32 weights."""

    name = "IQ4_NL"
    elements = 32
    disk = DiskBlock(d=f16, qs=u8[16])
    planes = QuantsNL, ScalesNL
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return values_of((q.q[w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F)

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = signed_floats(self.packed(q, s, g, w))
        return f32(s.d) * f32x4(a, b, c, d)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return f32(s.d) * d * f32(lo + hi)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        s.d = raw_half(raw, at)
        for w in static_range(4):
            q.q[w] = raw_word(raw, at + 2 + 4 * w)


class IQ4_XS(BlockFormat):
    """GGUF block: d f16, scales_h u16, 4 bytes of scale nibbles, 128 bytes of nibbles; 256 weights, 6-bit scales less 32."""

    name = "IQ4_XS"
    elements = 256
    disk = DiskBlock(d=f16, scales_h=u16, scales_l=u8[4], qs=u8[128])
    disk_elements = 256
    planes = QuantsXS, ScalesXS
    INTEGER = True

    @spirv_decode
    def scale(self, s, g):
        """d * (S - 32) of sub-block g."""
        bits = ((s.low >> (4 * g)) & 15) | (((s.dh >> (16 + 2 * g)) & 3) << 4)
        return half(s.dh) * (f32(bits) - 32.0)

    @spirv_decode
    def packed(self, q, s, g, w):
        return values_of((q.q[g][w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F)

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = signed_floats(self.packed(q, s, g, w))
        return self.scale(s, g) * f32x4(a, b, c, d)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return self.scale(s, g) * d * f32(lo + hi)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.dh = raw_word(raw, at)
            s.low = raw_word(raw, at + 4)
        for w in static_range(4):
            q.q[i][w] = raw_word(raw, at + 8 + 16 * i + 4 * w)
