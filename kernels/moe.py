"""Mixture of experts: the choice of experts on the device, and matrix-vector products that read the choice from a buffer.

Experts of a layer lie one below the other in one stacked matrix: row r of expert e is row e * rows + r. A shard holds the experts
[expert0, expert0 + experts); workgroups of other experts write nothing. `route` holds (expert, weight as bits) of every
(token, slot) pair, u32x2 [T, used]. Source of the maths: llama.cpp's build_moe_ffn and HF's Qwen2MoeSparseMoeBlock.
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
    bitcast,
    dot,
    exp,
    f32,
    f32x4,
    group_id,
    local_index,
    max,
    min,
    shared,
    u32,
    u32x2,
    workgroup_sum,
)

from .matmul import Rows, silu
from .sample import better, reduce_best
from .sample_maths import order

MOST_EXPERTS, MOST_USED = 512, 16
LANES = 64


class Route(Kernel):
    """The `used` experts of largest logit, in falling order, ties to the lower index, with their softmax weights.

    logits: f32 [T, stride], the first `experts` of a row count. NORM divides the weights by their sum. One workgroup a token.
    NaN and -inf lose against every number; a NaN among the logits makes the weights NaN.
    """

    NORM: Param[bool]
    workgroup_size = 64

    logits: In[f32]
    route: Out[u32x2]
    experts: Push[u32]
    used: Push[u32]
    stride: Push[u32]

    def main(self):
        keys, picked = shared(u32, MOST_EXPERTS), shared(u32, MOST_USED)
        best, who = shared(u32, LANES), shared(u32, LANES)
        base = group_id.x * self.stride
        for e in range(local_index, self.experts, LANES):
            keys[e] = max(order(self.logits[base + e]), 1)  # 0 marks an expert that was taken
        for slot in range(self.used):
            key, mine = u32(0), u32(0)
            for e in range(local_index, self.experts, LANES):  # every lane sees its own keys, and writes them
                if better(key, mine, keys[e], e):
                    key, mine = keys[e], e
            best[local_index] = key
            who[local_index] = mine
            reduce_best(best, who, LANES)
            chosen = who[0]
            if local_index == chosen % LANES:
                keys[chosen] = 0
                picked[slot] = chosen
            barrier()
        top = self.logits[base + picked[0]]
        total = f32(0)
        if self.NORM:
            for slot in range(self.used):
                total += exp(self.logits[base + picked[slot]] - top)
        else:
            part = f32(0)
            for e in range(local_index, self.experts, LANES):
                part += exp(self.logits[base + e] - top)
            total = workgroup_sum(part)
        if local_index < self.used:
            weight = exp(self.logits[base + picked[local_index]] - top) / total
            self.route[group_id.x * self.used + local_index] = u32x2(picked[local_index], bitcast(weight, u32))


class ExpertGateUp(Rows):
    """y[pair, row] = silu(gate row . x[token]) * (up row . x[token]) of the expert of each pair. Grid (row groups, T * used).

    rows: of one expert; tokens: T. y: f32 [T * used, y_stride]. COLS is 1: neighbouring pairs have different experts.
    """

    requires = (*Rows.requires, "COLS == 1")

    q2: In["fmt.planes[0]"]
    s2: In["fmt.planes[1]"]
    route: In[u32x2]
    y: InOut[f32]
    rows: Push[u32]
    blocks: Push[u32]
    tokens: Push[u32]
    used: Push[u32]
    expert0: Push[u32]
    experts: Push[u32]
    y_stride: Push[u32]

    def main(self):
        lane = local_index % self.LANES
        row = group_id.x * (self.THREADS // self.LANES) + local_index // self.LANES
        pair = group_id.y
        expert = self.route[pair].x - self.expert0  # wraps for experts of an earlier shard
        if expert < self.experts:
            at = expert * self.rows + min(row, self.rows - 1)  # every lane takes part in the subgroup sums
            gate = self.accumulate(self.q, self.s, at, lane, pair // self.used)
            up = self.accumulate(self.q2, self.s2, at, lane, pair // self.used)
            if lane == 0 and row < self.rows:
                self.y[pair * self.y_stride + row] = silu(gate[0]) * up[0]


class ExpertDown(Rows):
    """y[token, row] += sum over slots of weight * (row of the slot's expert . x[pair]). Grid (row groups, T).

    x: one row a pair; tokens: rows of x, T * used. Slots are added in order, so that the result does not depend on timing.
    """

    requires = (*Rows.requires, "COLS == 1")

    route: In[u32x2]
    y: InOut[f32]
    rows: Push[u32]
    blocks: Push[u32]
    tokens: Push[u32]
    used: Push[u32]
    expert0: Push[u32]
    experts: Push[u32]
    y_stride: Push[u32]

    def main(self):
        lane = local_index % self.LANES
        row = group_id.x * (self.THREADS // self.LANES) + local_index // self.LANES
        safe = min(row, self.rows - 1)
        total = f32(0)
        for slot in range(self.used):
            pair = group_id.y * self.used + slot
            chosen = self.route[pair]
            expert = chosen.x - self.expert0
            if expert < self.experts:
                sums = self.accumulate(self.q, self.s, expert * self.rows + safe, lane, pair)
                total += bitcast(chosen.y, f32) * sums[0]
        if lane == 0 and row < self.rows:
            self.y[group_id.y * self.y_stride + row] += total


class GateScale(Kernel):
    """m[t] *= sigmoid(weight . h[t]): the gate of the shared expert. h: f32x4 [T, blocks * 8], m: f32x4 [T, m_blocks * 8]; pads zero."""

    workgroup_size = 64

    h: In[f32x4]
    weight: In[f32x4]
    m: InOut[f32x4]
    blocks: Push[u32]
    m_blocks: Push[u32]

    def main(self):
        part = f32(0)
        for i in range(local_index, self.blocks * 8, LANES):
            part += dot(self.h[group_id.x * self.blocks * 8 + i], self.weight[i])
        scale = 1.0 / (1.0 + exp(-workgroup_sum(part)))
        for i in range(local_index, self.m_blocks * 8, LANES):
            self.m[group_id.x * self.m_blocks * 8 + i] *= scale
