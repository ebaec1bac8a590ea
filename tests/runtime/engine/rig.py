"""Models on a device for tests: loaded through the product's own plan, with poison where nothing may be read."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kernels.formats import FORMATS
from runtime.engine.engine import free_bytes
from runtime.engine.executor import Executor
from runtime.eval import logits_of
from runtime.gguf import open_gguf
from runtime.models import read_model
from runtime.plan import make_plan
from runtime.plan.residency import scratch_bytes
from tests.models.blocks import TYPES
from tests.models.build import ROLES, make_model

ROOT = Path(__file__).resolve().parents[3]
EMBEDDED = ROOT / "runtime/data/tiny-qwen3.gguf"
NAN = 0x7FC07FC0  # NaN as one f32 and as two f16
TOKENS = [int(t) for t in np.random.default_rng(2).integers(0, 320, 100)]
# The embedded model's shapes, and so its kernels, with one layer of random weights: a step takes a millisecond.
SMALL = {"arch": "qwen3", "n_layer": 1, "d": 256, "ff": 768, "heads": 4, "kv_heads": 2, "head_dim": 64, "tied": True, "types": "Q8_0"}
SERVED = [kind for kind in TYPES if kind in FORMATS]
NINE = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_0", "Q4_K", "Q5_K", "Q6_K")  # as many as there are roles
MIXED = dict(zip(ROLES, NINE))
FEW_BITS = dict(zip(ROLES, ("IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_S", "IQ1_M", "MXFP4", "NVFP4")))
INTEGERS = dict(zip(ROLES, (*NINE[3:], *NINE[3:6])))


@contextlib.contextmanager
def loaded(device, path, *, ctx: int = 256, window: int = 100, poison: bool = True, splits: int | None = None, as_gpu: bool = False, **options) -> Iterator[Executor]:
    """An Executor whose cache is full of NaN; `window` rows and as many rows of logits at most.

    splits: into so many parts decode attention divides the context. as_gpu: planned and lowered as for a device that is no CPU.
    """
    real = device.caps
    if as_gpu:
        device.caps = dataclasses.replace(real, type="integrated")
    try:
        with open_gguf(path) as file:
            plan = make_plan(read_model(file), device.caps, free_bytes(device), ctx=ctx, window=window, logit_rows=window, **options)
            if splits:
                plan = dataclasses.replace(plan, splits=splits, scratch=scratch_bytes(plan.model, window, splits, window, plan.pages))
            executor = Executor(device, plan)
            if poison:
                poison_cache(executor)
            yield executor
            executor.wait()
    finally:
        device.caps = real


def poison_cache(executor: Executor) -> None:
    """NaN for every key and value."""
    with executor.device.commands(reusable=False) as commands:
        for layer in range(executor.config.n_layer):
            for side in "kv":
                commands.fill(executor.names[f"{side}{layer}"], NAN)
    executor.device.wait(executor.device.submit(commands))


def feed(executor: Executor, tokens: list[int], window: int | None = None, split: int | None = None, every: bool = True) -> np.ndarray:
    """What `runtime.eval logits` computes: `split` tokens in windows, the rest one by one. Pages in random order."""
    random.Random(len(tokens)).shuffle(executor.pages._free)
    whole = executor.plan
    executor.plan = dataclasses.replace(whole, window=window or whole.window)
    try:
        return logits_of(executor, tokens, len(tokens) if split is None else split, every)
    finally:
        executor.plan = whole


def positions(ours: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Each position's rms difference, relative to `other`."""
    ours, other = ours.astype(np.float64), other.astype(np.float64)
    return np.sqrt(((ours - other) ** 2).mean(1) / (other**2).mean(1))


def distance(ours: np.ndarray, other: np.ndarray) -> float:
    """The worst position's."""
    return float(positions(ours, other).max())


def small_model(directory, **changes) -> Path:
    """SMALL with changes."""
    return make_model(Path(directory) / "small.gguf", **(SMALL | {"seed": 31, "ctx": 2048, "vocab": 320} | changes))
