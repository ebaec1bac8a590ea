"""Attention of a prefill window: TOKENS neighbouring tokens of one sequence share every key and value that is read.

The walk over the keys is that of kernels/attention.py with TOKENS * GROUP query rows instead of GROUP, and a causal mask.
"""

from __future__ import annotations

from spirvdsl import (
    Param,
    Push,
    barrier,
    f32,
    f32x4,
    group_id,
    local_index,
    min,
    select,
    shared,
    static_range,
    u32,
)

from .attention import NEVER, Attention
from .rope import padded_head


class WindowAttention(Attention):
    """Grid (kv_heads, ceil(tokens / TOKENS)). Arguments and out as in Attention without SPLIT; stats is not written.

    The tokens of the dispatch are one sequence at rising positions: rows_of[t].position = rows_of[0].position + t, one table.
    """

    SPLIT = False
    TOKENS: Param[int] = 4
    requires = (
        "not SPLIT", "HD >= 1", "GROUP >= 1", "TOKENS >= 1", "SG * NSG <= 1024", "SG % 4 == 0", "64 % SG == 0",
        "TOKENS * GROUP * ((NSG + 1) * ((HD + 7) // 8 * 8) + 2 * NSG) * 4 <= 49152",
    )  # fmt: skip

    tokens: Push[u32]

    def main(self):
        kv_head, t0 = group_id.x, group_id.y * self.TOKENS
        width, heads = padded_head(self.HD) // 4, self.kv_heads * self.GROUP
        queries = shared(f32x4, self.rows() * width)
        for i in range(local_index, self.rows() * width, self.SG * self.NSG):
            row, column = i // width, i % width
            t = min(t0 + row // self.GROUP, self.tokens - 1)  # rows past the last token repeat it and are not written
            queries[i] = self.q[(t * heads + kv_head * self.GROUP + row % self.GROUP) * width + column]
        barrier()
        first, last = self.rows_of[t0], self.rows_of[min(t0 + self.TOKENS, self.tokens) - 1]
        self.run(queries, width, u32(0), last.position + 1, first.table, kv_head, first.position)
        self.write(u32(0), u32(0), t0, kv_head)

    def rows(self):
        return self.TOKENS * self.GROUP

    def mask(self, weights, key, position):
        """A step that is masked whole leaves ones behind, which the first key that is seen wipes out; key 0 always is."""
        for row in static_range(self.rows()):
            weights[row] = select(key <= position + row // self.GROUP, weights[row], f32(NEVER))

    def put(self, top, bottom, best, channel, g, first_head, split, t, kv_head):
        token = t + g // self.GROUP
        if channel < self.HD and token < self.tokens:
            self.out[token * self.out_stride + (kv_head * self.GROUP + g % self.GROUP) * self.HD + channel] = top / bottom
