"""Kernels of the matrix tests: templates over shape and component types."""

from __future__ import annotations

from spirvdsl import (
    ColMajor,
    CoopMatrix,
    In,
    Kernel,
    MatrixA,
    MatrixAcc,
    MatrixB,
    Out,
    Param,
    Push,
    RowMajor,
    barrier,
    bitcast,
    f16,
    f32,
    group_id,
    local_array,
    local_index,
    matrix_length,
    matrix_load,
    matrix_muladd,
    matrix_store,
    select,
    shared,
    static_range,
    struct,
    subgroup_id,
    u16,
    u32,
    u32x4,
)
from spirvdsl.lang.coopmat import MatrixLayout
from spirvdsl.lang.types import Scalar


class Product(Kernel):
    """z = x * y + w, one matrix a workgroup of one subgroup; y may lie by columns. x: [M, K], y: [K, N], w, z: [M, N] per workgroup."""

    M: Param[int]
    N: Param[int]
    K: Param[int]
    T: Param[Scalar] = f16
    C: Param[Scalar] = f32
    YL: Param[MatrixLayout] = RowMajor
    SATURATE: Param[bool] = False
    LANES: Param[int] = 8
    workgroup_size = "LANES"
    x: In[T]
    y: In[T]
    w: In[C]
    z: Out[C]

    def main(self):
        at = group_id.x
        a = matrix_load(CoopMatrix[self.T, self.M, self.K, MatrixA], self.x[at * (self.M * self.K)], self.K)
        b = matrix_load(CoopMatrix[self.T, self.K, self.N, MatrixB], self.y[at * (self.K * self.N)], self.N if self.YL is RowMajor else self.K, self.YL)
        c = matrix_load(CoopMatrix[self.C, self.M, self.N, MatrixAcc], self.w[at * (self.M * self.N)], self.N)
        matrix_store(self.z[at * (self.M * self.N)], matrix_muladd(a, b, c, saturate=self.SATURATE), self.N)


class Elementwise(Kernel):
    """Arithmetic, conversion and elements: z, h and e say what came out. x, z: [M, N] f32; h: f16; e: [M, N] f32, each element doubled by its lane."""

    M: Param[int]
    N: Param[int]
    LANES: Param[int]
    workgroup_size = "LANES"
    x: In[f32]
    z: Out[f32]
    h: Out[f16]
    e: Out[f32]
    d: Out[f32]
    n: Out[u32]

    def main(self):
        C = CoopMatrix[f32, self.M, self.N, MatrixAcc]
        m = matrix_load(C, self.x[0], self.N)
        row = matrix_load(C, self.x[0], 0)  # the first row, everywhere
        matrix_store(self.z[0], 2.0 * m - row + m * m - (-m) / C(4.0) + 1.0, self.N)
        matrix_store(self.h[0], CoopMatrix[f16, self.M, self.N, MatrixAcc](m), self.M, ColMajor)
        held = [m]
        for i in static_range(self.M * self.N // self.LANES):
            held[0][i] = m[i] * 2.0
        matrix_store(self.e[0], held[0], self.N)
        several = local_array(C, 2)
        several[1] = m
        for i in range(matrix_length(C)):  # the index is known when running
            several[1][i] = several[1][i] + select(i < 1000, 3.0, 0.0)
        matrix_store(self.d[0], several[1], self.N)
        if local_index == 0:
            self.n[0] = matrix_length(C)


@struct
class Part:
    scale: f32
    at: u32


def powers(m, x, n, limit):
    """m + x + x + ..., n times, or until limit is reached; returns from inside a loop, so it is a function in SPIR-V too."""
    for i in range(n):
        if i >= limit:
            return m
        m = m + x
    return m


class Flows(Kernel):
    """Matrices through functions, conditional expressions, loops, tuples; and one built element by element, as fragments are."""

    M: Param[int]
    N: Param[int]
    LANES: Param[int]
    workgroup_size = "LANES * 2"
    x: In[f32]
    p: In[Part]
    z: Out[f32]
    n: Push[u32]

    def main(self):
        C = CoopMatrix[f32, self.M, self.N, MatrixAcc]
        m = matrix_load(C, self.x[0], self.N)
        m = powers(m, m, self.n, u32(3))
        best = m if self.n > 1 else C(-1.0)
        pair = best, C(self.p[0].scale)
        for i in range(self.n):
            if i % 2 == subgroup_id:
                best = best + pair[1]
        built = C(0.0)
        for i in static_range(self.M * self.N // self.LANES):
            built[i] = best[i] + f32(self.p[0].at)
        matrix_store(self.z[subgroup_id * (self.M * self.N)], built, self.N)


class Gemm(Kernel):
    """c[row, col] = sum_k a[row, k] * b[k, col], edges included. a: [rows, k], b: [k, cols], c: [rows, cols], row-major.

    A workgroup makes BM x BN of it; WM x WN subgroups, each of them TM x TN matrices in registers. Both operands are staged in
    workgroup memory as 16-byte words with an odd pitch, converted to f16 on the way; what lies outside reads as zero, and
    the result leaves through workgroup memory too, so that rows, cols and k are whatever they are.
    """

    M: Param[int]
    N: Param[int]
    K: Param[int]
    LANES: Param[int]
    WM: Param[int] = 2
    WN: Param[int] = 2
    TM: Param[int] = 2
    TN: Param[int] = 1
    BK: Param[int] = 16
    workgroup_size = "LANES * WM * WN"
    requires = ("BK % K == 0", "(TN * WN * N) % 8 == 0", "BK % 8 == 0")
    a: In[f32]
    b: In[f32]
    c: Out[f32]
    rows: Push[u32]
    cols: Push[u32]
    k: Push[u32]

    def stage(self, words, x, pitch, high, wide, row0, col0, rows, cols):
        """high x wide of x, from (row0, col0) on, into words of eight f16 each; every lane moves whole words."""
        per_row = wide // 8
        for w in range(local_index, high * per_row, self.LANES * self.WM * self.WN):
            r, q = w // per_row, w % per_row
            parts = [u32(0) for _ in static_range(4)]
            for j in static_range(8):
                row, col = row0 + r, col0 + q * 8 + j
                value = f16(0.0)
                if row < rows and col < cols:
                    value = f16(x[row * cols + col])
                parts[j // 2] = parts[j // 2] | (u32(bitcast(value, u16)) << (j % 2 * 16))
            words[r * pitch + q] = u32x4(parts[0], parts[1], parts[2], parts[3])

    def main(self):
        BM, BN = self.TM * self.WM * self.M, self.TN * self.WN * self.N
        A, B, C = CoopMatrix[f16, self.M, self.K, MatrixA], CoopMatrix[f16, self.K, self.N, MatrixB], CoopMatrix[f32, self.M, self.N, MatrixAcc]
        apitch, bpitch = self.BK // 8 | 1, BN // 8 | 1  # 16-byte words, odd
        stage_a, stage_b, out = shared(u32x4, BM * apitch), shared(u32x4, self.BK * bpitch), shared(f32, BM * BN)
        row0, col0 = group_id.y * BM, group_id.x * BN
        wm, wn = subgroup_id // self.WN, subgroup_id % self.WN
        acc = [[C(0.0) for _ in static_range(self.TN)] for _ in static_range(self.TM)]
        for k0 in range(0, self.k, self.BK):
            self.stage(stage_a, self.a, apitch, BM, self.BK, row0, k0, self.rows, self.k)
            self.stage(stage_b, self.b, bpitch, self.BK, BN, k0, col0, self.k, self.cols)
            barrier()
            for s in static_range(self.BK // self.K):
                right = [matrix_load(B, stage_b[s * self.K * bpitch + (wn * self.TN + j) * (self.N // 8)], bpitch) for j in static_range(self.TN)]
                for i in static_range(self.TM):
                    left = matrix_load(A, stage_a[((wm * self.TM + i) * self.M) * apitch + s * (self.K // 8)], apitch)
                    for j in static_range(self.TN):
                        acc[i][j] = matrix_muladd(left, right[j], acc[i][j])
            barrier()
        for i in static_range(self.TM):
            for j in static_range(self.TN):
                matrix_store(out[((wm * self.TM + i) * self.M) * BN + (wn * self.TN + j) * self.N], acc[i][j], BN)
        barrier()
        for w in range(local_index, BM * BN, self.LANES * self.WM * self.WN):
            row, col = row0 + w // BN, col0 + w % BN
            if row < self.rows and col < self.cols:
                self.c[row * self.cols + col] = out[w]
