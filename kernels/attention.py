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
    f32x2,
    f32x4,
    group_id,
    local_index,
    max,
    min,
    shared,
    static_range,
    subgroup_add,
    subgroup_id,
    subgroup_lane,
    subgroup_max,
    subgroup_shuffle,
    u32,
    u32x2,
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

    Every subgroup walks keys of its own, one key a lane for the scores, then all lanes together for the values, so that the
    loop needs no barrier; the subgroups' sums meet at the end. SG: the subgroup size; NSG: subgroups of the workgroup.
    """

    HD: Param[int]
    GROUP: Param[int]
    CT4: Param[object]
    SPLIT: Param[bool]
    SG: Param[int]
    NSG: Param[int] = 4
    workgroup_size = "SG * NSG"
    subgroup_size = "SG"
    requires = ("HD >= 1", "GROUP >= 1", "SG * NSG <= 1024", "SG % 4 == 0", "64 % SG == 0", "GROUP * ((NSG + 1) * ((HD + 7) // 8 * 8) + 2 * NSG) * 4 <= 32768")

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
        for i in range(local_index, self.GROUP * width, self.SG * self.NSG):
            queries[i] = self.q[first_head * width + i]
        barrier()
        row = self.rows_of[t]
        count = row.position + 1
        pages = (count + PAGE - 1) // PAGE
        per_split = (pages + self.splits - 1) // self.splits
        start = min(split * per_split * PAGE, count)
        end = min((split + 1) * per_split * PAGE, count)
        if start < end:
            self.run(queries, width, start, end, row.table, kv_head, row.position)
            self.write(first_head, split, t, kv_head)
        elif local_index < self.GROUP:  # an empty split: the combination leaves it out
            at = ((first_head + local_index) * self.splits + split) * 2
            self.stats[at] = f32(NEVER)
            self.stats[at + 1] = f32(0)

    def run(self, queries, width, start, end, table, kv_head, position):
        """This subgroup's keys; leaves its maximum, sum and values in workgroup memory."""
        dims = (width + self.SG - 1) // self.SG  # f32x4 columns of the output a lane owns
        peak = [f32(NEVER) for _ in static_range(self.rows())]
        total = [f32(0) for _ in static_range(self.rows())]
        acc = [[f32x4(0.0) for _ in static_range(dims)] for _ in static_range(self.rows())]
        for base in range(start + subgroup_id * self.SG, end, self.SG * self.NSG):
            page = self.table[table + base // PAGE]  # SG divides PAGE and splits start at pages: one page a step
            first = ((page * self.kv_heads + kv_head) * PAGE + base % PAGE) * width
            weights = self.scores(queries, width, first, base + subgroup_lane < end)
            self.mask(weights, base + subgroup_lane, position)
            for g in static_range(self.rows()):
                best = max(peak[g], subgroup_max(weights[g]))
                shrink = exp(peak[g] - best)
                weights[g] = exp(weights[g] - best)
                total[g] = total[g] * shrink + subgroup_add(weights[g])
                peak[g] = best
                for i in static_range(dims):
                    acc[g][i] = acc[g][i] * shrink
            self.add_values(acc, weights, width, first, min(end - base, self.SG) - 1, dims)
        sums, extremes = self.sums(), self.extremes()
        for g in static_range(self.rows()):
            at = subgroup_id * self.rows() + g
            for i in static_range(dims):
                column = subgroup_lane + i * self.SG
                if column < width:
                    for lane in static_range(4):
                        sums[at * width * 4 + column * 4 + lane] = acc[g][i][lane]
            if subgroup_lane == 0:
                extremes[at * 2] = peak[g]
                extremes[at * 2 + 1] = total[g]
        barrier()

    def rows(self):
        """Query rows that share the keys and values of a workgroup."""
        return self.GROUP

    def mask(self, weights, key, position):
        """Hook: which rows may see a key. position: of the first row's token."""

    def sums(self):
        """f32 [NSG, GROUP, HDP] of workgroup memory."""
        return shared(f32, self.NSG * self.rows() * padded_head(self.HD))

    def extremes(self):
        """(maximum, sum) per subgroup and head."""
        return shared(f32, self.NSG * self.rows() * 2)

    def scores(self, queries, width, first, valid):
        """This lane's key against the GROUP queries; NEVER past the end. first: element of the step's first key."""
        out = [f32(NEVER) for _ in static_range(self.rows())]
        if valid:
            at = first + subgroup_lane * width
            sums = [f32x4(0.0) for _ in static_range(self.rows())]
            for i in range(0, width, 2):
                keys = [f32x4(self.k[at + i + n]) for n in static_range(2)]
                for g in static_range(self.rows()):
                    for n in static_range(2):
                        sums[g] += queries[g * width + i + n] * keys[n]
            for g in static_range(self.rows()):
                out[g] = dot(sums[g], f32x4(1.0))
        return out

    def add_values(self, acc, weights, width, first, last, dims):
        """acc += weights . values: lanes own columns, keys are walked in order, their weights come by shuffle.

        Keys past the end have weight 0; the last valid one is read in their place, because pages are never cleared. Four values are asked for before the first
        is used: one at a time, a step waited for memory once a key (23 us a layer on an H200 at depth 128, 2026-11-30).
        """
        for j in range(0, self.SG, 4):
            for i in static_range(dims):
                column = min(subgroup_lane + i * self.SG, width - 1)
                values = [f32x4(self.v[first + min(j + n, last) * width + column]) for n in static_range(4)]
                for n in static_range(4):
                    for g in static_range(self.rows()):
                        acc[g][i] += subgroup_shuffle(weights[g], j + n) * values[n]

    def write(self, first_head, split, t, kv_head):
        """Joins the subgroups and writes this split's sums, or the finished output."""
        hdp = padded_head(self.HD)
        sums, extremes = self.sums(), self.extremes()
        for i in range(local_index, self.rows() * hdp, self.SG * self.NSG):
            g, channel = i // hdp, i % hdp
            best = f32(NEVER)
            for n in range(self.NSG):
                best = max(best, extremes[(n * self.rows() + g) * 2])
            top, bottom = f32(0), f32(0)
            for n in range(self.NSG):
                at = n * self.rows() + g
                factor = exp(extremes[at * 2] - best)
                bottom += factor * extremes[at * 2 + 1]
                top += factor * sums[at * hdp + channel]
            self.put(top, bottom, best, channel, g, first_head, split, t, kv_head)

    def put(self, top, bottom, best, channel, g, first_head, split, t, kv_head):
        if self.SPLIT:
            at = (first_head + g) * self.splits + split
            self.out[at * padded_head(self.HD) + channel] = top
            if channel == 0:
                self.stats[at * 2] = best
                self.stats[at * 2 + 1] = bottom
        elif channel < self.HD:
            self.out[t * self.out_stride + (kv_head * self.GROUP + g) * self.HD + channel] = top / bottom


class Combine(Kernel):
    """Joins the splits of Attention: y[t, head * HD + c], as f32 [T, blocks * 32] and, Q8, as q8 activations.

    partial: f32x4 [T, heads, splits, HDP / 4]; stats: (maximum, sum) pairs. QL lanes a block of 32 outputs; grid (.., T) with
    group x counting 64 / QL blocks. values: heads * HD.
    """

    HD: Param[int]
    Q8: Param[bool]
    QL: Param[int]
    partial: In[f32x4]
    stats: In[f32x2]
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
        """Output channels channel .. channel + 3 of token t; zero in the padding."""
        if self.HD % 4 == 0:  # all four are of one head: its weights are worked out once
            return self.joined(t, channel // self.HD, channel % self.HD)
        values = [self.joined(t, (channel + n) // self.HD, (channel + n) % self.HD // 4 * 4) for n in static_range(4)]
        return f32x4(*[values[n][(channel + n) % self.HD % 4] for n in static_range(4)])

    def joined(self, t, head, channel):
        """Channels channel .. channel + 3 (a multiple of 4) of one head over all splits."""
        value = f32x4(0.0)
        if head < self.heads:
            first = (t * self.heads + head) * self.splits
            best = f32(NEVER)
            for s in range(self.splits):
                best = max(best, self.stats[first + s].x)
            bottom = f32(0)
            for s in range(self.splits):
                pair = self.stats[first + s]
                factor = exp(pair.x - best)
                bottom += factor * pair.y
                if pair.y > 0.0:  # an empty split left its sums as they were
                    value += factor * self.partial[((first + s) * padded_head(self.HD) + channel) // 4]
            value = value / bottom
        return value
