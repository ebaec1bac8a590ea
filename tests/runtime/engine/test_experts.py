"""Mixture-of-experts models on the device against the float64 forward, however the prompt is fed.

Bars as in test_parity.py. Which experts serve a token is a decision: where the reference's router margin (logit of the last chosen
less the first left out) is small, rounding may choose another, so these positions are not held to the bar; with one layer, no other position sees it.
"""

from __future__ import annotations

import numpy as np
import pytest

from runtime.gguf import open_gguf
from runtime.models import read_model
from runtime.plan import make_plan
from tests.models.build import make_model
from tests.reference.forward import forward
from tests.runtime.engine.rig import TOKENS, feed, loaded, positions

BARS = {("scalar", "f32"): 2e-5, ("scalar", "f16"): 2e-3, ("int", "f32"): 2.5e-2}
LEAST = {"scalar": 1e-3, "int": 0.1}  # router margins, in logits, under which rounding may decide: over six times what it adds
WAYS = ((100, 100), (33, 100), (32, 100), (31, 100), (7, 100), (1, 100), (64, 50), (100, 0))
SHAPES = {"4x1": (4, 1, 32), "8x8": (8, 8, 64), "60x4": (60, 4, 40), "128x8": (128, 8, 32)}


def model(directory, arch, experts, types="F32", **more):
    return make_model(directory / "moe.gguf", arch, n_layer=more.pop("n_layer", 1), experts=experts, ff=96, seed=5, types=types, **more)


def decided(path, tokens, least) -> tuple[np.ndarray, np.ndarray]:
    """(truth, which positions have a router margin of `least` or more)."""
    seen: dict = {}
    truth = forward(path, tokens, seen)
    sure = np.ones(len(tokens), bool)
    for name, probs in seen.items():
        if name.endswith("ffn_probs"):
            used = seen[name.replace("probs", "experts")].shape[1]
            ordered = np.log(np.sort(probs, 1)[:, ::-1])
            if used < probs.shape[1]:
                sure &= ordered[:, used - 1] - ordered[:, used] >= least
    return truth, sure  # one layer: a token's experts change no other token's keys


def held(device, path, arm, kv, ways, **options):
    truth, sure = decided(path, TOKENS, LEAST[arm])
    assert sure.mean() > 0.5, "most tokens must be judged"
    with loaded(device, path, arm=arm, kv=kv, **options) as executor:
        arms = {p.arm for p in executor.plan.planes if not p.name.endswith("ffn_gate_inp.weight")}
        assert arms == {arm}
        for way in ways:
            error = positions(feed(executor, TOKENS, *way), truth)
            assert error[sure].max() <= BARS[arm, kv], (way, float(error[sure].max()))


@pytest.mark.parametrize("arch", ["qwen3moe", "qwen2moe"])
def test_logits_are_those_of_the_float64_forward(device, tmp_path, arch):
    held(device, model(tmp_path, arch, (8, 2, 40)), "scalar", "f32", [(100, 100), (7, 50)])


@pytest.mark.parametrize("router", ["F32", "Q8_0"])
def test_int_arm(device, tmp_path, router):
    """A router in integers leaves the gate of the shared expert alone in reading f32 activations."""
    types = {"default": "Q8_0", "ffn_down_exps": "Q5_0", "ffn_gate_inp": router}
    held(device, model(tmp_path, "qwen2moe", (8, 2, 64), types), "int", "f32", [(100, 100), (100, 0)])


@pytest.mark.parametrize("window", [1, 32])
def test_experts_in_shards(device, tmp_path, window):
    """1 MiB a binding: the stacked experts of 8 x 256 x 256 floats take 2 MiB, so that each token meets experts of several shards."""
    path = model(tmp_path, "qwen3moe", (8, 3, 256), d=256)
    with open_gguf(path) as file:
        planes = make_plan(read_model(file), device.caps, 1 << 30, ctx=256, max_alloc_mib=1).planes
    shards = {p.name: p.shards for p in planes}["blk.0.ffn_gate_exps.weight"]
    assert len(shards) > 1 and all(row % 256 == 0 and rows % 256 == 0 for row, rows in shards)
    held(device, path, "scalar", "f32", [(window, 100)], max_alloc_mib=1)


@pytest.mark.full
@pytest.mark.parametrize("experts", SHAPES)
@pytest.mark.parametrize("arch", ["qwen3moe", "qwen2moe"])
def test_every_way_to_feed(device, tmp_path, arch, experts):
    held(device, model(tmp_path, arch, SHAPES[experts]), "scalar", "f32", WAYS)


@pytest.mark.full
@pytest.mark.parametrize("arch", ["qwen3moe", "qwen2moe"])
def test_as_on_a_gpu(device, tmp_path, arch):
    """Several lanes a row, tiles for the plain matrices, context splits."""
    held(device, model(tmp_path, arch, (60, 4, 40), "F16"), "scalar", "f16", WAYS, as_gpu=True, splits=3)


@pytest.mark.full
@pytest.mark.parametrize("arch", ["qwen3moe", "qwen2moe"])
def test_int_as_on_a_gpu(device, tmp_path, arch):
    held(device, model(tmp_path, arch, (8, 2, 64), "Q8_0"), "int", "f32", WAYS, as_gpu=True, splits=3)
