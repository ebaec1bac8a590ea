"""Weights times activations, y[t, row] = sum_k W[row, k] * x[t, k], for every format and both plain arms.

    Gemv     few tokens (CPU devices: any number): LANES lanes share a row, a weight block is decoded once for COLS tokens
    GateUp   the same for two matrices at once: y = silu(gate) * up
    Tile     many tokens: a workgroup makes a tile of rows x tokens from workgroup memory

INT selects the arm: packed 4x8 integer dots with q8 activations, or f32. Rows are seen as `blocks` blocks of 32 weights.
"""

from __future__ import annotations

from spirvdsl import (
    Format,
    In,
    InOut,
    Kernel,
    Param,
    Push,
    barrier,
    bitcast,
    dot,
    exp,
    f32,
    f32x4,
    global_id,
    group_id,
    i32,
    local_index,
    min,
    sdot4,
    shared,
    static_range,
    subgroup_add,
    u16,  # noqa: F401 named in the annotation of the codebook
    u32,
    u32x2,
    u32x4,
)

from .rows import Row  # noqa: F401 named in Embed's annotation


def q8_scale(pair):
    """(scale, sum of int8 0-15, sum of int8 16-31) of one block of q8 activations."""
    sums = bitcast(pair.y, i32)
    return bitcast(pair.x, f32), (sums << 16) >> 16, sums >> 16


def silu(x):
    """x * sigmoid(x)."""
    return x / (1.0 + exp(-x))


class Planes(Kernel):
    """What every kernel that reads weights shares: the planes and, in formats that have one, the codebook.

    q, s: quants and scales, [row][k / elements] elements. codebook: fmt.CODEBOOK, read where it lies (at most 4 KiB, so that
    it stays in the first cache) and bound by stamps of these formats only: others are not changed by it.
    """

    fmt: Param[Format]
    q: In["fmt.planes[0]"]
    s: In["fmt.planes[1]"]
    codebook: In["u16 if fmt.CODEBOOK else None"]

    def book(self):
        """The codebook as the last argument of packed() and quad(), where the format has one."""
        return (self.codebook,) if self.fmt.CODEBOOK else ()

    def packed(self, q, s, g, w):
        return self.fmt.packed(q, s, g, w, *self.book())

    def quad(self, q, s, g, w):
        return self.fmt.quad(q, s, g, w, *self.book())


class Rows(Planes):
    """What every GEMV shares: one group of LANES lanes per row, COLS tokens at a time.

    x: q8 words u32x4 [T, blocks * 2] with xs u32x2 [T, blocks] (INT), or f32x4 [T, blocks * 8] (xs unused).
    y: f32 [T, y_stride], rows written at column y_col. tokens: T. row0: first row of this shard; rows: rows of this shard.
    """

    INT: Param[bool]
    LANES: Param[int]
    COLS: Param[int] = 1
    THREADS: Param[int] = 64
    workgroup_size = "THREADS"
    requires = ("LANES & (LANES - 1) == 0", "THREADS % LANES == 0", "COLS >= 1", "not INT or fmt.INTEGER")

    x: In["u32x4 if INT else f32x4"]
    xs: In[u32x2]

    def decode(self, q, s, g):
        """The eight words (INT: packed int8; else f32x4) of one block, once for all tokens."""
        if self.INT:
            return [self.packed(q, s, g, w) for w in static_range(8)]
        return [self.quad(q, s, g, w) for w in static_range(8)]

    def block(self, words, s, g, at):
        """Value of one decoded block against the activations of block index `at` (token * blocks + block)."""
        if self.INT:
            a, b = self.x[at * 2], self.x[at * 2 + 1]
            lo, hi = i32(0), i32(0)
            for w in static_range(4):
                lo += sdot4(words[w], a[w])
                hi += sdot4(words[w + 4], b[w])
            d, sum_lo, sum_hi = q8_scale(self.xs[at])
            return self.fmt.fold(s, g, lo, hi, d, sum_lo, sum_hi)
        total = f32x4(0.0)
        for w in static_range(8):
            total += words[w] * self.x[at * 8 + w]
        return dot(total, f32x4(1.0))

    def accumulate(self, q, s, row, lane, token0):
        """This lane's part of a row for COLS tokens from token0; tokens past the end repeat the last one."""
        per_element = self.fmt.elements // 32
        acc = [f32(0) for _ in static_range(self.COLS)]
        for j in range(lane, self.blocks, self.LANES):
            at = row * self.blocks + j
            element, g = at // per_element, at % per_element
            words = self.decode(q[element], s[element], g)
            for c in static_range(self.COLS):
                token = min(token0 + c, self.tokens - 1)
                acc[c] += self.block(words, s[element], g, token * self.blocks + j)
        return [subgroup_add(a, cluster=self.LANES) for a in acc]


class Gemv(Rows):
    """y[t, y_col + row] = W x (+ bias) (+ the old y, RESIDUAL)."""

    BIAS: Param[bool] = False
    RESIDUAL: Param[bool] = False

    bias: In[f32]
    y: InOut[f32]
    rows: Push[u32]
    blocks: Push[u32]
    tokens: Push[u32]
    y_stride: Push[u32]
    y_col: Push[u32]

    def main(self):
        lane = local_index % self.LANES
        row = group_id.x * (self.THREADS // self.LANES) + local_index // self.LANES
        token0 = group_id.y * self.COLS
        safe = min(row, self.rows - 1)  # every lane takes part in the subgroup sums
        sums = self.accumulate(self.q, self.s, safe, lane, token0)
        if lane == 0 and row < self.rows:
            for c in static_range(self.COLS):
                if token0 + c < self.tokens:
                    value = sums[c]
                    if self.BIAS:
                        value += self.bias[row]
                    at = (token0 + c) * self.y_stride + self.y_col + row
                    self.y[at] = value + self.y[at] if self.RESIDUAL else value


class GateUp(Rows):
    """y[t, row] = silu(gate row . x) * (up row . x): both matrices share format, shape and activations."""

    q2: In["fmt.planes[0]"]
    s2: In["fmt.planes[1]"]
    y: InOut[f32]
    rows: Push[u32]
    blocks: Push[u32]
    tokens: Push[u32]
    y_stride: Push[u32]
    y_col: Push[u32]

    def main(self):
        lane = local_index % self.LANES
        row = group_id.x * (self.THREADS // self.LANES) + local_index // self.LANES
        token0 = group_id.y * self.COLS
        safe = min(row, self.rows - 1)
        gate = self.accumulate(self.q, self.s, safe, lane, token0)
        up = self.accumulate(self.q2, self.s2, safe, lane, token0)
        if lane == 0 and row < self.rows:
            for c in static_range(self.COLS):
                if token0 + c < self.tokens:
                    self.y[(token0 + c) * self.y_stride + self.y_col + row] = silu(gate[c]) * up[c]


class Tile(Planes):
    """BM rows x BN tokens a workgroup; each lane makes TM x TN of them. Weights are decoded into workgroup memory, one block
    of 32 a step, and activations copied beside them (odd row pitch, so that lanes fall on different banks)."""

    INT: Param[bool]
    BM: Param[int] = 64
    BN: Param[int] = 64
    TM: Param[int] = 4
    TN: Param[int] = 4
    BIAS: Param[bool] = False
    RESIDUAL: Param[bool] = False
    workgroup_size = "(BM // TM) * (BN // TN)"
    requires = ("BM % TM == 0", "BN % TN == 0", "not INT or fmt.INTEGER", "(BM + BN) * (9 if INT else 36) * 4 <= 32768")

    x: In["u32 if INT else f32x4"]
    xs: In[u32x2]
    bias: In[f32]
    y: InOut[f32]
    rows: Push[u32]
    blocks: Push[u32]
    tokens: Push[u32]
    y_stride: Push[u32]
    y_col: Push[u32]

    def main(self):
        lanes = (self.BM // self.TM) * (self.BN // self.TN)
        element_type = u32 if self.INT else f32x4
        pitch = 9  # words (INT) or f32x4 of a row: 8 and one of padding
        weights = shared(element_type, self.BM * pitch)
        feed = shared(element_type, self.BN * pitch)
        row0, token0 = group_id.x * self.BM, group_id.y * self.BN
        my_row = (local_index % (self.BM // self.TM)) * self.TM
        my_col = (local_index // (self.BM // self.TM)) * self.TN
        acc = [[f32(0) for _ in static_range(self.TN)] for _ in static_range(self.TM)]
        for j in range(self.blocks):
            for item in range(local_index, self.BM * 8, lanes):
                self.stage_weight(weights, item, row0, j, pitch)
            for item in range(local_index, self.BN * 8, lanes):
                token = min(token0 + item // 8, self.tokens - 1)
                feed[(item // 8) * pitch + item % 8] = self.x[(token * self.blocks + j) * 8 + item % 8]
            barrier()
            self.multiply(acc, weights, feed, my_row, my_col, row0, token0, j, pitch)
            barrier()
        self.write(acc, row0 + my_row, token0 + my_col)

    def stage_weight(self, weights, item, row0, j, pitch):
        """Word item % 8 of row item // 8 of the tile."""
        per_element = self.fmt.elements // 32
        at = min(row0 + item // 8, self.rows - 1) * self.blocks + j
        element, g, w = at // per_element, at % per_element, item % 8
        if self.INT:
            weights[(item // 8) * pitch + w] = self.packed(self.q[element], self.s[element], g, w)
        else:
            weights[(item // 8) * pitch + w] = self.quad(self.q[element], self.s[element], g, w)

    def multiply(self, acc, weights, feed, my_row, my_col, row0, token0, j, pitch):
        if self.INT:
            self.multiply_int(acc, weights, feed, my_row, my_col, row0, token0, j, pitch)
        else:
            for w in range(8):  # not unrolled here: lavapipe's LLVM took 8x as long to compile (5 s, 2026-11-30), other drivers unroll
                a = [weights[(my_row + m) * pitch + w] for m in static_range(self.TM)]
                b = [feed[(my_col + n) * pitch + w] for n in static_range(self.TN)]
                for m in static_range(self.TM):
                    for n in static_range(self.TN):
                        acc[m][n] += dot(a[m], b[n])

    def multiply_int(self, acc, weights, feed, my_row, my_col, row0, token0, j, pitch):
        """Integer dots of the two halves of the block, then one float fold per output."""
        per_element = self.fmt.elements // 32
        lo = [[i32(0) for _ in static_range(self.TN)] for _ in static_range(self.TM)]
        hi = [[i32(0) for _ in static_range(self.TN)] for _ in static_range(self.TM)]
        for w in range(4):
            self.dots(lo, weights, feed, my_row, my_col, w, pitch)
        for w in range(4, 8):
            self.dots(hi if self.fmt.HALVES else lo, weights, feed, my_row, my_col, w, pitch)
        for n in static_range(self.TN):
            token = min(token0 + my_col + n, self.tokens - 1)
            d, sum_lo, sum_hi = q8_scale(self.xs[token * self.blocks + j])
            for m in static_range(self.TM):
                at = min(row0 + my_row + m, self.rows - 1) * self.blocks + j
                acc[m][n] += self.fmt.fold(self.s[at // per_element], at % per_element, lo[m][n], hi[m][n], d, sum_lo, sum_hi)

    def dots(self, sums, weights, feed, my_row, my_col, w, pitch):
        """sums += the packed dots of word w of every row and token of this lane."""
        a = [weights[(my_row + m) * pitch + w] for m in static_range(self.TM)]
        b = [feed[(my_col + n) * pitch + w] for n in static_range(self.TN)]
        for m in static_range(self.TM):
            for n in static_range(self.TN):
                sums[m][n] += sdot4(a[m], b[n])

    def write(self, acc, row, token):
        for n in static_range(self.TN):
            for m in static_range(self.TM):
                if row + m < self.rows and token + n < self.tokens:
                    value = acc[m][n]
                    if self.BIAS:
                        value += self.bias[row + m]
                    at = (token + n) * self.y_stride + self.y_col + row + m
                    self.y[at] = value + self.y[at] if self.RESIDUAL else value


class Embed(Planes):
    """x[t, :] = row `token` of the embedding, dequantised. q, s hold rows [row0, row0 + rows); other tokens are left alone.

    Grid (blocks * 8 / 64 rounded up, T): one lane four weights.
    """

    rows_of: In["Row"]
    x: InOut[f32x4]
    row0: Push[u32]
    rows: Push[u32]
    blocks: Push[u32]

    def main(self):
        at = global_id.x
        token = self.rows_of[group_id.y].token - self.row0
        if at < self.blocks * 8 and token < self.rows:
            per_element = self.fmt.elements // 32
            block = token * self.blocks + at // 8
            element = block // per_element
            self.x[group_id.y * self.blocks * 8 + at] = self.quad(self.q[element], self.s[element], block % per_element, at % 8)
