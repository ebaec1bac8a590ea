"""Unquantised weights: F32, F16 and BF16, in blocks of 32 so that they look like every other format."""

from __future__ import annotations

from spirvdsl import DiskBlock, bitcast, f16, f16x4, f32, f32x4, spirv_decode, static_range, struct, u16, u32, u32x2

from .base import BlockFormat, raw_half, raw_word


@struct
class NoScales:
    """Floats have no scales; one word keeps every format at two planes."""

    unused: u32


@struct
class Quants32:
    """32 weights."""

    w: f32x4[8]


@struct
class Quants16:
    """32 weights."""

    w: f16x4[8]


@struct
class QuantsBrain:
    """32 weights, two a word, the earlier in the low half."""

    w: u32x2[8]


class F32(BlockFormat):
    """Plain f32."""

    name = "F32"
    elements = 32
    disk = DiskBlock(w=f32)
    disk_elements = 1
    planes = Quants32, NoScales

    @spirv_decode
    def quad(self, q, s, g, w):
        return q.w[w]

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        for w in static_range(8):
            for lane in static_range(4):
                q.w[w][lane] = bitcast(raw_word(raw, at + 16 * w + 4 * lane), f32) if 4 * w + lane < n else 0.0


class F16(BlockFormat):
    """IEEE half precision."""

    name = "F16"
    elements = 32
    disk = DiskBlock(w=f16)
    disk_elements = 1
    planes = Quants16, NoScales

    @spirv_decode
    def quad(self, q, s, g, w):
        return f32x4(q.w[w])

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        for w in static_range(8):
            for lane in static_range(4):
                q.w[w][lane] = raw_half(raw, at + 8 * w + 2 * lane) if 4 * w + lane < n else f16(0)


class BF16(BlockFormat):
    """bfloat16: the upper half of an f32."""

    name = "BF16"
    elements = 32
    disk = DiskBlock(w=u16)
    disk_elements = 1
    planes = QuantsBrain, NoScales

    @spirv_decode
    def quad(self, q, s, g, w):
        pair = q.w[w]
        return f32x4(bitcast(pair.x << 16, f32), bitcast(pair.x & 0xFFFF0000, f32), bitcast(pair.y << 16, f32), bitcast(pair.y & 0xFFFF0000, f32))

    @spirv_decode
    def repack(self, raw, at, i, n, q, s):
        for w in static_range(8):
            for c in static_range(2):
                at_pair = at // 2 + 4 * w + 2 * c
                low = u32(raw[at_pair]) if 4 * w + 2 * c < n else 0
                high = u32(raw[at_pair + 1]) if 4 * w + 2 * c + 1 < n else 0
                q.w[w][c] = low | (high << 16)
