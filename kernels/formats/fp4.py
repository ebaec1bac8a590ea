"""MXFP4 and NVFP4: four-bit floats (E2M1) under a power of two per 32 (OCP Microscaling Formats 1.0) or an 8-bit float per 16.

E2M1 is 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; here they are doubled, so that the integer arm multiplies them as they
are, and scales halved.
"""

from __future__ import annotations

from spirvdsl import DiskBlock, bitcast, f32, f32x4, min, select, spirv_decode, static_range, struct, u8, u32, u32x4

from .base import BlockFormat, raw_byte, raw_word, raw_word_anywhere, signed_floats, word_at
from .iq4 import byte_words, values_of

E2M1 = byte_words((0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12))


@struct
class QuantsMX:
    """The GGUF nibbles as they are: byte j: weight j low, j + 16 high."""

    q: u32x4


@struct
class ScalesMX:
    """Exponent of the block, with a bias of 127."""

    e: u8


@struct
class QuantsNV:
    """The GGUF nibbles as they are: 8 bytes for 16 weights, byte j: weight j low, j + 8 high."""

    q: u32x4[2]


@struct
class ScalesNV:
    """Four scales, one per 16 weights, the first in the lowest byte."""

    d: u32


def half_power(e):
    """2 ** (e - 128), subnormal for e < 2."""
    return bitcast(select(e < 2, u32(0x00200000) << min(e, 1), (e - 1) << 23), f32)


def half_e4m3(byte):
    """Half of an unsigned E4M3 number: 4 bits of exponent (bias 7) over 3 of mantissa. 0x7F is 0 for ggml; bit 7 is not used."""
    exponent, mantissa = (byte >> 3) & 15, byte & 7
    normal = bitcast(((exponent + 119) << 23) | (mantissa << 20), f32)
    value = select(exponent == 0, f32(mantissa) * 0.0009765625, normal)
    return select(byte == 0x7F, f32(0), value)


class MXFP4(BlockFormat):
    """GGUF block: exponent u8, 16 bytes of nibbles; 32 weights in 17 bytes, so that every second block is at an odd place."""

    name = "MXFP4"
    elements = 32
    disk = DiskBlock(e=u8, qs=u8[16])
    planes = QuantsMX, ScalesMX
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return values_of((q.q[w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F, E2M1)

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = signed_floats(self.packed(q, s, g, w))
        return half_power(u32(s.e)) * f32x4(a, b, c, d)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return half_power(u32(s.e)) * (d * f32(lo + hi))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        s.e = u8(raw_byte(raw, at))
        for w in static_range(4):
            q.q[w] = raw_word_anywhere(raw, at + 1 + 4 * w)


class NVFP4(BlockFormat):
    """GGUF block: 4 scales (unsigned E4M3), 32 bytes of nibbles; 64 weights."""

    name = "NVFP4"
    elements = 64
    disk = DiskBlock(d=u8[4], qs=u8[32])
    disk_elements = 64
    planes = QuantsNV, ScalesNV
    INTEGER = True
    HALVES = True

    @spirv_decode
    def scale(self, s, g, side):
        """Scale of half `side` of block g."""
        return half_e4m3((s.d >> (16 * g + 8 * side)) & 0xFF)

    @spirv_decode
    def packed(self, q, s, g, w):
        word = word_at(q.q, (g * 2 + w // 4) * 2 + w % 2)
        return values_of((word >> ((w // 2 % 2) * 4)) & 0x0F0F0F0F, E2M1)

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = signed_floats(self.packed(q, s, g, w))
        return self.scale(s, g, w // 4) * f32x4(a, b, c, d)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return d * (self.scale(s, g, 0) * f32(lo) + self.scale(s, g, 1) * f32(hi))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.d = raw_word(raw, at)
        for w in static_range(4):
            q.q[i][w] = raw_word(raw, at + 4 + 16 * i + 4 * w)
