"""Subgroup operations on a device, against numpy over whatever subgroup width the device has."""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl.lang.types import Vector, bool_, f32, u32
from spirvdsl.spirv import compile_module

from .kit import Kit
from .test_execute import LANES, execute

REDUCE = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def width_of(device, module) -> int:
    """Lanes of a subgroup as they fall on the workgroup; skips where the device lacks a class of operations."""
    missing = sorted(set(compile_module(module).reflection.features) - device.caps.features)
    if missing:
        pytest.skip(f"{device.caps.name} lacks {', '.join(missing)}")
    return min(device.caps.subgroup_size, LANES)


@pytest.mark.parametrize("fn", sorted(REDUCE))
def test_reductions_and_scans(device, seed, fn):
    kit = Kit()
    x = kit.input(u32, "x")
    for mode in ("reduce", "inclusive", "exclusive"):
        kit.keep(kit.node("subgroup", u32, (x,), fn=fn, mode=mode, cluster=None), mode)
    kit.keep(kit.node("subgroup", u32, (x,), fn=fn, mode="reduce", cluster=4), "clusters")
    module = kit.module()
    width = width_of(device, module)
    given = np.random.default_rng(seed).integers(0, 1 << 32, LANES, dtype=np.uint32)
    found = {name: raw.view(np.uint32) for name, raw in execute(device, module, x=given).items()}
    rows, ufunc = given.reshape(-1, width), REDUCE[fn]
    scan = ufunc.accumulate(rows, axis=1, dtype=np.uint32)
    assert (found["inclusive"] == scan.reshape(-1)).all()
    assert (found["reduce"].reshape(-1, width) == scan[:, -1:]).all()
    assert (found["clusters"].reshape(-1, 4) == ufunc.reduce(given.reshape(-1, 4), axis=1, dtype=np.uint32)[:, None]).all()
    exclusive = found["exclusive"].reshape(-1, width)
    assert (exclusive[:, 1:] == scan[:, :-1]).all() and len(set(found["inclusive"].tolist())) > 2


def test_lanes_trade_values(device, seed):
    kit = Kit()
    x, lane = kit.input(f32, "x"), kit.builtin("subgroup_lane")
    mirror = kit.binary("sub", kit.binary("sub", kit.builtin("subgroup_size"), kit.const(u32, 1)), lane)
    one, five = kit.const(u32, 1), kit.const(u32, 5)
    moves = {
        "shuffle": (x, mirror), "shuffle_xor": (x, five), "shuffle_up": (x, one), "shuffle_down": (x, one), "broadcast": (x, one), "quad_broadcast": (x, one),
    }  # fmt: skip
    for fn, args in moves.items():
        kit.keep(kit.node("subgroup", f32, args, fn=fn), fn)
    kit.keep(kit.node("subgroup", f32, (x,), fn="broadcast_first"), "broadcast_first")
    for direction, name in enumerate(("horizontal", "vertical", "diagonal")):
        kit.keep(kit.node("subgroup", f32, (x,), fn="quad_swap", direction=direction), name)
    module = kit.module()
    width = width_of(device, module)
    given = np.random.default_rng(seed).random(LANES, dtype=np.float32)
    found = {name: raw.view(np.float32).reshape(-1, width) for name, raw in execute(device, module, x=given).items()}
    rows, at = given.reshape(-1, width), np.arange(width)
    sources = {
        "shuffle": at[::-1], "shuffle_xor": at ^ 5, "broadcast": at * 0 + 1, "broadcast_first": at * 0,
        "quad_broadcast": at // 4 * 4 + 1, "horizontal": at ^ 1, "vertical": at ^ 2, "diagonal": at ^ 3,
    }  # fmt: skip
    for name, source in sources.items():
        assert (found[name] == rows[:, source]).all(), name
    assert (found["shuffle_up"][:, 1:] == rows[:, :-1]).all() and (found["shuffle_down"][:, :-1] == rows[:, 1:]).all()


def test_votes_and_ballots(device, seed):
    kit = Kit()
    flag, x = kit.input(bool_, "x"), kit.input(u32, "y")
    for fn, argument in (("all", flag), ("any", flag), ("all_equal", x)):
        kit.keep(kit.node("subgroup", bool_, (argument,), fn=fn), fn)
    kit.keep(kit.node("subgroup", bool_, (), fn="elect"), "elect")
    ballot = kit.node("subgroup", Vector(u32, 4), (flag,), fn="ballot")
    kit.keep(ballot, "ballot")
    kit.keep(kit.node("subgroup", bool_, (ballot,), fn="inverse_ballot"), "inverse")
    for mode in ("reduce", "inclusive", "exclusive"):
        kit.keep(kit.node("subgroup", u32, (ballot,), fn="ballot_bit_count", mode=mode), f"count_{mode}")
    module = kit.module()
    width = width_of(device, module)
    given = np.random.default_rng(seed).integers(0, 2, LANES, dtype=np.uint32)
    given[:width], y = 1, np.arange(LANES, dtype=np.uint32)
    y[:width] = 7
    found = {name: raw.view(np.uint32) for name, raw in execute(device, module, x=given, y=y).items()}
    rows = given.reshape(-1, width)
    per_row = {"all": rows.all(1), "any": rows.any(1), "all_equal": (y.reshape(-1, width) == y.reshape(-1, width)[:, :1]).all(1), "count_reduce": rows.sum(1)}
    for name, wanted in per_row.items():
        assert (found[name].reshape(-1, width) == wanted[:, None]).all(), name
    assert (found["inverse"] == given).all() and (found["elect"].reshape(-1, width) == (np.arange(width) == 0)).all()
    assert (found["count_inclusive"].reshape(-1, width) == rows.cumsum(1)).all()
    assert (found["count_exclusive"].reshape(-1, width) == rows.cumsum(1) - rows).all()
    bits = (rows.astype(np.uint64) << np.arange(width, dtype=np.uint64)).sum(1)
    low = found["ballot"].reshape(-1, width, 4)[:, :, 0]
    assert (low == (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32)[:, None]).all()
