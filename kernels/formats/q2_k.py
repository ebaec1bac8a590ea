"""ggml Q2_K: 256 weights in 84 bytes; weight = d * (s & 15) * q - dmin * (s >> 4) with one scale byte s per 16 weights.

Two bits of every byte belong to one of four blocks of 32: byte l of a half holds weight l of blocks 0-3 of that half.
"""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u32, u32x4

from .base import BlockFormat, byte_of, halves, raw_word, unsigned_floats


@struct
class Quants:
    """The GGUF quants as they are."""

    q: u32x4[4]


@struct
class Scales:
    """d and dmin as two f16, then the sixteen scale bytes."""

    dm: u32
    sc: u32[4]


def crumbs(q, g, w):
    """Two-bit codes of weights 4w.. of block g, one a byte."""
    at = (g // 4) * 8 + w
    return (q.q[at // 4][at % 4] >> ((g % 4) * 2)) & 0x03030303


def repack_crumbs(raw, at, i, q):
    """Blocks i of the 64 code bytes at byte `at`: block 0 of each half copies them, they need no change."""
    if i % 4 == 0:
        for w in static_range(8):
            word = i // 4 * 8 + w
            q.q[word // 4][word % 4] = raw_word(raw, at + i * 8 + 4 * w)


class Q2_K(BlockFormat):
    """GGUF block: 16 scale bytes, 64 bytes of codes, d f16, dmin f16."""

    name = "Q2_K"
    elements = 256
    disk = DiskBlock(scales=u8[16], qs=u8[64], d=f16, dmin=f16)
    disk_elements = 256
    planes = Quants, Scales
    INTEGER = True
    HALVES = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return crumbs(q, g, w)

    @spirv_decode
    def quad(self, q, s, g, w):
        scale, low = halves(s.dm)
        pair = byte_of(s.sc, g * 2 + w // 4)
        a, b, c, d = unsigned_floats(crumbs(q, g, w))
        return scale * f32(pair & 15) * f32x4(a, b, c, d) - low * f32(pair >> 4)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        scale, low = halves(s.dm)
        a, b = byte_of(s.sc, g * 2), byte_of(s.sc, g * 2 + 1)
        dots = f32(a & 15) * f32(lo) + f32(b & 15) * f32(hi)
        sums = f32(a >> 4) * f32(sum_lo) + f32(b >> 4) * f32(sum_hi)
        return d * (scale * dots - low * sums)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        repack_crumbs(raw, at + 16, i, q)
        if i == 0:
            s.dm = raw_word(raw, at + 80)
            for c in static_range(4):
                s.sc[c] = raw_word(raw, at + 4 * c)
