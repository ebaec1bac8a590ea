"""RMSNorm of rows, with q8 activations as a by-product where the consumers want them."""

from __future__ import annotations

from spirvdsl import (
    In,
    Kernel,
    Out,
    Param,
    Push,
    dot,
    f32,
    f32x4,
    group_id,
    local_index,
    sqrt,
    static_range,
    u32,
    u32x2,
    workgroup_sum,
)

from .quantize import quantise


class RmsNorm(Kernel):
    """y[t] = x[row0 + t] / sqrt(mean(x^2) + eps) * weight.  x: f32x4 [rows, blocks * 8], weight: f32x4 [blocks * 8], pads zero.

    F32 writes y (f32x4 [T, blocks * 8]); Q8 writes yq (words) and ys. One workgroup a row; dim: values a row.
    """

    F32: Param[bool]
    Q8: Param[bool]
    QL: Param[int]
    THREADS: Param[int] = 256
    workgroup_size = "THREADS"
    requires = ("F32 or Q8", "THREADS % QL == 0", "QL in (4, 8)")

    x: In[f32x4]
    weight: In[f32x4]
    y: Out[f32x4]
    yq: Out[u32]
    ys: Out[u32x2]
    dim: Push[u32]
    blocks: Push[u32]
    row0: Push[u32]
    eps: Push[f32]

    def main(self):
        source = (self.row0 + group_id.x) * self.blocks * 8
        total = f32(0)
        for i in range(local_index, self.blocks * 8, self.THREADS):
            v = self.x[source + i]
            total += dot(v, v)
        scale = 1.0 / sqrt(workgroup_sum(total) / f32(self.dim) + self.eps)
        part, words = local_index % self.QL, 8 // self.QL
        for block in range(local_index // self.QL, self.blocks, self.THREADS // self.QL):
            at = block * 8 + part * words
            values = [self.x[source + at + k] * scale * self.weight[at + k] for k in static_range(words)]
            target = group_id.x * self.blocks
            if self.F32:
                for k in static_range(words):
                    self.y[target * 8 + at + k] = values[k]
            if self.Q8:
                quantise(values, self.yq, self.ys, target + block, part, self.QL)
