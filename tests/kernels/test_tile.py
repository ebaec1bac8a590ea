"""Tile: many tokens at once, tiles that the matrix does not fill."""

from __future__ import annotations

import pytest

from kernels.formats import FORMATS
from tests.kernels import rig
from tests.kernels.feeds import feed
from tests.kernels.matmul_rig import check, tile
from tests.kernels.test_gemv import ARMS, SWEEP, name
from tests.kernels.weights import weights

SIZES = [f"interp{n}" for n in rig.SIZES]
SMALL, LARGE = (32, 32, 2, 2), (64, 64, 4, 4)
# (rows, blocks of 256 or of 32, tokens): one row, one token, one over a tile, one under, just a tile
SHAPES = [(1, 1, 1), (2, 3, 2), (3, 1, 9), (7, 2, 33), (31, 1, 32), (33, 2, 5), (63, 1, 8), (64, 1, 7), (65, 2, 65), (129, 1, 3)]
ON_DEVICE = [("F32", False, LARGE), ("BF16", False, SMALL), ("Q8_0", False, LARGE), ("Q4_K", False, LARGE)]
ON_DEVICE += [(t, True, SMALL) for t, f in FORMATS.items() if f.INTEGER]


def sweep(run, type_name, integer, shape, seed, chosen=SHAPES, **epilogue):
    for rows, blocks, tokens in chosen:
        k = blocks * max(32, FORMATS[type_name].disk_elements)
        w = weights(type_name, rows, k)
        check(run, tile(w, integer, shape, **epilogue), w, feed(tokens, k, seed))


@pytest.mark.parametrize("run", ["interp8", "interp32"], indirect=True)
@pytest.mark.parametrize("type_name,integer", SWEEP, ids=name)
def test_tile(run, type_name, integer, seed):
    sweep(run, type_name, integer, SMALL if run.subgroup == 8 else LARGE, seed)


@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize("type_name,integer,shape", ON_DEVICE, ids=lambda v: name(v) or (f"{v[0]}x{v[1]}" if isinstance(v, tuple) else None))
def test_tile_on_the_device(run, type_name, integer, shape, seed):
    sweep(run, type_name, integer, shape, seed)


@pytest.mark.full
@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize("type_name,integer", ARMS, ids=name)
@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["32x32", "64x64"])
def test_tile_everywhere(run, type_name, integer, shape, seed):
    sweep(run, type_name, integer, shape, seed)
    sweep(run, type_name, integer, shape, seed + 1, [(257, 3, 129), (5, 7, 200)])


@pytest.mark.parametrize("run", ["interp4", "interp64"], indirect=True)
@pytest.mark.parametrize("shape", [(16, 8, 2, 1), (8, 16, 1, 4), (64, 16, 4, 2)], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("type_name,integer", [("Q6_K", True), ("F16", False)], ids=name)
def test_other_tiles(run, shape, type_name, integer, seed):
    sweep(run, type_name, integer, shape, seed, SHAPES[:6])


@pytest.mark.parametrize("run", ["interp8", "device"], indirect=True)
@pytest.mark.parametrize("bias,residual", [(True, False), (False, True), (True, True)], ids=["bias", "residual", "both"])
def test_epilogues(run, bias, residual, seed):
    sweep(run, "Q5_0", True, SMALL, seed, SHAPES[3:6], bias=bias, residual=residual)


@pytest.mark.parametrize("run", ["interp8", "device"], indirect=True)
def test_float_rows_that_end_inside_a_block(run, seed):
    for k in (1, 33, 100):
        w = weights("F32", 7, k)
        check(run, tile(w, False, LARGE), w, feed(5, k, seed))
