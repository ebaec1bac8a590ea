"""ggml Q4_K: 256 weights in 144 bytes; weight = d * S[j] * q - dmin * M[j] for sub-block j of 32."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, spirv_decode, static_range, struct, u8, u32, u32x4

from .base import BlockFormat, byte_of, halves, raw_word, unsigned_floats


@struct
class Quants:
    """Per sub-block 16 bytes, byte j: weight j in the low nibble, j + 16 in the high one (the disk pairs two sub-blocks)."""

    q: u32x4[8]


@struct
class Scales:
    """d and dmin as two f16, then the eight 6-bit scales and minima as bytes."""

    dm: u32
    sc: u32[2]
    mn: u32[2]


def scale_and_min(s, g):
    """(d * S[g], dmin * M[g]) of a Q4_K or Q5_K element."""
    d, dmin = halves(s.dm)
    return d * f32(byte_of(s.sc, g)), dmin * f32(byte_of(s.mn, g))


def repack_scales(raw, at, s):
    """Unpacks the 12 bytes of 6-bit scales and minima at byte `at + 4`."""
    a, b, c = raw_word(raw, at + 4), raw_word(raw, at + 8), raw_word(raw, at + 12)
    s.dm = raw_word(raw, at)
    s.sc[0] = a & 0x3F3F3F3F
    s.sc[1] = (c & 0x0F0F0F0F) | ((a >> 2) & 0x30303030)
    s.mn[0] = b & 0x3F3F3F3F
    s.mn[1] = ((c >> 4) & 0x0F0F0F0F) | ((b >> 2) & 0x30303030)


def repack_nibbles(raw, at, i, q):
    """Sub-block i of the 128 nibble bytes at byte `at`: disk word w of a pair holds weights 4w.. of both sub-blocks."""
    shift = (i % 2) * 4
    base = at + (i // 2) * 32
    for w in static_range(4):
        low = (raw_word(raw, base + 4 * w) >> shift) & 0x0F0F0F0F
        high = (raw_word(raw, base + 16 + 4 * w) >> shift) & 0x0F0F0F0F
        q.q[i][w] = low | (high << 4)


class Q4_K(BlockFormat):
    """GGUF block: d f16, dmin f16, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles."""

    name = "Q4_K"
    elements = 256
    disk = DiskBlock(d=f16, dmin=f16, scales=u8[12], qs=u8[128])
    disk_elements = 256
    planes = Quants, Scales
    INTEGER = True

    @spirv_decode
    def packed(self, q, s, g, w):
        return (q.q[g][w % 4] >> ((w // 4) * 4)) & 0x0F0F0F0F

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
        repack_nibbles(raw, at + 16, i, q)
