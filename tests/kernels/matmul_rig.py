"""Runs the matrix kernels on weights and feeds, inside poisoned outputs, and judges them by f64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.matmul import GateUp, Gemv, Tile
from tests.kernels import rig
from tests.kernels.feeds import Feed
from tests.kernels.oracles.activations import silu
from tests.kernels.weights import Weights

LEFT, RIGHT = 3, 5  # columns of y that belong to others
ARM_BAR = 1e-6  # either arm against f64 on the numbers that it is given
Q8_BAR = 2e-2  # the integer arm against f64 on the activations before they were quantised


@dataclass(frozen=True)
class Call:
    """A stamp of Gemv or Tile, and whether it adds a bias and the old y."""

    kernel: object
    integer: bool
    bias: bool = False
    residual: bool = False


def gemv(w: Weights, integer: bool, cols: int = 1, lanes: int = 4, threads: int = 64, bias: bool = False, residual: bool = False) -> Call:
    return Call(Gemv.stamp(fmt=w.format, INT=integer, LANES=lanes, COLS=cols, THREADS=threads, BIAS=bias, RESIDUAL=residual), integer, bias, residual)


def tile(w: Weights, integer: bool, shape: tuple[int, int, int, int] = (32, 32, 2, 2), bias: bool = False, residual: bool = False) -> Call:
    bm, bn, tm, tn = shape
    return Call(Tile.stamp(fmt=w.format, INT=integer, BM=bm, BN=bn, TM=tm, TN=tn, BIAS=bias, RESIDUAL=residual), integer, bias, residual)


def grid_of(kernel, rows: int, tokens: int) -> tuple[int, int]:
    v = kernel.values
    if kernel.template is Tile:
        return rig.groups(rows, v["BM"]), rig.groups(tokens, v["BN"])
    return rig.groups(rows, v["THREADS"] // v["LANES"]), rig.groups(tokens, v["COLS"])


def output(tokens: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Poisoned y f32 [T + 1, stride], and the part of it that the kernel is to write."""
    y = rig.poisoned(tokens + 1, LEFT + rows + RIGHT)
    return y, y[:tokens, LEFT : LEFT + rows]


def others_untouched(y: np.ndarray, tokens: int, rows: int) -> bool:
    fresh = rig.poisoned(*y.shape)
    fresh[:tokens, LEFT : LEFT + rows] = y[:tokens, LEFT : LEFT + rows]
    return fresh.tobytes() == y.tobytes()


def check(run: rig.Runner, call: Call, w: Weights, feed: Feed, seed: int = 0) -> np.ndarray:
    """Run, judge, return y [T, rows]."""
    tokens, rows, rng = len(feed.x), w.rows, np.random.default_rng(seed)
    y, mine = output(tokens, rows)
    old = rng.standard_normal(mine.shape).astype(np.float32)
    bias = rng.standard_normal(rows).astype(np.float32)
    if call.residual:
        mine[:] = old
    arguments = {**w.planes(), "y": y.reshape(-1), **feed.arguments(call.integer)}
    if call.bias:
        arguments["bias"] = bias
    run(call.kernel, grid_of(call.kernel, rows, tokens), rows=rows, blocks=w.blocks, tokens=tokens, y_stride=y.shape[1], y_col=LEFT, **arguments)
    extra = (bias if call.bias else 0) + np.where(call.residual, old, 0).astype(np.float64)
    judge(mine, w.padded_values().astype(np.float64), feed, call.integer, extra)
    assert others_untouched(y, tokens, rows)
    return mine


def spread(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """f64 [T, rows]: what a sum of w x would be if all signs were random. Errors are measured in it, so that a result that
    cancels out is no worse than others."""
    return np.sqrt((x**2).sum(1)[:, None] * (values**2).mean(1))


def rms(a: np.ndarray) -> float:
    return float(np.sqrt(np.mean(a**2)))


def judge(found: np.ndarray, values: np.ndarray, feed: Feed, integer: bool, extra) -> None:
    unit = rms(spread(values, feed.seen(False)))
    assert unit > 0 and np.isfinite(found).all()
    q8_bar = Q8_BAR if found.size >= 32 else 3 * Q8_BAR  # the rms of few rounding errors is one draw of chance
    for bar, seen in ((ARM_BAR, feed.seen(integer)), (q8_bar, feed.seen(False))):
        error = rms(found - (seen @ values.T + extra)) / unit
        assert error <= bar, f"rms error {error:.2e}, {bar} allowed"


def check_gate_up(run: rig.Runner, gate: Weights, up: Weights, feed: Feed, integer: bool, cols: int = 1, lanes: int = 4, threads: int = 64) -> np.ndarray:
    kernel = GateUp.stamp(fmt=gate.format, INT=integer, LANES=lanes, COLS=cols, THREADS=threads)
    tokens, rows = len(feed.x), gate.rows
    y, mine = output(tokens, rows)
    run(kernel, grid_of(kernel, rows, tokens), **gate.planes(), q2=up.q, s2=up.s, y=y.reshape(-1), rows=rows, blocks=gate.blocks, tokens=tokens,
        y_stride=y.shape[1], y_col=LEFT, **feed.arguments(integer))
    x = feed.seen(integer)
    w = [m.padded_values().astype(np.float64) for m in (gate, up)]
    g, u = (x @ m.T for m in w)
    true, slope = silu(g) * u, (silu(g + 1e-5) - silu(g - 1e-5)) / 2e-5
    unit = rms(np.abs(slope * u) * spread(w[0], x) + np.abs(silu(g)) * spread(w[1], x) + np.abs(true))
    assert unit > 0 and np.isfinite(mine).all()
    error = rms(mine - true) / unit
    assert error <= ARM_BAR, f"rms error {error:.2e}, {ARM_BAR} allowed"
    assert others_untouched(y, tokens, rows)
    return mine
