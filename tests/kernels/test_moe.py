"""Routing and expert products against numpy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.moe import ExpertDown, ExpertGateUp, GateScale, Route
from tests.kernels import rig
from tests.kernels.feeds import Feed, feed
from tests.kernels.oracles.activations import silu
from tests.kernels.test_gemv import name
from tests.kernels.weights import weights

RUNS = [*(f"interp{n}" for n in rig.SIZES), "device"]
SHAPES = [(4, 1), (8, 8), (60, 4), (128, 8), (256, 8), (512, 10), (1, 1), (64, 16)]


def choose(run, logits, used, norm):
    """(experts, weights) [T, used] of the kernel, from rows that are padded with numbers which would win."""
    t, n = logits.shape
    padded = np.full((t, n + 3), 1e30, np.float32)
    padded[:, :n] = logits
    out = rig.poisoned(t + 1, used, 2, dtype=np.uint32)
    run(Route[norm], (t,), logits=padded.reshape(-1), route=out.reshape(-1), experts=n, used=used, stride=n + 3)
    assert rig.untouched(out[t])
    return out[:t, :, 0], out[:t, :, 1].copy().view(np.float32)


def check_route(run, logits, used, norm):
    experts, w = choose(run, logits, used, norm)
    wide = logits.astype(np.float64)
    order = np.argsort(-wide, 1, kind="stable")[:, :used]
    p = np.exp(wide - wide.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    truth = np.take_along_axis(p, order, 1)
    truth = truth / truth.sum(1, keepdims=True) if norm else truth
    assert np.array_equal(experts, order)
    np.testing.assert_allclose(w, truth, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize("run", RUNS, indirect=True)
@pytest.mark.parametrize("experts,used", SHAPES)
def test_route(run, experts, used):
    rng = np.random.default_rng(experts)
    logits = (rng.standard_normal((3, experts)) * 3).astype(np.float32)
    for norm in (True, False):
        check_route(run, logits, used, norm)


@pytest.mark.parametrize("run", RUNS, indirect=True)
def test_ties_go_to_the_lower_index(run):
    few = np.random.default_rng(1).integers(-1, 2, (4, 130)).astype(np.float32)
    few[0], few[1], few[2, ::2] = 0, -5e4, -0.0
    for norm in (True, False):
        check_route(run, few, 8, norm)


@pytest.mark.parametrize("run", RUNS, indirect=True)
def test_an_expert_is_chosen_once_even_among_infinities(run):
    logits = np.full((1, 70), -np.inf, np.float32)
    logits[0, 69] = 2
    experts, w = choose(run, logits, 4, True)
    assert experts.tolist() == [[69, 0, 1, 2]] and w.tolist() == [[1, 0, 0, 0]]


def scene(type_name, used, spread, seed):
    """Route u32 [T, used, 2] over six experts of which the shard holds 1 to 4. spread: random, or all tokens to expert 2."""
    rng = np.random.default_rng(seed)
    chosen = np.stack([rng.permutation(6)[:used] for _ in range(5)]) if spread else np.full((5, used), 2)
    w = rng.uniform(0.05, 1, (5, used)).astype(np.float32)
    return chosen, w, np.stack([chosen.astype(np.uint32), w.view(np.uint32)], -1).reshape(-1)


def stamp(template, w, integer, lanes):
    return template.stamp(fmt=w.format, INT=integer, LANES=lanes)


FORMS = [("F32", False), ("F16", False), ("Q8_0", True), ("Q4_K", True), ("Q6_K", False), ("IQ2_XS", True)]


@pytest.mark.parametrize("run", ["interp8", "interp32", "device"], indirect=True)
@pytest.mark.parametrize("spread", [True, False], ids=["random", "one expert"])
@pytest.mark.parametrize("type_name,integer", FORMS, ids=name)
def test_experts(run, type_name, integer, spread):
    rows, k, used = 19, 256, 3
    gate, up = weights(type_name, 4 * rows, k, seed=3), weights(type_name, 4 * rows, k, seed=4)
    chosen, weight, route = scene(type_name, used, spread, 5)
    mine = (chosen >= 1) & (chosen < 5)
    wide = [m.padded_values().astype(np.float64).reshape(4, rows, -1)[np.clip(chosen - 1, 0, 3)] for m in (gate, up)]
    push = {"rows": rows, "blocks": gate.blocks, "used": used, "expert0": 1, "experts": 4, "route": route}

    f = Feed(feed(5, k, 6).x / np.float32(8))
    x = f.seen(integer)
    y = rig.poisoned(5, used, 24)
    kernel = stamp(ExpertGateUp, gate, integer, 4)
    run(kernel, (rig.groups(rows, 16), 5 * used), **gate.planes(), q2=up.q, s2=up.s, y=y.reshape(-1), tokens=5, y_stride=24, **push, **f.arguments(integer))
    g, u = (np.einsum("tsrk,tk->tsr", m, x) for m in wide)
    assert rig.untouched(y[..., rows:].copy()) and rig.untouched(y[~mine].copy()), "pads and other shards' pairs stay"
    assert rig.rel_rms(y[mine][:, :rows], (silu(g) * u)[mine]) <= 2e-5

    f = feed(5 * used, k, 7)
    x = f.seen(integer).reshape(5, used, -1)
    old = np.random.default_rng(8).standard_normal((5, 24)).astype(np.float32)
    y = old.copy()
    kernel = stamp(ExpertDown, gate, integer, 4)
    run(kernel, (rig.groups(rows, 16), 5), **gate.planes(), y=y.reshape(-1), tokens=5 * used, y_stride=24, **push, **f.arguments(integer))
    added = (np.einsum("tsrk,tsk->tsr", wide[0], x) * (weight * mine)[..., None]).sum(1)
    assert np.array_equal(y[:, rows:], old[:, rows:])
    assert rig.rel_rms(y[:, :rows], old[:, :rows] + added) <= 2e-6


@pytest.mark.parametrize("run", RUNS, indirect=True)
def test_gate_scale(run):
    rng = np.random.default_rng(9)
    h, w, m = (rng.standard_normal(s).astype(np.float32) for s in ((3, 96), (96,), (3, 160)))
    w *= np.float32(0.2)
    h[2] *= np.float32(1e4)  # gates far from zero: 0 or 1, never NaN
    y = m.copy()
    run(GateScale.stamp(), (3,), h=h.reshape(-1), weight=w, m=y.reshape(-1), blocks=3, m_blocks=5)
    with np.errstate(over="ignore"):
        truth = m / (1 + np.exp(-(h.astype(np.float64) @ w.astype(np.float64))))[:, None]
    np.testing.assert_allclose(y, truth, rtol=1e-4, atol=1e-30)
