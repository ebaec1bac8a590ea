"""Matrices in the interpreter, against numpy: bit-equal on small integers, whatever the subgroup size; and what it reports."""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl import (
    ColMajor,
    CompileError,
    CoopMatrix,
    In,
    MatrixA,
    MatrixAcc,
    MatrixB,
    Out,
    barrier,
    bitcast,
    f16,
    f16x2,
    f16x4,
    f32,
    i8,
    i32,
    kernel,
    local_array,
    local_index,
    matrix_load,
    matrix_muladd,
    matrix_store,
    shared,
    static_range,
    subgroup_barrier,
    subgroup_id,
    subgroup_lane,
    u8,
    u16,
    u32,
    u32x4,
)
from spirvdsl.interp import interpret
from spirvdsl.interp.faults import InterpError
from spirvdsl.passes import run_passes
from tests.spirvdsl.matrix.kernels import Elementwise, Flows, Gemm, Product

SHAPES = [(8, 8, 8, 8), (16, 16, 16, 32), (16, 8, 16, 32), (16, 16, 32, 32), (8, 8, 8, 4), (8, 8, 8, 32), (4, 2, 3, 8)]
NUMPY = {f16: "f2", f32: "f4", i8: "i1", u8: "u1", i32: "i4", u32: "u4"}


def product(m, n, k, lanes, t, c, rng, groups=3, **more):
    """(operands, the kernel) of `groups` products on random small integers."""
    low = 0 if t is u8 else -5
    x, y = (rng.integers(low, 6, (groups, *shape)).astype(NUMPY[t]) for shape in ((m, k), (k, n)))
    w = rng.integers(low, 6, (groups, m, n)).astype(NUMPY[c])
    return x, y, w, Product.stamp(M=m, N=n, K=k, T=t, C=c, LANES=lanes, **more)


@pytest.mark.parametrize(("m", "n", "k", "lanes"), SHAPES)
@pytest.mark.parametrize(("t", "c"), [(f16, f32), (f16, f16), (i8, i32), (u8, u32), (f32, f32)])
def test_product(seed, m, n, k, lanes, t, c):
    x, y, w, kernel = product(m, n, k, lanes, t, c, np.random.default_rng(seed))
    z = np.full(w.shape, 77, w.dtype)
    kernel.interpret(3, x, y, w, z, subgroup_size=lanes)
    assert (z == x.astype("f8") @ y.astype("f8") + w).all() and np.unique(z).size > 8


def test_columns(seed):
    x, y, w, kernel = product(16, 8, 16, 32, f16, f32, np.random.default_rng(seed), YL=ColMajor)
    z = np.full(w.shape, np.nan, w.dtype)
    kernel.interpret(3, x, np.ascontiguousarray(y.swapaxes(1, 2)), w, z, subgroup_size=32)
    assert (z == x.astype("f8") @ y.astype("f8") + w).all()


@pytest.mark.parametrize("saturate", [False, True])
def test_integers_wrap_or_saturate(saturate):
    x, y = np.full((8, 8), -128, "i1"), np.full((8, 8), 127, "i1")
    w = np.full((8, 8), np.iinfo("i4").min + 5, "i4")
    z = np.zeros((8, 8), "i4")
    Product.stamp(M=8, N=8, K=8, T=i8, C=i32, SATURATE=saturate).interpret(1, x, y, w, z, subgroup_size=8)
    exact = np.iinfo("i4").min + 5 - 128 * 127 * 8
    assert (z == (np.iinfo("i4").min if saturate else exact + (1 << 32))).all()


def test_half_products_are_summed_in_single(seed):
    """65504 + 65504 - 65504 is no half along the way, and 2048 + 1 + 1 only in single."""
    x = np.zeros((8, 8), "f2")
    x[:, :3] = 65504.0, 65504.0, -65504.0
    y, w, z = np.ones((8, 8), "f2"), np.zeros((8, 8), "f4"), np.zeros((8, 8), "f4")
    Product[8, 8, 8].interpret(1, x, y, w, z, subgroup_size=8)
    assert (z == 65504.0).all()
    x[:, :3] = 2048.0, 1.0, 1.0
    half = np.zeros((8, 8), "f2")
    Product.stamp(M=8, N=8, K=8, C=f16).interpret(1, x, y, half, half, subgroup_size=8)
    assert (half == 2050.0).all()


@pytest.mark.parametrize(("m", "n", "lanes"), [(8, 8, 8), (16, 16, 32), (16, 8, 32)])
def test_arithmetic_conversion_and_elements(seed, m, n, lanes):
    x = np.random.default_rng(seed).integers(-9, 10, (m, n)).astype("f4")
    z, h, e, d = np.full((m, n), np.nan, "f4"), np.full((n, m), 7, "f2"), np.zeros((m, n), "f4"), np.zeros((m, n), "f4")
    length = np.zeros(1, "u4")
    Elementwise[m, n, lanes].interpret(1, x, z, h, e, d, length, subgroup_size=lanes)
    assert (z == 2 * x - x[0] + x * x + x / 4 + 1).all()
    assert (h == x.T).all() and (e == 2 * x).all() and (d == x + 3).all() and length[0] == m * n // lanes


def flows(rng, m, n, lanes, run):
    """(what Flows makes, what it should make) for several n."""
    x = rng.integers(-9, 10, (m, n)).astype("f4")
    part = np.array([(0.5, 7)], dtype="f4,u4")
    for count in (0, 1, 2, 5):
        z = np.full((2, m, n), np.nan, "f4")
        run(Flows[m, n, lanes], x, part, z, count)
        base = x * (1 + min(count, 3)) if count > 1 else np.full_like(x, -1)
        yield z, np.stack([base + 0.5 * len(range(subgroup, count, 2)) + 7 for subgroup in range(2)])


@pytest.mark.parametrize(("m", "n", "lanes"), [(8, 8, 8), (16, 16, 32)])
def test_flows(seed, m, n, lanes):
    for found, wanted in flows(np.random.default_rng(seed), m, n, lanes, lambda k, x, p, z, n: k.interpret(1, x, p, z, n=n, subgroup_size=lanes)):
        assert (found == wanted).all()


@pytest.mark.parametrize("shape", [(8, 8, 8, 8), (16, 16, 16, 32), (16, 8, 16, 32)])
@pytest.mark.parametrize(("rows", "cols", "k"), [(70, 41, 33), (32, 16, 16), (1, 1, 1)])
def test_gemm_with_edges(seed, shape, rows, cols, k):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (rows, k)).astype("f4"), rng.integers(-3, 4, (k, cols)).astype("f4")
    a.flat[0] = b.flat[0] = 3
    c = np.full((rows, cols), np.nan, "f4")
    m, n, _, lanes = shape
    Gemm[shape].interpret((-(-cols // (2 * n)), -(-rows // (4 * m))), a, b, c, rows=rows, cols=cols, k=k, subgroup_size=lanes)
    assert (c == a @ b).all() and c.any()


# views: the array's own type is another than the matrix's
A8, B8, C8 = CoopMatrix[f16, 8, 8, MatrixA], CoopMatrix[f16, 8, 8, MatrixB], CoopMatrix[f32, 8, 8, MatrixAcc]


@kernel(workgroup_size=8)
def views(x: In[u32x4], y: In[f16x4], v: In[u16], z: Out[f32]):
    s = shared(u32, 8 * 4 + 4)
    for j in static_range(4):
        s[local_index * 4 + j] = x[local_index][j]
    s[32 + local_index % 4] = 0
    barrier()
    one = matrix_muladd(matrix_load(A8, x[0], 1), matrix_load(B8, y[0], 2), C8(0.0))
    two = matrix_muladd(matrix_load(A8, s[0], 4), matrix_load(B8, v[0], 8), C8(0.0))
    matrix_store(z[0], one + two, 8)


def test_views(seed):
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-5, 6, (8, 8)).astype("f2") for _ in range(2))
    z = np.zeros((8, 8), "f4")
    views.interpret(1, x.view("u4"), y, y.view("u2"), z, subgroup_size=8)
    assert (z == 2 * (x.astype("f4") @ y.astype("f4"))).all() and z.any()


@kernel(workgroup_size=8)
def nibbles(w: In[u32], scale: In[f16], z: Out[f32]):
    """A 4-bit plane decoded while staging: word r holds row r, nibble j in bits 4j (even columns), 16 + 4j (odd); z = scale * q, by matrix."""
    stage = shared(f16x2, 8 * 4)
    for j in static_range(4):
        pair = bitcast((w[local_index] >> (4 * j)) & 0x000F000F | 0x64006400, f16x2) - f16x2(1024.0)
        stage[local_index * 4 + j] = pair * f16x2(scale[local_index])
    subgroup_barrier()
    identity = matrix_load(B8, scale[8], 8)
    matrix_store(z[0], matrix_muladd(matrix_load(A8, stage[0], 4), identity, C8(0.0)), 8)


def run_nibbles(rng, run):
    q = rng.integers(0, 16, (8, 8)).astype("u4")
    words = np.zeros(8, "u4")
    for j in range(4):
        words |= q[:, 2 * j] << (4 * j) | q[:, 2 * j + 1] << (16 + 4 * j)
    scale = rng.choice([0.5, 1, 2, -1], 8).astype("f2")
    z = np.full((8, 8), np.nan, "f4")
    run(nibbles, words, np.concatenate([scale, np.eye(8, dtype="f2").reshape(-1)]), z)
    assert (z == q * scale[:, None].astype("f4")).all() and z.any()


def test_nibbles(seed):
    run_nibbles(np.random.default_rng(seed), lambda k, *args: k.interpret(1, *args, subgroup_size=8))


# reports, each at the author's line
@kernel(workgroup_size=16)
def divergent(x: In[f32], z: Out[f32]):
    m = matrix_load(C8, x[0], 8)
    if local_index < 5:
        matrix_store(z[0], m, 8)


@kernel(workgroup_size=16)
def by_subgroup(x: In[f32], z: Out[f32]):
    if subgroup_id == 1:
        matrix_store(z[0], matrix_load(C8, x[0], 8) * 2.0, 8)


@kernel(workgroup_size=16)
def own_address(x: In[f32], z: Out[f32]):
    matrix_store(z[0], matrix_load(C8, x[local_index], 8), 8)


@kernel(workgroup_size=16)
def own_value(x: In[f32], z: Out[f32]):
    matrix_store(z[0], C8(x[local_index]), 8)


@kernel(workgroup_size=16)
def own_factor(x: In[f32], z: Out[f32]):
    matrix_store(z[0], matrix_load(C8, x[0], 8) * x[local_index], 8)


@kernel(workgroup_size=16)
def behind(x: In[f32], z: Out[f32], n: u32):
    matrix_store(z[0], matrix_load(C8, x[n], 8), 8)


@kernel(workgroup_size=16)
def behind_the_end_of_z(x: In[f32], z: Out[f32], n: u32):
    matrix_store(z[0], matrix_load(C8, x[0], 8), n)


@kernel(workgroup_size=16)
def crooked(x: In[f32], z: Out[f32], n: u32):
    matrix_store(z[0], matrix_load(C8, x[n], 8), 8)


@kernel(workgroup_size=16)
def too_many_elements(x: In[f32], z: Out[f32]):
    m = matrix_load(C8, x[0], 8)
    z[local_index] = m[8]


@kernel(workgroup_size=16)
def no_such_element(x: In[f32], z: Out[f32], n: u32):
    m = matrix_load(C8, x[0], 8)
    z[local_index] = m[n]


@kernel(workgroup_size=16)
def unset(x: In[f32], z: Out[f32]):
    several = local_array(C8, 2)
    several[0] = C8(x[0])
    several[1][0] = 1.0
    matrix_store(z[0], several[0] + several[1], 8)


@kernel(workgroup_size=16)
def unwritten(x: In[f32], z: Out[f32]):
    s = shared(f32, 64)
    if subgroup_id == 0:
        for j in static_range(7):
            s[j * 8 + subgroup_lane] = x[j]
    barrier()
    matrix_store(z[0], matrix_load(C8, s[0], 8), 8)


REPORTS = [
    (behind, {"n": 4}, 8, "matrix_load() reaches element 67 of 'x', which has 64", "matrix_load(C8, x[n], 8)"),
    (behind_the_end_of_z, {"n": 16}, 8, "matrix_store() reaches element 119 of 'z', which has 64", "matrix_store(z[0]"),
    (crooked, {"n": 1}, 8, "matrix_load() reaches element 64 of 'x', which has 64", "matrix_load(C8, x[n], 8)"),
    (too_many_elements, {}, 8, "element 8 of a CoopMatrix[f32, 8, 8, MatrixAcc], of which a lane holds 8 here", "m[8]"),
    (no_such_element, {"n": 8}, 8, "element 8 of a CoopMatrix[f32, 8, 8, MatrixAcc], of which a lane holds 8 here", "m[n]"),
    (no_such_element, {"n": 2}, 32, "no whole number of subgroups of 32 lanes", "matrix_load(C8, x[0], 8)"),
    (unset, {}, 8, "read of 'array', which no store has reached", "several[1][0] = 1.0"),
    (unwritten, {}, 8, "read of workgroup memory 'shared' that no store has reached", "matrix_load(C8, s[0], 8)"),
]


@pytest.mark.parametrize(("kernel", "push", "lanes", "message", "line"), REPORTS, ids=[f"{r[0].name}-{r[2]}" for r in REPORTS])
def test_reports(kernel, push, lanes, message, line):
    x, z = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    with pytest.raises(InterpError) as caught:
        kernel.interpret(1, x, z, **push, subgroup_size=lanes)
    assert message in caught.value.message and line in str(caught.value), str(caught.value)


UNCHECKED = [
    (divergent, "matrix_store() under divergent control flow: 5 of 8 lanes of the subgroup arrive", "matrix_store(z[0], m, 8)"),
    (own_address, "the place of matrix_load() is not the same in all lanes", "matrix_load(C8, x[local_index], 8)"),
    (own_value, "the value that fills a matrix is not the same", "C8(x[local_index])"),
    (own_factor, "the factor of a matrix is not the same", "* x[local_index]"),
]


@pytest.mark.parametrize(("kernel", "message", "line"), UNCHECKED, ids=[r[0].name for r in UNCHECKED])
def test_what_the_compiler_refuses_is_reported_too(kernel, message, line):
    """E0705 of these kernels comes after the passes: their IR is taken from before it."""
    with pytest.raises(CompileError, match="E0705"):
        kernel.ir()
    with pytest.raises(InterpError) as caught:
        interpret(run_passes(kernel._build()), 1, {"x": np.arange(64, dtype="f4"), "z": np.zeros(64, "f4")}, subgroup_size=8)
    assert message in caught.value.message and line in str(caught.value), str(caught.value)


def test_alignment_is_reported():
    x, z = np.arange(128, dtype="f4"), np.zeros(64, "f4")
    with pytest.raises(InterpError, match="place and stride must be multiples of 16 bytes; element 2, stride 8 of f32"):
        crooked.interpret(1, x, z, n=2, subgroup_size=8)
    crooked.interpret(1, x, z, n=4, subgroup_size=8)
    assert (z == x[4:68]).all()


def test_one_subgroup_alone_may_go():
    x, z = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    by_subgroup.interpret(1, x, z, subgroup_size=8)
    assert (z == 2 * x).all()


def test_the_order_of_elements_is_no_device_s():
    """Element 0 of lane 0 is the LAST of the matrix: code that expects a device's order is wrong here too."""

    x, z = np.arange(64, dtype="f4"), np.zeros(8, "f4")
    first_elements.interpret(1, x, z, subgroup_size=8)
    assert z.tolist() == [63, 62, 61, 60, 59, 58, 57, 56]


@kernel(workgroup_size=8)
def first_elements(x: In[f32], z: Out[f32]):
    z[subgroup_lane] = matrix_load(C8, x[0], 8)[0]
