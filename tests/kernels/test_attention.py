"""Attention and Combine over pages in any order, contexts around page borders, splits that may be empty.

Cache places that no token was stored at hold NaN, and so do all outputs at first.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import rig
from tests.kernels.attention_rig import BAR, Shape, combine, parts, scene, whole
from tests.kernels.oracles.attention import combine as join
from tests.kernels.test_activations import check_q8, unpacked_sums

CONTEXTS = [1, 63, 64, 65, 200]
SIZES = [f"interp{n}" for n in rig.SIZES]
SHAPES = [Shape(24, 1, 1, "f32"), Shape(64, 2), Shape(10, 3, cache="f32"), Shape(128, 4, 1), Shape(64, 8, 1)]
ON_DEVICE = [Shape(24, 3, cache="f32"), Shape(64, 2), Shape(128, 4, 1)]


def name(value) -> str | None:
    return f"hd{value.hd}x{value.group}{value.cache}" if isinstance(value, Shape) else None


def padded_truth(s) -> np.ndarray:
    """f64 [T, stride]: heads side by side, then zeros."""
    rows = s.truth.reshape(len(s.q), -1)
    return np.pad(rows, ((0, 0), (0, s.shape.stride - rows.shape[1])))


def check_whole(run, shape, contexts, seed, nsg=None) -> None:
    s = scene(shape, contexts, seed)
    assert rig.rel_rms(whole(run, s, nsg), s.truth) < BAR


def check_split(run, shape, contexts, splits, seed, nsg=None) -> None:
    s = scene(shape, contexts, seed)
    partial, stats = parts(run, s, splits, nsg)
    pages = -(-np.array(contexts) // 64)
    each = -(-pages // splits)
    filled = np.arange(splits) * each[:, None] < pages[:, None]
    assert (stats[..., 1] > 0).all(1)[filled].all() and (stats[..., 1].max(1)[~filled] == 0).all()
    assert rig.untouched(partial.transpose(0, 2, 1, 3)[~filled]) and (stats[..., 0].max(1)[~filled] < -1e29).all()
    assert rig.rel_rms(join(partial[..., : shape.hd], stats), s.truth) < BAR
    y = combine(run, shape, partial, stats, False, 4)
    used = shape.heads * shape.hd
    assert rig.rel_rms(y, padded_truth(s)) < BAR and not y[:, used:].any()
    ql = min(8, run.subgroup)
    found, pairs = combine(run, shape, partial, stats, True, ql)
    check_q8(run, found, unpacked_sums(pairs), padded_truth(s), 2e-5)
    assert not found.ints[:, used:].any()


@pytest.mark.parametrize("run", SIZES, indirect=True)
@pytest.mark.parametrize("shape", SHAPES, ids=name)
def test_attention(run, shape, seed):
    check_whole(run, shape, CONTEXTS, seed)


@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize("shape", ON_DEVICE, ids=name)
def test_attention_on_the_device(run, shape, seed):
    check_whole(run, shape, CONTEXTS, seed)


@pytest.mark.parametrize("run", SIZES, indirect=True)
@pytest.mark.parametrize("splits", [1, 2, 3, 16])
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[1], SHAPES[2]], ids=name)
def test_splits(run, shape, splits, seed):
    check_split(run, shape, CONTEXTS, splits, seed)


@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize("shape", [Shape(24, 3, cache="f32"), Shape(64, 2)], ids=name)
def test_splits_on_the_device(run, shape, seed):
    for splits in (1, 2, 3, 5, 16):
        check_split(run, shape, CONTEXTS, splits, seed)


@pytest.mark.parametrize("run", ["interp8", "interp32"], indirect=True)
@pytest.mark.parametrize("group", range(1, 9))
def test_every_group(run, group, seed):
    check_whole(run, Shape(24, group), [65, 3], seed)
    check_split(run, Shape(24, group), [130, 3], 2, seed)


@pytest.mark.parametrize("run", ["interp4", "interp32", "device"], indirect=True)
@pytest.mark.parametrize("nsg", [1, 2, 4])
def test_subgroups_of_a_workgroup(run, nsg, seed):
    check_whole(run, Shape(16, 2, 1), CONTEXTS, seed, nsg)


@pytest.mark.parametrize("run", ["interp8", "interp32", "device"], indirect=True)
def test_scores_of_every_size(run, seed):
    """One key takes all, keys share alike, and scores that exp alone would overflow."""
    for size in (0.0, 1e-3, 40.0, 300.0):
        shape = Shape(24, 3, 2, "f32", size)
        s = scene(shape, [200, 64, 1], seed)
        error = rig.rel_rms(whole(run, s), s.truth)
        assert error < max(BAR, size * 1e-6), (size, error)  # an f32 score of `size` is known to size * 2^-24


@pytest.mark.parametrize("run", ["interp8", "device"], indirect=True)
def test_long_context(run, seed):
    """More pages than splits, and rows of one dispatch at very different depths."""
    check_split(run, Shape(24, 3, cache="f32"), [1500, 2, 700], 5, seed)


@pytest.mark.parametrize("run", ["interp32", "device"], indirect=True)
def test_combine_of_any_parts(run, seed):
    """Splits of very different maxima, and empty ones in any place."""
    rng = np.random.default_rng(seed)
    shape = Shape(24, 3)
    partial = rng.standard_normal((4, 6, 5, 24)).astype(np.float32)
    stats = np.stack([rng.uniform(-90, 90, (4, 6, 5)), rng.uniform(0.5, 60, (4, 6, 5))], -1).astype(np.float32)
    empty = rng.random((4, 6, 5)) < 0.4
    empty[..., 2] = False
    stats[empty] = -1e30, 0
    partial[empty] = np.nan
    true = join(partial, stats).reshape(4, -1)
    y = combine(run, shape, partial, stats, False, 4)
    assert rig.rel_rms(y[:, :144], true) < BAR and not y[:, 144:].any()


@pytest.mark.full
@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize("cache", ["f16", "f32"])
@pytest.mark.parametrize("hd", [10, 24, 64, 128])
@pytest.mark.parametrize("group", [1, 2, 3, 5, 7, 8])
def test_attention_everywhere(run, hd, group, cache, seed):
    shape = Shape(hd, group, 2, cache)
    check_whole(run, shape, CONTEXTS, seed)
    for splits in (1, 2, 3, 4, 7, 16):
        check_split(run, shape, [*CONTEXTS, 900], splits, seed)


@pytest.mark.full
@pytest.mark.parametrize("run", SIZES, indirect=True)
@pytest.mark.parametrize("splits", range(1, 17))
def test_every_number_of_splits(run, splits, seed):
    check_split(run, Shape(24, 5, cache="f32"), [*CONTEXTS, 1100], splits, seed)
