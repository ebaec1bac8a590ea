"""RopeStore: norm per head, rotation, and storing into pages that lie anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from kernels.rope import RopeStore
from spirvdsl import f16, f32
from tests.kernels import rig
from tests.kernels.oracles.rows import PAGE, angles, place, rms_norm, rotate, round_up

BASE = 10000.0
EPS = 1e-6
CACHES = {"f32": (f32, np.float32), "f16": (f16, np.float16)}
QUICK = ["interp4", "interp8", "interp32", "interp64", "device"]


@dataclass(frozen=True)
class Shape:
    """heads query heads and kv_heads key heads of hd channels, n_rot of them rotated; gap: floats between rows of qkv."""

    heads: int
    kv_heads: int
    hd: int
    n_rot: int
    gap: int = 0

    @property
    def width(self) -> int:
        return round_up(self.hd, 8)

    @property
    def stride(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.hd + self.gap


# two sequences of three pages each, shuffled among ten; table entries 0 and 7 are nobody's
TABLE = np.array([99, 6, 2, 9, 0, 4, 8, 99], np.uint32)
ROWS = [(0, 1), (63, 1), (64, 1), (127, 4), (128, 4), (5, 4), (191, 1)]  # (position, first table entry)
PAGES = 10


def records(rows) -> np.ndarray:
    made = rig.poisoned(len(rows), 4, dtype=np.uint32)
    made[:, 1:3] = rows
    return made.reshape(-1).view(np.uint8)


def inputs(shape: Shape, tokens: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """qkv f32 [T, stride] with NaN in the gap, and the two norm weights."""
    rng = np.random.default_rng(seed)
    qkv = rig.poisoned(tokens, shape.stride)
    qkv[:, : shape.stride - shape.gap] = rng.standard_normal((tokens, shape.stride - shape.gap)) * rng.uniform(0.1, 9, (tokens, 1))
    weights = rng.uniform(-1.5, 1.5, (2, shape.hd)).astype(np.float32)
    return qkv, weights[0], weights[1]


def truth(shape: Shape, norm: bool, qkv, q_norm, k_norm, positions) -> tuple[np.ndarray, ...]:
    """q, k, v in f64, each [T, heads, hd], unscaled."""
    heads = qkv[:, : shape.stride - shape.gap].astype(np.float64).reshape(len(qkv), -1, shape.hd)
    q, k, v = np.split(heads, [shape.heads, shape.heads + shape.kv_heads], 1)
    if norm:
        q, k = rms_norm(q, q_norm, EPS), rms_norm(k, k_norm, EPS)
    return rotate(q, positions, shape.n_rot, BASE), rotate(k, positions, shape.n_rot, BASE), v


def check(run, shape: Shape, norm: bool, cache: str, seed: int) -> None:
    element, dtype = CACHES[cache]
    qkv, q_norm, k_norm = inputs(shape, len(ROWS), seed)
    q = rig.poisoned(len(ROWS) + 1, shape.heads, shape.width)
    pages = [rig.poisoned(PAGES, shape.kv_heads, PAGE, shape.width, dtype=dtype) for _ in range(2)]
    before = [p.copy() for p in pages]
    run(RopeStore[shape.hd, shape.n_rot, norm, element], (shape.heads + 2 * shape.kv_heads, len(ROWS)), qkv=qkv.reshape(-1), q_norm=q_norm,
        k_norm=k_norm, rope=angles(192, shape.n_rot, BASE).reshape(-1), rows_of=records(ROWS), table=TABLE, q=q.reshape(-1),
        k=pages[0].reshape(-1), v=pages[1].reshape(-1), heads=shape.heads, kv_heads=shape.kv_heads, qkv_stride=shape.stride, eps=EPS, scale=0.3)
    positions = np.array([p for p, _ in ROWS])
    true_q, true_k, true_v = truth(shape, norm, qkv, q_norm, k_norm, positions)
    assert rig.rel_rms(q[:-1, :, : shape.hd], true_q * np.float64(np.float32(0.3))) < 1e-6
    assert not q[:-1, :, shape.hd :].any() and rig.untouched(q[-1])
    bar = 1e-6 if cache == "f32" else 2.0**-11 + 1e-6  # half a unit in the last place of a half
    for found, old, true in zip(pages, before, (true_k, true_v), strict=True):
        for t, (position, first) in enumerate(ROWS):
            page, slot = place(position, TABLE, first)
            assert rig.rel_rms(found[page, :, slot, : shape.hd], true[t]) < bar
            assert not found[page, :, slot, shape.hd :].any()
            found[page, :, slot] = old[page, :, slot]
        assert found.tobytes() == old.tobytes()  # nothing else was written
    if cache == "f32" and not norm and run.ieee:
        assert np.array_equal(pages[0].view(np.uint32), before[0].view(np.uint32))


SHAPES = [Shape(2, 1, 64, 64), Shape(3, 3, 24, 24, 5), Shape(5, 1, 10, 10), Shape(4, 2, 16, 6, 1), Shape(1, 1, 2, 2)]


@pytest.mark.parametrize("run", QUICK, indirect=True)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"hd{s.hd}")
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
def test_rope_store(run, shape, norm, seed):
    check(run, shape, norm, "f32" if shape.hd in (24, 16) else "f16", seed)


@pytest.mark.full
@pytest.mark.parametrize("run", ["interp8", "device"], indirect=True)
@pytest.mark.parametrize("shape", [*SHAPES, Shape(8, 2, 128, 128), Shape(3, 1, 72, 64), Shape(2, 2, 256, 64)], ids=lambda s: f"hd{s.hd}")
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("cache", CACHES)
def test_rope_store_everywhere(run, shape, norm, cache, seed):
    check(run, shape, norm, cache, seed)


@pytest.mark.parametrize("run", ["interp32", "device"], indirect=True)
def test_values_pass_unchanged(run, seed):
    """v is neither normed nor rotated: in an f32 cache bit for bit what came in, in f16 the nearest half."""
    shape = Shape(1, 2, 24, 24)
    qkv, q_norm, k_norm = inputs(shape, 1, seed)
    qkv[0, -24:-20] = [1e-7, 65504, 65519, -2.0**-24]  # subnormal and largest halves
    for element, dtype in CACHES.values():
        k, v = (rig.poisoned(1, 2, PAGE, 24, dtype=dtype) for _ in range(2))
        run(RopeStore[24, 24, True, element], (5, 1), qkv=qkv.reshape(-1), q_norm=q_norm, k_norm=k_norm, rope=angles(1, 24, BASE).reshape(-1),
            rows_of=records([(0, 0)]), table=np.zeros(1, np.uint32), q=rig.poisoned(24), k=k.reshape(-1), v=v.reshape(-1), heads=1, kv_heads=2,
            qkv_stride=shape.stride, eps=EPS, scale=1.0)
        assert np.array_equal(v[0, :, 0].reshape(-1), qkv[0, -48:].astype(dtype))
