"""Gemv: every format and arm, odd rows and tokens, 1 to 8 tokens at once, epilogues, shards of rows."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.formats import FORMATS
from tests.kernels import rig
from tests.kernels.feeds import Feed, feed
from tests.kernels.matmul_rig import check, gemv, judge
from tests.kernels.weights import weights

# (rows, k, tokens); formats of 64 or 128 weights a block take the second list, those of 256 the third
SMALL_BLOCKS = [(1, 32, 1), (2, 96, 3), (3, 256, 2), (7, 896, 2), (63, 96, 9), (64, 32, 4), (65, 512, 1)]
MIDDLE_BLOCKS = [(1, 128, 1), (2, 384, 3), (3, 256, 2), (7, 896, 2), (63, 128, 9), (64, 128, 4), (65, 512, 1)]
LARGE_BLOCKS = [(1, 256, 1), (2, 512, 3), (3, 1024, 2), (7, 256, 9), (63, 256, 4), (64, 512, 1), (65, 256, 2)]
FLOATS = [(1, 1, 1), (2, 100, 3), (5, 33, 2)]
ARMS = [(t, i) for t, f in FORMATS.items() for i in (False, True) if f.INTEGER or not i]
# formats whose float arm is swept in the full tests: Embed and the catalogue run the same quad() in the quick ones
RARE = ("IQ3", "IQ2", "IQ1", "MXFP4", "NVFP4", "TQ", "Q1_0", "Q2_0")
SWEEP = [pytest.param(t, i, marks=[pytest.mark.full] if t.startswith(RARE) and not i else []) for t, i in ARMS]
SIZES = [f"interp{n}" for n in rig.SIZES]


def shapes(type_name: str) -> list[tuple[int, int, int]]:
    return {1: FLOATS + SMALL_BLOCKS[2:], 32: SMALL_BLOCKS, 64: MIDDLE_BLOCKS, 128: MIDDLE_BLOCKS, 256: LARGE_BLOCKS}[FORMATS[type_name].disk_elements]


def name(value) -> str | None:
    return {True: "int", False: "f32"}.get(value) if isinstance(value, bool) else None


@pytest.mark.parametrize("run", [*SIZES, "device"], indirect=True)
@pytest.mark.parametrize("type_name,integer", SWEEP, ids=name)
def test_one_token_at_a_time(run, type_name, integer, seed):
    for rows, k, tokens in shapes(type_name):
        w = weights(type_name, rows, k)
        check(run, gemv(w, integer), w, feed(tokens, k, seed))


@pytest.mark.parametrize("run", ["interp8", "interp32"], indirect=True)
@pytest.mark.parametrize("cols", range(2, 9))
@pytest.mark.parametrize("type_name,integer", [("Q8_0", True), ("Q4_K", False), ("Q6_K", True), ("BF16", False)], ids=name)
def test_several_tokens_at_once(run, cols, type_name, integer, seed):
    """Fewer tokens than columns, as many, and one more."""
    w = weights(type_name, 5, 256)
    for tokens in (1, cols - 1, cols, cols + 1):
        check(run, gemv(w, integer, cols), w, feed(tokens, 256, seed))


@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize(
    "type_name,integer,cols", [("Q8_0", True, 2), ("Q8_0", False, 2), ("Q5_0", True, 3), ("Q4_K", True, 8)], ids=name
)
def test_several_tokens_at_once_on_the_device(run, type_name, integer, cols, seed):
    w = weights(type_name, 5, 256)
    for tokens in (1, cols - 1, cols, cols + 1):
        check(run, gemv(w, integer, cols), w, feed(tokens, 256, seed))


@pytest.mark.full
@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize("cols", [2, 4, 5, 8])
@pytest.mark.parametrize("type_name,integer", ARMS, ids=name)
def test_every_format_at_every_width(run, cols, type_name, integer, seed):
    for rows, k, _ in shapes(type_name)[-3:]:
        w = weights(type_name, rows, k)
        for tokens in (cols - 1, cols, 2 * cols + 1):
            check(run, gemv(w, integer, cols), w, feed(tokens, k, seed))


@pytest.mark.parametrize("run", ["interp4", "interp32", "interp64", "device"], indirect=True)
@pytest.mark.parametrize("lanes,threads", [(1, 64), (2, 32), (4, 128), (8, 64), (16, 128), (32, 64)])
@pytest.mark.parametrize("integer", [False, True], ids=name)
def test_lanes_a_row(run, lanes, threads, integer, seed):
    """Rows of 28 blocks, of one block (most lanes have nothing to do) and of three."""
    if lanes > run.subgroup:
        pytest.skip(f"{run.name} has subgroups of {run.subgroup}")
    for k in (896, 32, 96):
        w = weights("Q4_0", 35, k)
        check(run, gemv(w, integer, 1, lanes, threads), w, feed(2, k, seed))


@pytest.mark.parametrize("run", ["interp8", "device"], indirect=True)
@pytest.mark.parametrize("bias,residual", [(True, False), (False, True), (True, True)], ids=["bias", "residual", "both"])
@pytest.mark.parametrize("type_name,integer", [("Q5_0", True), ("F16", False)], ids=name)
def test_epilogues(run, bias, residual, type_name, integer, seed):
    for rows, tokens in ((7, 3), (65, 1)):
        w = weights(type_name, rows, 96)
        check(run, gemv(w, integer, bias=bias, residual=residual), w, feed(tokens, 96, seed))


@pytest.mark.parametrize("run", ["interp32", "device"], indirect=True)
@pytest.mark.parametrize("integer", [False, True], ids=name)
def test_shards_of_rows(run, integer, seed):
    """A matrix in three pieces writes side by side what it writes at once, bit for bit."""
    whole, f = weights("Q4_K", 50, 512), feed(2, 512, seed)
    at_once = check(run, gemv(whole, integer), whole, f)
    y = rig.poisoned(3, 60)
    for first, last in ((17, 18), (18, 50), (0, 17)):
        q, s = (p.reshape(50, -1)[first:last].reshape(-1) for p in (whole.q, whole.s))
        run(gemv(whole, integer).kernel, (rig.groups(last - first, 16), 2), q=q, s=s, y=y.reshape(-1), rows=last - first, blocks=16, tokens=2,
            y_stride=60, y_col=4 + first, **f.arguments(integer))
    assert y[:2, 4:54].tobytes() == at_once.tobytes()
    assert rig.untouched(y[:, :4]) and rig.untouched(y[:2, 54:]) and rig.untouched(y[2])
    judge(y[:2, 4:54], whole.values.astype(np.float64), f, integer, 0)


@pytest.mark.parametrize("run", ["interp32", "device"], indirect=True)
@pytest.mark.parametrize("type_name,integer", [(t, i) for t, i in ARMS if FORMATS[t].disk_elements > 1], ids=name)
def test_a_row_of_one_kind(run, type_name, integer):
    """One weight at a time picks its own value out of a row: no place is read for another."""
    k = FORMATS[type_name].disk_elements
    w = weights(type_name, 3, k, seed=2)
    x = np.zeros((k, k), np.float32)
    np.fill_diagonal(x, 127)  # quantised exactly: d = 1
    check(run, gemv(w, integer), w, Feed(x))
