"""Logits of random models, however the prompt is fed, against the float64 forward, by the rule of tests/reference/parity.py.

Bars, relative rms of the worst position. f32 cache, scalar arm: the rule says 2e-3, we hold 2e-5 (lavapipe shows 4e-7), so
that a small mistake cannot hide. f16 cache, scalar arm: the rule's 2e-3 holds too (2e-4 is seen), since a half keeps 11 bits of
keys and values and the residual stream stays f32. int arm: 2.5e-2, for its activations have 8 bits; the rest of its error
must be far smaller, which a float64 forward with such activations shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from kernels.formats import FORMATS
from runtime.gguf import open_gguf
from runtime.models import read_model
from tests.models.blocks import EXTREMES
from tests.models.build import make_model
from tests.reference.forward import forward
from tests.reference.parity import assert_parity, int8_failures, measure
from tests.runtime.engine.rig import FEW_BITS, INTEGERS, MIXED, SERVED, TOKENS, distance, feed, loaded, positions
from tests.runtime.models.oplist import Rounded

BARS = {("scalar", "f32"): 2e-5, ("scalar", "f16"): 2e-3, ("int", "f32"): 2.5e-2, ("int", "f16"): 2.5e-2}
# How far two ways to feed a prompt may be apart: other sums of f32, a half or an int8 that rounds the other way.
AGREE = {("scalar", "f32"): 5e-6, ("scalar", "f16"): 5e-4, ("int", "f32"): 2e-2, ("int", "f16"): 2e-2}
# name -> (prefill window, tokens that are prefilled)
WAYS = {
    "at once": (100, 100),
    "windows of 33": (33, 100),
    "windows of 32": (32, 100),
    "windows of 7": (7, 100),
    "windows of 1": (1, 100),
    "token by token": (100, 0),
    "half by half": (32, 50),
    "all but one": (100, 99),
}


@dataclass(frozen=True)
class Case:
    """A random model and how it is run."""

    spec: dict
    arm: str
    kv: str
    plan: dict = field(default_factory=dict)


YARN = {"type": "yarn", "factor": 4.0, "original_context": 64}
WIDE = {"d": 256, "ff": 512}
CASES = {
    "qwen3, every type, heads of 24": Case({**WIDE, "arch": "qwen3", "head_dim": 24, "types": MIXED}, "scalar", "f32"),
    "qwen2, every integer type, tied": Case({**WIDE, "arch": "qwen2", "tied": True, "types": INTEGERS}, "int", "f16"),
    "qwen3, codebooks and four-bit floats": Case({**WIDE, "arch": "qwen3", "types": FEW_BITS}, "int", "f16"),
    "qwen3, one kv head of 10, yarn": Case({"arch": "qwen3", "heads": 6, "kv_heads": 1, "head_dim": 10, "rope_scaling": YARN}, "scalar", "f16", {"splits": 3}),
    "qwen2, F32, linear": Case({"arch": "qwen2", "rope_scaling": {"type": "linear", "factor": 3.0}}, "scalar", "f32"),
}
HOMES = ({"arch": "qwen3", "head_dim": 64, "kv_heads": 1}, {"arch": "qwen2", "tied": True})  # types take turns in them
ODD = {"d": 96, "ff": 160}  # no power of two, and the K types do not fit
WIDER = {
    **{f"{kind}, scalar": Case({**WIDE, **HOMES[i % 2], "types": kind, "extremes": EXTREMES}, "scalar", "f32") for i, kind in enumerate(SERVED)},
    **{f"{kind}, int": Case({**WIDE, **HOMES[i % 2], "types": kind}, "int", "f16") for i, kind in enumerate(SERVED) if FORMATS[kind].INTEGER},
    "rows of 896, Q5_0 and Q8_0": Case({"arch": "qwen2", "d": 896, "heads": 14, "kv_heads": 2, "ff": 1184, "types": {"default": "Q5_0", "ffn_down": "Q8_0"}}, "int", "f16"),
    "rows of 40, F16": Case({"arch": "qwen3", "d": 40, "ff": 72, "heads": 2, "kv_heads": 1, "head_dim": 20, "types": "F16"}, "scalar", "f32"),
    "rows of 40, BF16 and F32": Case({"arch": "qwen3", "d": 40, "ff": 72, "heads": 2, "kv_heads": 1, "head_dim": 20, "types": {"default": "BF16", "output": "F32"}}, "scalar", "f32"),
    "odd rows, Q4_0": Case({**ODD, "arch": "qwen3", "heads": 3, "kv_heads": 3, "head_dim": 32, "types": "Q4_0"}, "int", "f16"),
    "heads of 128, groups of 4": Case({"arch": "qwen3", "d": 128, "heads": 8, "kv_heads": 2, "head_dim": 128}, "scalar", "f16"),
    "groups of 7": Case({"arch": "qwen2", "d": 224, "heads": 14, "kv_heads": 2, "rope_base": 1e6}, "scalar", "f32"),
    "heads of 2": Case({"arch": "qwen3", "heads": 4, "kv_heads": 4, "head_dim": 2}, "scalar", "f32"),
    "yarn, its own betas": Case({"arch": "qwen3", "head_dim": 32, "rope_scaling": {**YARN, "beta_fast": 8.0, "beta_slow": 2.0, "attn_factor": 0.7}}, "scalar", "f32"),
    "yarn without a ramp": Case({"arch": "qwen2", "rope_scaling": {**YARN, "ext_factor": 0.0}}, "scalar", "f32"),
    "a large epsilon": Case({"arch": "qwen3", "kv_heads": 4, "eps": 1e-2, "rope_base": 1e6}, "scalar", "f32"),
    "q, k and v of different types": Case({**WIDE, "arch": "qwen2", "types": {"default": "Q8_0", "attn_v": "Q6_K", "ffn_up": "Q4_0"}}, "int", "f16"),
    "q, k and v of different types, scalar": Case({**WIDE, "arch": "qwen2", "types": {"default": "Q8_0", "attn_v": "Q6_K", "ffn_up": "Q4_0"}}, "scalar", "f32"),
    "split context, int": Case({**WIDE, "arch": "qwen3", "types": "Q8_0"}, "int", "f16", {"splits": 5}),
    "split context, more parts than pages": Case({"arch": "qwen2"}, "scalar", "f32", {"splits": 16}),
    "as on a GPU, F32": Case({"arch": "qwen2"}, "scalar", "f32", {"as_gpu": True}),
    "as on a GPU, Q4_K": Case({**WIDE, "arch": "qwen3", "types": "Q4_K"}, "int", "f16", {"as_gpu": True}),
    "the device's own choice of arms": Case({**WIDE, "arch": "qwen3", "types": MIXED}, "", "f16"),
}


class Judged:
    """A case on the device, the truth about it, and what it has answered so far."""

    def __init__(self, case: Case, executor, path):
        self.case, self.executor, self.path, self.truth = case, executor, path, forward(path, TOKENS)
        arms = {p.arm for p in executor.plan.planes}
        self.key = ("int" if "int" in arms else "scalar", case.kv)
        assert not case.arm or arms == {case.arm}
        self._logits: dict[str, np.ndarray] = {}

    def logits(self, way: str) -> np.ndarray:
        if way not in self._logits:
            self._logits[way] = feed(self.executor, TOKENS, *WAYS[way])
        return self._logits[way]


@pytest.fixture(scope="module", params=[*CASES, *(pytest.param(name, marks=pytest.mark.full) for name in WIDER)])
def judged(request, device, tmp_path_factory):
    case = (CASES | WIDER)[request.param]
    path = make_model(tmp_path_factory.mktemp("parity") / "m.gguf", seed=9, **case.spec)
    with loaded(device, path, kv=case.kv, arm=case.arm or None, **case.plan) as executor:
        yield Judged(case, executor, path)


@pytest.mark.parametrize("way", WAYS)
def test_logits_are_those_of_the_float64_forward(judged, way):
    ours, bar = judged.logits(way), BARS[judged.key]
    if judged.key[0] == "scalar":
        assert_parity(ours, judged.truth, bar)
        return
    report = measure(ours, judged.truth, bar, 0.15)
    assert not int8_failures(report, ours, judged.truth), str(report)


def test_all_ways_agree(judged):
    first = judged.logits("at once")
    apart = {way: distance(judged.logits(way), first) for way in WAYS}
    assert max(apart.values()) <= AGREE[judged.key], apart


def test_the_last_position_alone(judged):
    """Without --all the head sees one row, and windows before the last none."""
    last = feed(judged.executor, TOKENS, 32, every=False)
    assert last.shape == (1, judged.truth.shape[1])
    assert distance(last, judged.logits("windows of 32")[-1:]) <= AGREE[judged.key]


def test_the_error_is_that_of_the_number_formats_alone(judged):
    """A float64 forward with 8-bit activations and a cache of halves, where we have them, is much nearer to us than the truth.
    Not equal everywhere: numbers near the middle may round the other way."""
    with open_gguf(judged.path) as file:
        exact = Rounded(read_model(file), judged.key[0] == "int", {"f16": np.float16, "f32": np.float32}[judged.key[1]])
        alone = [distance(feed(judged.executor, [t]), exact.logits([t])) for t in TOKENS[:8]]  # a token that no other one can spoil
        ideal = exact.logits(TOKENS)
    assert min(alone) <= 2e-6
    if judged.key != ("scalar", "f32"):
        assert np.median(positions(judged.logits("at once"), ideal)) <= 0.95 * np.median(positions(ideal, judged.truth))


def test_the_same_way_twice_gives_the_same_bits(judged):
    assert np.array_equal(feed(judged.executor, TOKENS, *WAYS["half by half"]), judged.logits("half by half"))
