"""A paged cache that holds a few sequences, and Attention over it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.attention import Attention, Combine
from kernels.window_attention import WindowAttention
from spirvdsl import f16x4, f32x4
from tests.kernels import rig
from tests.kernels.oracles import activations as q8
from tests.kernels.oracles.attention import attend, gather
from tests.kernels.oracles.rows import PAGE, round_up

CACHES = {"f32": (f32x4, np.float32), "f16": (f16x4, np.float16)}
BAR = 2e-6  # f32 exponentials of scores around 10


@dataclass(frozen=True)
class Shape:
    """group query heads for each of kv_heads key heads of hd channels; cache: f16 or f32; size: of scores, about."""

    hd: int
    group: int
    kv_heads: int = 2
    cache: str = "f16"
    size: float = 3.0

    @property
    def heads(self) -> int:
        return self.group * self.kv_heads

    @property
    def width(self) -> int:
        return round_up(self.hd, 8)

    @property
    def stride(self) -> int:
        return round_up(self.heads * self.hd, 32)


@dataclass(frozen=True)
class Scene:
    """q: f32 [T, heads, HDP]; k, v: pages, NaN where no token was stored; rows: records; truth: f64 [T, heads, hd]."""

    shape: Shape
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    rows: np.ndarray
    table: np.ndarray
    truth: np.ndarray


def scene(shape: Shape, contexts: list[int], seed: int) -> Scene:
    """One sequence a context, each with a token at its end; pages are dealt out in a random order."""
    rng = np.random.default_rng(seed)
    _, dtype = CACHES[shape.cache]
    counts = [-(-c // PAGE) for c in contexts]
    order = rng.permutation(sum(counts) + 3).astype(np.uint32)
    q = np.zeros((len(contexts), shape.heads, shape.width), np.float32)
    q[..., : shape.hd] = rng.standard_normal((len(contexts), shape.heads, shape.hd)) * shape.size / np.sqrt(shape.hd)
    k, v = (rig.poisoned(len(order), shape.kv_heads, PAGE, shape.width, dtype=dtype) for _ in range(2))
    rows, truth, at = rig.poisoned(len(contexts), 4, dtype=np.uint32), [], 2  # two entries of the table are nobody's
    for t, count in enumerate(contexts):
        for position in range(count):
            page = order[at + position // PAGE]
            for pages in (k, v):
                pages[page, :, position % PAGE] = 0
                pages[page, :, position % PAGE, : shape.hd] = rng.standard_normal((shape.kv_heads, shape.hd))
        rows[t, 1:3] = count - 1, at
        truth.append(attend(q[t, :, : shape.hd], *(gather(p, order, at, count, shape.hd) for p in (k, v))))
        at += counts[t]
    return Scene(shape, q, k, v, rows.reshape(-1).view(np.uint8), order, np.array(truth))


def subgroups(shape: Shape, lanes: int) -> int:
    """As many subgroups as 32 KiB of workgroup memory hold, 4 at most."""
    fits = [n for n in (4, 2, 1) if shape.group * ((n + 1) * shape.width + 2 * n) * 4 <= 32768 and lanes * n <= 256]
    return fits[0]


def stamp(run: rig.Runner, shape: Shape, split: bool, nsg: int | None = None):
    return Attention.stamp(HD=shape.hd, GROUP=shape.group, CT4=CACHES[shape.cache][0], SPLIT=split, SG=run.subgroup,
                           NSG=nsg or subgroups(shape, run.subgroup))


def launch(run: rig.Runner, s: Scene, kernel, out: np.ndarray, splits: int, stats: np.ndarray | None = None) -> None:
    extra = {} if stats is None else {"stats": stats.reshape(-1)}
    run(kernel, (s.shape.kv_heads, len(s.q), splits), q=s.q.reshape(-1), k=s.k.reshape(-1), v=s.v.reshape(-1), rows_of=s.rows, table=s.table,
        out=out.reshape(-1), kv_heads=s.shape.kv_heads, splits=splits, out_stride=s.shape.stride, **extra)


def whole(run: rig.Runner, s: Scene, nsg: int | None = None) -> np.ndarray:
    """f32 [T, heads, hd] by the kernel that does not split; the pads of its rows may not be written."""
    out = rig.poisoned(len(s.q) + 1, s.shape.stride)
    launch(run, s, stamp(run, s.shape, False, nsg), out, 1)
    used = s.shape.heads * s.shape.hd
    fresh = rig.poisoned(*out.shape)
    fresh[:-1, :used] = out[:-1, :used]
    assert fresh.tobytes() == out.tobytes()
    return out[:-1, :used].reshape(s.truth.shape)


def parts(run: rig.Runner, s: Scene, splits: int, nsg: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """partial f32 [T, heads, splits, HDP] and stats [T, heads, splits, 2]."""
    t, shape = len(s.q), s.shape
    partial, stats = rig.poisoned(t + 1, shape.heads, splits, shape.width), rig.poisoned(t + 1, shape.heads, splits, 2)
    launch(run, s, stamp(run, shape, True, nsg), partial, splits, stats)
    assert rig.untouched(partial[-1]) and rig.untouched(stats[-1])
    return partial[:-1], stats[:-1]


def combine(run: rig.Runner, shape: Shape, partial: np.ndarray, stats: np.ndarray, integer: bool, ql: int):
    """Rows [T, stride]: f32, or Quantised with the pairs it came from."""
    t, splits, blocks = len(partial), partial.shape[2], shape.stride // 32
    grid = rig.groups(blocks, 64 // ql), t
    given = {"partial": partial.reshape(-1), "stats": stats.reshape(-1), "heads": shape.heads, "splits": splits, "blocks": blocks}
    if not integer:
        y = rig.poisoned(t + 1, shape.stride)
        run(Combine[shape.hd, False, ql], grid, y=y.reshape(-1), **given)
        assert rig.untouched(y[-1])
        return y[:-1]
    words, pairs = rig.poisoned(t + 1, blocks * 8, dtype=np.uint32), rig.poisoned(t + 1, blocks, 2, dtype=np.uint32)
    run(Combine[shape.hd, True, ql], grid, yq=words.reshape(-1), ys=pairs.reshape(-1), **given)
    assert rig.untouched(words[-1]) and rig.untouched(pairs[-1])
    return q8.unpack(words[:-1], pairs[:-1]), pairs[:-1]


def window(shape: Shape, first: int, tokens: int, seed: int) -> Scene:
    """One sequence: `tokens` queries at positions first .. first + tokens - 1, pages in a random order."""
    rng = np.random.default_rng(seed)
    _, dtype = CACHES[shape.cache]
    pages = -(-(first + tokens) // PAGE)
    order = rng.permutation(pages + 3).astype(np.uint32)
    q = np.zeros((tokens, shape.heads, shape.width), np.float32)
    q[..., : shape.hd] = rng.standard_normal((tokens, shape.heads, shape.hd)) * shape.size / np.sqrt(shape.hd)
    k, v = (rig.poisoned(len(order), shape.kv_heads, PAGE, shape.width, dtype=dtype) for _ in range(2))
    for position in range(first + tokens):
        for side in (k, v):
            place = side[order[2 + position // PAGE], :, position % PAGE]
            place[...] = 0
            place[:, : shape.hd] = rng.standard_normal((shape.kv_heads, shape.hd))
    rows = rig.poisoned(tokens, 4, dtype=np.uint32)
    rows[:, 1], rows[:, 2] = np.arange(first, first + tokens), 2
    truth = [attend(q[t, :, : shape.hd], *(gather(side, order, 2, first + t + 1, shape.hd) for side in (k, v))) for t in range(tokens)]
    return Scene(shape, q, k, v, rows.reshape(-1).view(np.uint8), order, np.array(truth))


def windowed(run: rig.Runner, s: Scene, share: int, nsg: int) -> np.ndarray:
    """f32 [T, heads, hd] by WindowAttention; the pads of its rows may not be written."""
    kernel = WindowAttention.stamp(HD=s.shape.hd, GROUP=s.shape.group, CT4=CACHES[s.shape.cache][0], SG=run.subgroup, NSG=nsg, TOKENS=share)
    out, used = rig.poisoned(len(s.q) + 1, s.shape.stride), s.shape.heads * s.shape.hd
    run(kernel, (s.shape.kv_heads, -(-len(s.q) // share), 1), q=s.q.reshape(-1), k=s.k.reshape(-1), v=s.v.reshape(-1), rows_of=s.rows, table=s.table,
        out=out.reshape(-1), kv_heads=s.shape.kv_heads, splits=1, out_stride=s.shape.stride, tokens=len(s.q))
    fresh = rig.poisoned(*out.shape)
    fresh[:-1, :used] = out[:-1, :used]
    assert fresh.tobytes() == out.tobytes()
    return out[:-1, :used].reshape(s.truth.shape)
