"""Matrices on a device against the interpreter, for the shapes that the device lists; and refusals of those it does not."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.vk.errors import MissingFeature
from spirvdsl import ColMajor, f16, f32, i8, i32, u8, u32
from tests.spirvdsl.matrix.kernels import Elementwise, Gemm, Product
from tests.spirvdsl.matrix.test_interp import flows, product, run_nibbles, views

TYPES = {t.name: t for t in (f16, f32, i8, i32, u8, u32)}


@pytest.fixture
def lanes(device) -> int:
    """The subgroup size of a device with cooperative matrices."""
    if "cooperativeMatrix" not in device.caps.features:
        pytest.skip(f"{device.caps.name} lacks cooperativeMatrix")
    return device.caps.subgroup_size


def listed(device):
    """The shapes of the device whose types the language has."""
    return [s for s in device.caps.coop_matrices if s.scope == "subgroup" and {s.a, s.b, s.c} <= TYPES.keys() and s.a == s.b and s.c == s.result]


@pytest.mark.parametrize("layout", [None, ColMajor])
def test_every_listed_product(device, lanes, seed, layout):
    shapes = listed(device)
    assert shapes
    for s in shapes:
        more = {"SATURATE": s.saturating} | ({"YL": layout} if layout else {})
        x, y, w, kernel = product(s.m, s.n, s.k, lanes, TYPES[s.a], TYPES[s.c], np.random.default_rng(seed), **more)
        y = np.ascontiguousarray(y.swapaxes(1, 2)) if layout else y
        found, wanted = np.full(w.shape, 99, w.dtype), np.full(w.shape, 98, w.dtype)
        kernel[3](x, y, w, found)
        kernel.interpret(3, x, y, w, wanted, subgroup_size=lanes)
        assert (found == wanted).all() and np.unique(found).size > 8, s


def test_random_halves(device, lanes, seed):
    """Sums of f16 products in f32: a device may add in another order, so the bar is that of eight roundings."""
    rng = np.random.default_rng(seed)
    s = next(s for s in listed(device) if (s.a, s.c) == ("f16", "f32"))
    x, y = (rng.standard_normal(shape).astype("f2") for shape in ((s.m, s.k), (s.k, s.n)))
    w = rng.standard_normal((s.m, s.n)).astype("f4")
    z = np.full_like(w, np.nan)
    Product.stamp(M=s.m, N=s.n, K=s.k, LANES=lanes)[1](x, y, w, z)
    exact, bar = x.astype("f8") @ y.astype("f8") + w, (np.abs(x).astype("f8") @ np.abs(y).astype("f8") + np.abs(w)) * (s.k + 1) * 2.0**-24
    assert (np.abs(z - exact) <= bar).all()


def test_arithmetic_conversion_and_elements(device, lanes, seed):
    s = next(s for s in listed(device) if (s.a, s.c) == ("f16", "f32"))
    x = np.random.default_rng(seed).integers(-9, 10, (s.m, s.n)).astype("f4")
    outs = []
    for run in (0, 1):
        z, h, e, d = np.full((s.m, s.n), np.nan, "f4"), np.full((s.n, s.m), 7, "f2"), np.zeros((s.m, s.n), "f4"), np.zeros((s.m, s.n), "f4")
        made = x, z, h, e, d, np.zeros(1, "u4")
        kernel = Elementwise[s.m, s.n, lanes]
        kernel[1](*made) if run else kernel.interpret(1, *made, subgroup_size=lanes)
        outs.append(made)
    for found, wanted in zip(*outs, strict=True):
        assert (found == wanted).all()


def test_flows(device, lanes, seed):
    s = next(s for s in listed(device) if (s.a, s.c) == ("f16", "f32"))
    for found, wanted in flows(np.random.default_rng(seed), s.m, s.n, lanes, lambda k, x, p, z, n: k[1](x, p, z, n=n)):
        assert (found == wanted).all()


def test_views(device, lanes, seed):
    if not any((s.m, s.n, s.k, s.a, s.c) == (8, 8, 8, "f16", "f32") for s in listed(device)):
        pytest.skip(f"{device.caps.name} lists no 8x8x8")
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-5, 6, (8, 8)).astype("f2") for _ in range(2))
    z = np.full((8, 8), np.nan, "f4")
    views[1](x.view("u4"), y, y.view("u2"), z)
    assert (z == 2 * (x.astype("f4") @ y.astype("f4"))).all() and z.any()


def test_nibbles(device, lanes, seed):
    if not any((s.m, s.n, s.k, s.a, s.c) == (8, 8, 8, "f16", "f32") for s in listed(device)) or lanes != 8:
        pytest.skip(f"{device.caps.name} lists no 8x8x8 for subgroups of 8")
    run_nibbles(np.random.default_rng(seed), lambda k, *args: k[1](*args))


@pytest.mark.parametrize(("rows", "cols", "k"), [(70, 41, 33), (64, 32, 32), (1, 1, 1)])
def test_gemm_with_edges(device, lanes, seed, rows, cols, k):
    s = next(s for s in listed(device) if (s.a, s.c) == ("f16", "f32"))
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (rows, k)).astype("f4"), rng.integers(-3, 4, (k, cols)).astype("f4")
    a.flat[0] = b.flat[0] = 3
    c = np.full((rows, cols), np.nan, "f4")
    Gemm[s.m, s.n, s.k, lanes][-(-cols // (2 * s.n)), -(-rows // (4 * s.m))](a, b, c, rows=rows, cols=cols, k=k)
    assert (c == a @ b).all() and c.any()


def test_a_shape_that_the_device_does_not_list_is_refused_by_name(device, lanes):
    x = np.zeros(24 * 24, "f2")
    with pytest.raises(MissingFeature, match=r"matrix product 24x24x24 f16\*f16\+f32->f32 per subgroup, which the device does not list.*it lists.*8x8x8|16x16x16"):
        Product.stamp(M=24, N=24, K=24, LANES=lanes)[1](x, x, np.zeros(24 * 24, "f4"), np.zeros(24 * 24, "f4"))
    y = np.zeros(24 * 24, "f4")
    with pytest.raises(MissingFeature, match="a MatrixAcc of 24x24 f32 per subgroup, which no shape"):
        Elementwise[24, 24, lanes][1](y, y, x, y, y, np.zeros(1, "u4"))


def test_part_of_a_subgroup_is_refused(device, lanes):
    s = next(s for s in listed(device) if (s.a, s.c) == ("f16", "f32"))
    x, y, w, kernel = product(s.m, s.n, s.k, lanes // 2, f16, f32, np.random.default_rng(0), groups=1)
    with pytest.raises(MissingFeature, match=f"{lanes // 2} lanes in x are no multiple of {lanes}"):
        kernel[1](x, y, w, w)
