"""Attention over the paged cache: one kernel for prefill rows and for decode, split over the context when asked.

softmax(q k^T) v per query head; the GROUP query heads of one kv head share every key and value that is read. The running
maximum and sum are those of flash attention (Dao et al. 2022): nothing of size context is ever stored.
"""

from __future__ import annotations

from spirvdsl import (
    In,
    Kernel,
    Out,
    Param,
    Push,
    barrier,
    dot,
    exp,
    f32,
    f32x4,
    group_id,
    local_index,
    max,
    min,
    shared,
    static_range,
    u32,
    u32x2,
    workgroup_max,
    workgroup_sum,
)

from .quantize import quantise
from .rope import padded_head
from .rows import PAGE, Row

NEVER = -1e30  # below every score; exp(NEVER - m) is 0 for every real maximum m


class Attention(Kernel):
    """Grid (kv_heads, T, splits). A split takes a run of whole pages of the keys 0..position.

    q: f32x4 [T, heads, HDP/4], already scaled; k, v: pages [page][kv_head][PAGE][HDP/4] of CT4 (four cache values).
    SPLIT: out is partial sums f32 [T, heads, splits, HDP], not yet divided, with (maximum, sum) in stats [T, heads, splits] * 2;
    else out is f32 [T, out_stride], heads side by side without padding, and stats is not written.
    """

    HD: Param[int]
    GROUP: Param[int]
    CT4: Param[object]
    SPLIT: Param[bool]
    THREADS: Param[int] = 64
    workgroup_size = "THREADS"
    requires = ("HD >= 1", "GROUP >= 1", "GROUP * (HD + 8 + THREADS) * 4 + 2048 <= 32768")

    q: In[f32x4]
    k: In["CT4"]
    v: In["CT4"]
    rows_of: In[Row]
    table: In[u32]
    out: Out[f32]
    stats: Out[f32]
    kv_heads: Push[u32]
    splits: Push[u32]
    out_stride: Push[u32]

    def main(self):
        kv_head, t, split = group_id.x, group_id.y, group_id.z
        width = padded_head(self.HD) // 4
        queries = shared(f32x4, self.GROUP * width)
        first_head = t * self.kv_heads * self.GROUP + kv_head * self.GROUP
        for i in range(local_index, self.GROUP * width, self.THREADS):
            queries[i] = self.q[first_head * width + i]
        barrier()
        row = self.rows_of[t]
        count = row.position + 1
        pages = (count + PAGE - 1) // PAGE
        per_split = (pages + self.splits - 1) // self.splits
        start = min(split * per_split * PAGE, count)
        end = min((split + 1) * per_split * PAGE, count)
        self.run(queries, width, start, end, row.table, kv_head, first_head, split, t)

    def run(self, queries, width, start, end, table, kv_head, first_head, split, t):
        dims = (padded_head(self.HD) // 4 + self.THREADS - 1) // self.THREADS  # f32x4 columns of the output a lane owns
        weights = shared(f32, self.GROUP * self.THREADS)
        peak = [f32(NEVER) for _ in static_range(self.GROUP)]
        total = [f32(0) for _ in static_range(self.GROUP)]
        acc = [[f32x4(0.0) for _ in static_range(dims)] for _ in static_range(self.GROUP)]
        for base in range(start, end, self.THREADS):
            key = base + local_index
            scores = self.scores(queries, width, key, end, table, kv_head)
            for g in static_range(self.GROUP):
                best = max(peak[g], workgroup_max(scores[g]))
                shrink = exp(peak[g] - best)
                weight = exp(scores[g] - best)
                weights[g * self.THREADS + local_index] = weight
                total[g] = total[g] * shrink + workgroup_sum(weight)
                peak[g] = best
                for i in static_range(dims):
                    acc[g][i] = acc[g][i] * shrink
            barrier()
            self.add_values(acc, weights, width, base, min(end - base, self.THREADS), table, kv_head, dims)
            barrier()
        self.write(acc, peak, total, width, dims, first_head, split, t, kv_head)

    def scores(self, queries, width, key, end, table, kv_head):
        """This lane's key against the GROUP queries; NEVER past the end."""
        out = [f32(NEVER) for _ in static_range(self.GROUP)]
        if key < end:
            page = self.table[table + key // PAGE]
            at = ((page * self.kv_heads + kv_head) * PAGE + key % PAGE) * width
            sums = [f32x4(0.0) for _ in static_range(self.GROUP)]
            for i in range(width):
                k = f32x4(self.k[at + i])
                for g in static_range(self.GROUP):
                    sums[g] += queries[g * width + i] * k
            for g in static_range(self.GROUP):
                out[g] = dot(sums[g], f32x4(1.0))
        return out

    def add_values(self, acc, weights, width, base, count, table, kv_head, dims):
        """acc += weights . values: lanes own columns, keys are walked in order."""
        for j in range(count):
            key = base + j
            page = self.table[table + key // PAGE]
            at = ((page * self.kv_heads + kv_head) * PAGE + key % PAGE) * width
            for i in static_range(dims):
                column = min(local_index + i * self.THREADS, width - 1)
                value = f32x4(self.v[at + column])
                for g in static_range(self.GROUP):
                    acc[g][i] += weights[g * self.THREADS + j] * value

    def write(self, acc, peak, total, width, dims, first_head, split, t, kv_head):
        for g in static_range(self.GROUP):
            for i in static_range(dims):
                column = local_index + i * self.THREADS
                if column < width:
                    for lane in static_range(4):
                        self.put(acc[g][i][lane], column * 4 + lane, g, total[g], first_head, split, t, kv_head)
            if self.SPLIT:
                if local_index == 0:
                    at = ((first_head + g) * self.splits + split) * 2
                    self.stats[at] = peak[g]
                    self.stats[at + 1] = total[g]

    def put(self, value, channel, g, total, first_head, split, t, kv_head):
        if self.SPLIT:
            self.out[((first_head + g) * self.splits + split) * padded_head(self.HD) + channel] = value
        elif channel < self.HD:
            self.out[t * self.out_stride + (kv_head * self.GROUP + g) * self.HD + channel] = value / total


class Combine(Kernel):
    """Joins the splits of Attention: y[t, head * HD + c], as f32 [T, blocks * 32] and, Q8, as q8 activations.

    partial: f32 [T, heads, splits, HDP]; stats: (maximum, sum) pairs. QL lanes a block of 32 outputs; grid (.., T) with
    group x counting 64 / QL blocks. values: heads * HD.
    """

    HD: Param[int]
    Q8: Param[bool]
    QL: Param[int]
    partial: In[f32]
    stats: In[f32]
    y: Out[f32x4]
    yq: Out[u32]
    ys: Out[u32x2]
    heads: Push[u32]
    splits: Push[u32]
    blocks: Push[u32]

    def main(self):
        block = group_id.x * (64 // self.QL) + local_index // self.QL
        part, words, t = local_index % self.QL, 8 // self.QL, group_id.y
        if block < self.blocks:
            values = [self.four(t, (block * 8 + part * words + k) * 4) for k in static_range(words)]
            if self.Q8:
                quantise(values, self.yq, self.ys, t * self.blocks + block, part, self.QL)
            else:
                for k in static_range(words):
                    self.y[(t * self.blocks + block) * 8 + part * words + k] = values[k]

    def four(self, t, channel):
        return f32x4(self.one(t, channel), self.one(t, channel + 1), self.one(t, channel + 2), self.one(t, channel + 3))

    def one(self, t, channel):
        """Output channel `channel` of token t; zero in the padding."""
        value = f32(0)
        head = channel // self.HD
        if head < self.heads:
            first = (t * self.heads + head) * self.splits
            best = f32(NEVER)
            for s in range(self.splits):
                best = max(best, self.stats[(first + s) * 2])
            top, bottom = f32(0), f32(0)
            for s in range(self.splits):
                factor = exp(self.stats[(first + s) * 2] - best)
                bottom += factor * self.stats[(first + s) * 2 + 1]
                top += factor * self.partial[(first + s) * padded_head(self.HD) + channel % self.HD]
            value = top / bottom
        return value
