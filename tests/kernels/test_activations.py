"""Quantize, SwiGLU and RmsNorm: f32 rows and their q8 form."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.norm import RmsNorm
from kernels.quantize import Quantize, SwiGLU
from tests.kernels import rig
from tests.kernels.oracles import activations as oracle
from tests.kernels.oracles.rows import rms_norm

# QL lanes share a block, and a subgroup must hold them
PLACES = [("interp4", 4), ("interp8", 8), ("interp8", 4), ("interp32", 8), ("interp64", 4), ("device", 4), ("device", 8)]
EVERYWHERE = pytest.mark.parametrize("run,ql", PLACES, indirect=["run"])


@pytest.fixture(autouse=True)
def fits(run, request):
    """A device of small subgroups cannot have eight lanes a block."""
    if request.node.callspec.params.get("ql", 4) > run.subgroup:
        pytest.skip(f"{run.name} has subgroups of {run.subgroup}")


def check_q8(run, found: oracle.Quantised, sums: np.ndarray, x: np.ndarray, slack: float = 1e-6) -> None:
    """Is `found` the q8 form of x f64 [T, KP]? slack: relative error that the values themselves may have."""
    blocks = x.reshape(*found.scales.shape, 32)
    ints = found.ints.astype(np.int64).reshape(blocks.shape)
    np.testing.assert_allclose(found.scales, np.abs(blocks).max(-1) / 127, rtol=slack, atol=1e-44)
    scales = found.scales.astype(np.float64)[..., None]
    assert (np.abs(ints * scales - blocks) <= scales * (0.5 + 127 * 2 * slack)).all()
    assert np.array_equal(sums, ints.reshape(*scales.shape[:-1], 2, 16).sum(-1))


def unpacked_sums(pairs: np.ndarray) -> np.ndarray:
    """i64 [T, blocks, 2] of the i16 sums in the records."""
    return np.stack([pairs[..., 1] & 0xFFFF, pairs[..., 1] >> 16], -1).astype(np.uint16).view(np.int16).astype(np.int64)


def rows_of_all_kinds(rows: int, blocks: int, seed: int) -> np.ndarray:
    """f32: normal blocks, one of zeros, one of a single value, large ones, small ones, outliers, ties."""
    rng = np.random.default_rng(seed)
    size = rng.choice([1e-20, 1e-3, 1, 50, 1e20], (rows * blocks, 1))
    x = (rng.standard_normal((rows * blocks, 32)) * size).astype(np.float32)
    kinds = rng.permutation(rows * blocks)
    x[kinds[0]] = 0
    x[kinds[1]] = np.float32(-3.5)
    x[kinds[2], 5] = 1e6
    x[kinds[3]] = np.arange(32) - 16.5  # d is exact: 63.5 / 127 = 0.5 makes ties below
    x[kinds[3], 0] = 63.5
    x[kinds[4]] = 0
    x[kinds[4], 31] = -1e-30
    return x.reshape(rows, blocks * 32)


def quantize(run, ql: int, x: np.ndarray, grid=None) -> tuple[oracle.Quantised, np.ndarray]:
    """Words and pairs of x by the kernel; behind them nothing may change."""
    rows, blocks = len(x), x.shape[1] // 32
    words, pairs = rig.poisoned(rows + 1, blocks * 8, dtype=np.uint32), rig.poisoned(rows + 1, blocks, 2, dtype=np.uint32)
    grid = grid or rig.groups(rows * blocks * ql, 64)
    run(Quantize[ql], grid, x=x.reshape(-1), xq=words.reshape(-1), xs=pairs.reshape(-1), blocks=rows * blocks)
    assert rig.untouched(words[-1]) and rig.untouched(pairs[-1])
    return oracle.unpack(words[:-1], pairs[:-1]), pairs[:-1]


@EVERYWHERE
@pytest.mark.parametrize("rows,blocks", [(1, 5), (3, 7), (65, 1), (9, 28)])
def test_quantize(run, ql, rows, blocks, seed):
    x = rows_of_all_kinds(rows, blocks, seed)
    found, pairs = quantize(run, ql, x)
    check_q8(run, found, unpacked_sums(pairs), x.astype(np.float64))
    if run.ieee:
        true = oracle.quantise(x)
        assert np.array_equal(found.ints, true.ints) and np.array_equal(pairs, true.pairs())


@EVERYWHERE
def test_quantize_over_two_axes_of_groups(run, ql, seed):
    """The grid may be any shape with enough lanes, as the runtime makes it past 65,535 groups."""
    x = rows_of_all_kinds(5, 30, seed)
    once, _ = quantize(run, ql, x)
    spread, _ = quantize(run, ql, x, (7, rig.groups(rig.groups(150 * ql, 64), 7) + 1))
    assert np.array_equal(once.ints, spread.ints) and np.array_equal(once.scales, spread.scales)


@EVERYWHERE
def test_quantize_of_numbers_too_small_to_invert(run, ql):
    """1 / d is not finite below 2^-128: such a block is nothing, and its sums are those of its ints."""
    x = np.zeros((1, 96), np.float32)
    x[0, :32] = np.linspace(-1, 1, 32, dtype=np.float32) * np.float32(1e-37)
    x[0, 32:64] = np.float32(1e-40)
    x[0, 70] = -np.float32(1e-45)
    found, pairs = quantize(run, ql, x)
    assert np.array_equal(unpacked_sums(pairs), found.sums())
    assert np.isfinite(found.scales).all() and np.abs(found.values()).max() <= 2.1e-37


@EVERYWHERE
@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("rows,blocks", [(1, 5), (3, 7)])
def test_swiglu(run, ql, integer, rows, blocks, seed):
    rng = np.random.default_rng(seed)
    gate = (rng.standard_normal((rows, blocks * 32)) * 4).astype(np.float32)
    gate[0, :8] = [0, -0.0, 30, -30, 88, -89, 200, -200]  # exp overflows at 89
    gate[-1, 32:64] = 0
    up = rng.standard_normal(gate.shape).astype(np.float32)
    arguments = {"gate": gate.reshape(-1), "up": up.reshape(-1), "blocks": rows * blocks}
    true = oracle.silu(gate) * up.astype(np.float64)
    grid = rig.groups(rows * blocks * ql, 64)
    if integer:
        words, pairs = rig.poisoned(rows + 1, blocks * 8, dtype=np.uint32), rig.poisoned(rows + 1, blocks, 2, dtype=np.uint32)
        run(SwiGLU[True, ql], grid, y=words.reshape(-1), ys=pairs.reshape(-1), **arguments)
        check_q8(run, oracle.unpack(words[:-1], pairs[:-1]), unpacked_sums(pairs[:-1]), true, 1e-5)
        assert rig.untouched(words[-1]) and rig.untouched(pairs[-1])
    else:
        y = rig.poisoned(rows + 1, blocks * 32)
        run(SwiGLU[False, ql], grid, y=y.reshape(-1), **arguments)
        np.testing.assert_allclose(y[:-1], true, rtol=3e-5, atol=1e-30)
        assert rig.rel_rms(y[:-1], true) < 1e-6 and rig.untouched(y[-1])


def norm(run, stamp: tuple, x: np.ndarray, weight: np.ndarray, dim: int, eps: float, row0: int, rows: int) -> tuple:
    """y f32 [rows, KP] or None, (words, pairs) or None, of rows row0.. of x."""
    blocks = x.shape[1] // 32
    y, arguments, q8 = None, {}, None
    if stamp[0]:
        y = arguments["y"] = rig.poisoned(rows + 1, blocks * 32)
    if stamp[1]:
        q8 = rig.poisoned(rows + 1, blocks * 8, dtype=np.uint32), rig.poisoned(rows + 1, blocks, 2, dtype=np.uint32)
        arguments |= {"yq": q8[0], "ys": q8[1]}
    arguments = {name: array.reshape(-1) for name, array in arguments.items()}
    run(RmsNorm[stamp], rows, x=x.reshape(-1), weight=weight, dim=dim, blocks=blocks, row0=row0, eps=eps, **arguments)
    assert all(rig.untouched(a.reshape(rows + 1, -1)[-1]) for a in arguments.values())
    return (y[:-1] if stamp[0] else None), ((q8[0][:-1], q8[1][:-1]) if stamp[1] else None)


def norm_rows(dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """x f32 [6, KP] with zero pads: normal, an outlier, tiny, huge, constant, zero; weight f32 [KP], its pads zero."""
    rng = np.random.default_rng(seed)
    x, weight = np.zeros((6, -(-dim // 32) * 32), np.float32), np.zeros(-(-dim // 32) * 32, np.float32)
    x[:, :dim] = rng.standard_normal((6, dim))
    x[1, dim // 2] = 1000
    x[2] *= 1e-5
    x[3] *= 1e15
    x[4, :dim] = -2.5
    x[5] = 0
    weight[:dim] = rng.uniform(-2, 2, dim)
    return x, weight


@EVERYWHERE
@pytest.mark.parametrize("arms", [(True, False), (False, True), (True, True)], ids=["f32", "q8", "both"])
@pytest.mark.parametrize("dim", [1, 20, 896, 1030])
def test_rms_norm(run, ql, arms, dim, seed):
    x, weight = norm_rows(dim, seed)
    true = np.zeros((6, x.shape[1]))
    true[:, :dim] = rms_norm(x[:, :dim], weight[:dim], 1e-6)
    y, q8 = norm(run, (*arms, ql), x, weight, dim, 1e-6, 0, 6)
    if y is not None:
        np.testing.assert_allclose(y, true, rtol=2e-6, atol=1e-30)
        assert rig.rel_rms(y, true) < 1e-6 and not y[:, dim:].any() and not y[5].any()
    if q8 is not None:
        check_q8(run, oracle.unpack(*q8), unpacked_sums(q8[1]), true, 3e-6)
    if y is not None and q8 is not None and run.ieee:
        assert np.array_equal(q8[0], oracle.quantise(y).words())  # the same values, not other ones


@pytest.mark.parametrize("run", ["interp4", "interp32", "device"], indirect=True)
@pytest.mark.parametrize("threads", [32, 64, 256])
def test_rms_norm_of_later_rows(run, threads, seed):
    """row0 picks rows; any number of threads gives the same."""
    x, weight = norm_rows(100, seed)
    y, _ = norm(run, (True, False, 4, threads), x, weight, 100, 1e-5, 2, 3)
    np.testing.assert_allclose(y[:, :100], rms_norm(x[2:5, :100], weight[:100], 1e-5), rtol=2e-6)
