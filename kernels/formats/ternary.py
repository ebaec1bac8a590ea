"""ggml TQ1_0 and TQ2_0: weights -d, 0 and d, for models trained so (BitNet b1.58)."""

from __future__ import annotations

from spirvdsl import DiskBlock, f16, f32, f32x4, select, spirv_decode, static_range, struct, u8, u32, u32x4

from .base import BlockFormat, half, raw_half, raw_word, unsigned_floats, word_at
from .q2_k import Quants as Quants2
from .q2_k import crumbs, repack_crumbs


@struct
class Quants1:
    """The first 48 bytes of the file's digits as they are, five weights a byte."""

    q: u32x4[3]


@struct
class Scales1:
    """The last four bytes of digits, of four weights each; d in the low half."""

    q: u32
    d: u32


@struct
class Scales2:
    """Scale of the block."""

    d: f16


def digits(word, n):
    """Ternary digit n (0-4) of each byte, one in each byte. A byte is a fraction of 256: digit 0 is the whole part of three times it."""
    power = select(n == 4, u32(81), (u32(0x1B090301) >> ((n % 4) * 8)) & 0xFF)
    even = (((word & 0x00FF00FF) * power) & 0x00FF00FF) * 3
    odd = ((((word >> 8) & 0x00FF00FF) * power) & 0x00FF00FF) * 3
    return ((even >> 8) & 0x00030003) | (odd & 0x03000300)


class _Ternary(BlockFormat):
    """What both share: packed() is the weight plus one."""

    elements = 256
    disk_elements = 256
    INTEGER = True

    @spirv_decode
    def quad(self, q, s, g, w):
        a, b, c, d = unsigned_floats(self.packed(q, s, g, w))
        return self.scale(s) * (f32x4(a, b, c, d) - 1.0)

    @spirv_decode
    def fold(self, s, g, lo, hi, d, sum_lo, sum_hi):
        return self.scale(s) * d * f32(lo + hi - sum_lo - sum_hi)


class TQ1_0(_Ternary):
    """GGUF block: 52 bytes of ternary digits, d f16. Digit n of bytes 0-31: weights 32n..; of bytes 32-47: 160 + 16n..; of
    bytes 48-51: 240 + 4n.. (n < 4)."""

    name = "TQ1_0"
    disk = DiskBlock(qs=u8[48], qh=u8[4], d=f16)
    planes = Quants1, Scales1

    @spirv_decode
    def scale(self, s):
        return half(s.d)

    @spirv_decode
    def packed(self, q, s, g, w):
        quad = g * 8 + w  # of 64 in the element
        first, second = quad < 40, quad < 60
        word = select(first, w, 8 + quad % 4)
        n = select(first, g, select(second, (quad - 40) // 4, quad - 60))
        return digits(select(second, word_at(q.q, word), s.q), n)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        if i == 0:
            s.q = raw_word(raw, at + 48)
            s.d = u32(raw[(at + 52) // 2])
            for w in static_range(12):
                q.q[w // 4][w % 4] = raw_word(raw, at + 4 * w)


class TQ2_0(_Ternary):
    """GGUF block: 64 bytes of two-bit codes in the order of Q2_K, d f16."""

    name = "TQ2_0"
    disk = DiskBlock(qs=u8[64], d=f16)
    planes = Quants2, Scales2

    @spirv_decode
    def scale(self, s):
        return f32(s.d)

    @spirv_decode
    def packed(self, q, s, g, w):
        return crumbs(q, g, w)

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        repack_crumbs(raw, at, i, q)
        if i == 0:
            s.d = raw_half(raw, at + 64)
