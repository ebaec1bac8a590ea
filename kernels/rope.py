"""From the q/k/v projections to a rotated query and a stored key and value.

RoPE in the NEOX pairing (i, i + n_rot / 2): llama.cpp `rope type neox`, HF `rotate_half`. Optional RMSNorm per head of q and k
before the rotation (Qwen3). cos and sin come from a table made in float64 at load: Vulkan's own sin is only good to 2^-11.
"""

from __future__ import annotations

from spirvdsl import (
    In,
    InOut,
    Kernel,
    Out,
    Param,
    Push,
    barrier,
    f32,
    f32x2,
    group_id,
    local_index,
    shared,
    sqrt,
    u32,
    workgroup_sum,
)

from .rows import PAGE, Row


class RopeStore(Kernel):
    """One workgroup a head and token: grid (heads + 2 * kv_heads, T).

    qkv: f32 [T, qkv_stride], q heads | k heads | v heads of HD values; rope: (cos, sin) [positions, NROT / 2];
    q: f32 [T, heads, HDP], times `scale`, pads zero; k, v: cache pages [page][kv_head][PAGE][HDP] of CT; table: page numbers.
    """

    HD: Param[int]
    NROT: Param[int]
    NORM: Param[bool]
    CT: Param[object]
    workgroup_size = 64
    requires = ("HD % 2 == 0", "NROT % 2 == 0", "NROT <= HD")

    qkv: In[f32]
    q_norm: In[f32]
    k_norm: In[f32]
    rope: In[f32x2]
    rows_of: In[Row]
    table: In[u32]
    q: Out[f32]
    k: InOut["CT"]
    v: InOut["CT"]
    heads: Push[u32]
    kv_heads: Push[u32]
    qkv_stride: Push[u32]
    eps: Push[f32]
    scale: Push[f32]

    def main(self):
        head, t = group_id.x, group_id.y
        row = self.rows_of[t]
        source = t * self.qkv_stride + head * self.HD
        normed = shared(f32, self.HD)
        total = f32(0)
        for i in range(local_index, self.HD, 64):
            value = self.qkv[source + i]
            total += value * value
        scale = 1.0 / sqrt(workgroup_sum(total) / f32(self.HD) + self.eps)
        is_q, is_v = head < self.heads, head >= self.heads + self.kv_heads
        for i in range(local_index, self.HD, 64):
            value = self.qkv[source + i]
            if self.NORM:
                if is_q:
                    value = value * scale * self.q_norm[i]
                elif not is_v:
                    value = value * scale * self.k_norm[i]
            normed[i] = value
        barrier()
        for i in range(local_index, padded_head(self.HD), 64):
            self.put(i, self.rotated(normed, i, row.position, is_v), head, t, row.position, row.table, is_q, is_v)

    def rotated(self, normed, i, position, is_v):
        """Channel i after rotation; channels past NROT and values pass through, pads are zero."""
        value = f32(0)
        if i < self.HD:
            value = normed[i]
            if i < self.NROT and not is_v:
                half = self.NROT // 2
                pair = i % half
                angle = self.rope[position * half + pair]
                a, b = normed[pair], normed[pair + half]
                if i < half:
                    value = a * angle.x - b * angle.y
                else:
                    value = a * angle.y + b * angle.x
        return value

    def put(self, i, value, head, t, position, table, is_q, is_v):
        width = padded_head(self.HD)
        if is_q:
            self.q[(t * self.heads + head) * width + i] = value * self.scale
        else:
            kv_head = (head - self.heads) % self.kv_heads
            page = self.table[table + position // PAGE]
            at = ((page * self.kv_heads + kv_head) * PAGE + position % PAGE) * width + i
            if is_v:
                self.v[at] = self.CT(value)
            else:
                self.k[at] = self.CT(value)


def padded_head(hd):
    """Row length of heads in q and in the cache: a multiple of 8."""
    return (hd + 7) // 8 * 8
