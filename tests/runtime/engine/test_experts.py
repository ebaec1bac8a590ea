"""Mixture-of-experts models on the device against the float64 forward, however the prompt is fed.

Bars as in test_parity.py. Which experts serve a token is a decision: where the reference's router margin (logit of the last chosen
less the first left out) is small, rounding may choose another, so positions after a small margin are not held to the bar.
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
    """(truth, positions before the first token, in any layer, whose router margin is under `least`; all of one layer's own)."""
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
    with loaded(device, path, arm=None if arm == "int" else arm, kv=kv, **options) as executor:
        for way in ways:
            error = positions(feed(executor, TOKENS, *way), truth)
            assert error[sure].max() <= BARS[arm, kv], (way, float(error[sure].max()))


@pytest.mark.parametrize("arch", ["qwen3moe", "qwen2moe"])
def test_logits_are_those_of_the_float64_forward(device, tmp_path, arch):
    held(device, model(tmp_path, arch, (8, 2, 40)), "scalar", "f32", [(100, 100), (7, 50)])
