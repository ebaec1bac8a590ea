"""f32 rows to q8 activations: int8 words, a scale per 32 and the integer sums of both halves.

`QL` lanes (4 or 8, at most the subgroup size) share a block of 32 values. Source of the form: ggml's Q8_1 idea, one scale and
sums per block, so that formats with a minimum or an offset need no second pass.
"""

from __future__ import annotations

from spirvdsl import (
    In,
    Kernel,
    Out,
    Param,
    Push,
    abs,
    bitcast,
    exp,
    f32,
    f32x4,
    group_id,
    i32,
    i32x4,
    local_index,
    max,
    num_groups,
    round,
    select,
    static_range,
    subgroup_add,
    subgroup_max,
    u32,
    u32x2,
)

SMALLEST = 1.1754944e-38  # f32 below are subnormal: a device may take them for 0, and 1 / d may not be finite; such a block is zeros


def largest(v):
    """Largest magnitude of an f32x4."""
    a = abs(v)
    return max(max(a.x, a.y), max(a.z, a.w))


def pack(v):
    """Four ints -128..127 as the bytes of a word, x lowest."""
    b = u32(v.x) & 0xFF, u32(v.y) & 0xFF, u32(v.z) & 0xFF, u32(v.w) & 0xFF
    return b[0] | (b[1] << 8) | (b[2] << 16) | (b[3] << 24)


def quantise(values, xq, xs, block, part, lanes):
    """Writes 8 // lanes words per lane of block `block`; part = lane of the block. All lanes of the subgroup must call it."""
    peak = f32(0)
    for v in values:
        peak = max(peak, largest(v))
    d = subgroup_max(peak, cluster=lanes) / 127.0
    inverse = select(d >= SMALLEST, 1.0 / d, f32(0))
    low, high = i32(0), i32(0)
    words = 8 // lanes
    for k in static_range(words):
        w = part * words + k
        q = i32x4(round(values[k] * inverse))
        total = q.x + q.y + q.z + q.w
        low += select(w < 4, total, i32(0))
        high += select(w < 4, i32(0), total)
        xq[block * 8 + w] = pack(q)
    low, high = subgroup_add(low, cluster=lanes), subgroup_add(high, cluster=lanes)
    if part == 0:
        xs[block] = u32x2(bitcast(d, u32), (u32(low) & 0xFFFF) | (u32(high) << 16))


class Quantize(Kernel):
    """xq, xs = q8 of x. x: f32x4 [rows of `blocks` blocks]; blocks counts all of them. Grid: any shape with enough lanes."""

    QL: Param[int]
    x: In[f32x4]
    xq: Out[u32]
    xs: Out[u32x2]
    blocks: Push[u32]

    def main(self):
        at = (group_id.y * num_groups.x + group_id.x) * 64 + local_index
        block, part, words = at // self.QL, at % self.QL, 8 // self.QL
        if block < self.blocks:
            quantise([self.x[block * 8 + part * words + k] for k in static_range(words)], self.xq, self.xs, block, part, self.QL)


class SwiGLU(Kernel):
    """h = silu(gate) * up. gate, up: f32x4 rows; `blocks` counts all blocks of 32. INT writes q8 (y words, ys), else f32x4 y."""

    INT: Param[bool]
    QL: Param[int]
    gate: In[f32x4]
    up: In[f32x4]
    y: Out["u32 if INT else f32x4"]
    ys: Out[u32x2]
    blocks: Push[u32]

    def main(self):
        at = (group_id.y * num_groups.x + group_id.x) * 64 + local_index
        block, part, words = at // self.QL, at % self.QL, 8 // self.QL
        if block < self.blocks:
            h = [self.value(block * 8 + part * words + k) for k in static_range(words)]
            if self.INT:
                quantise(h, self.y, self.ys, block, part, self.QL)
            else:
                for k in static_range(words):
                    self.y[block * 8 + part * words + k] = h[k]

    def value(self, at):
        g = self.gate[at]
        return g / (1.0 + exp(-g)) * self.up[at]
