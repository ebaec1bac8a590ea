"""GateUp: two matrices and silu in one dispatch."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.formats import FORMATS
from tests.kernels import rig
from tests.kernels.feeds import Feed, feed
from tests.kernels.matmul_rig import check_gate_up
from tests.kernels.test_gemv import ARMS, SWEEP, name, shapes
from tests.kernels.weights import weights

SIZES = [f"interp{n}" for n in rig.SIZES]
ON_DEVICE = [("F16", False), ("Q8_0", False), ("Q4_0", True), ("Q5_0", True), ("Q8_0", True), ("Q4_K", True), ("Q5_K", True), ("Q6_K", True)]


def check(run, type_name, integer, rows, k, tokens, seed, **shape):
    gate, up = weights(type_name, rows, k, seed=3), weights(type_name, rows, k, seed=4)
    x = feed(tokens, k, seed).x / np.float32(8)  # silu's interesting part
    check_gate_up(run, gate, up, Feed(x), integer, **shape)


@pytest.mark.parametrize("run", SIZES, indirect=True)
@pytest.mark.parametrize("type_name,integer", SWEEP, ids=name)
def test_gate_up(run, type_name, integer, seed):
    for rows, k, tokens in shapes(type_name):
        check(run, type_name, integer, rows, k, tokens, seed)


@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize("type_name,integer", ON_DEVICE, ids=name)
def test_gate_up_on_the_device(run, type_name, integer, seed):
    for rows, k, tokens in shapes(type_name):
        check(run, type_name, integer, rows, k, tokens, seed)


@pytest.mark.full
@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize("type_name,integer", ARMS, ids=name)
@pytest.mark.parametrize("cols", [1, 2, 8])
def test_gate_up_everywhere(run, type_name, integer, cols, seed):
    for rows, k, _ in shapes(type_name)[-4:]:
        for tokens in (cols, cols + 1):
            check(run, type_name, integer, rows, k, tokens, seed, cols=cols)


@pytest.mark.parametrize("run", ["interp8", "interp32"], indirect=True)
@pytest.mark.parametrize("cols", range(2, 9))
@pytest.mark.parametrize("type_name,integer", [("Q5_K", True), ("Q4_0", False)], ids=name)
def test_several_tokens_at_once(run, cols, type_name, integer, seed):
    for tokens in (1, cols, cols + 1):
        check(run, type_name, integer, 5, 256, tokens, seed, cols=cols, lanes=8)


@pytest.mark.parametrize("run", ["device"], indirect=True)
def test_two_tokens_at_once_on_the_device(run, seed):
    for tokens in (1, 2, 3):
        check(run, "Q4_K", True, 5, 256, tokens, seed, cols=2)


@pytest.mark.parametrize("run", ["interp32", "device"], indirect=True)
@pytest.mark.parametrize("sign", [1, -1])
def test_large_gates(run, sign):
    """silu far from zero: exp overflows for gates below -89, and the product is 0, not NaN."""
    fmt = FORMATS["F16"]
    values = np.full((2, 32), sign * 10, np.float16)
    w = weights("F16", 2, 32, seed=5)
    big = type(w)("F16", 32, values.view(np.uint8), values.astype(np.float32), values.view(np.uint8).reshape(-1), w.s)
    assert fmt.plane_bytes()[0] == 64
    x = np.full((1, 32), 0.5, np.float32)
    y = check_gate_up(run, big, w, Feed(x), False) if sign > 0 else _gate_only(run, big, w, x)
    assert np.isfinite(y).all()


def _gate_only(run, gate, up, x):
    """The truth is e-70: relative errors say nothing, so only that it vanishes is asked."""
    from kernels.matmul import GateUp

    y = rig.poisoned(2)
    kernel = GateUp.stamp(fmt=gate.format, INT=False, LANES=4)
    run(kernel, (1, 1), q=gate.q, s=gate.s, q2=up.q, s2=up.s, y=y, rows=2, blocks=1, tokens=1, y_stride=2, y_col=0, x=x.reshape(-1))
    assert (np.abs(y) < 1e-30).all()
    return y
