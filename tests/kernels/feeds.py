"""Activations for matrix kernels: f32 rows and their q8 form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.kernels.oracles.activations import Quantised, quantise


@dataclass(frozen=True)
class Feed:
    """x: f32 [T, KP], pads zero."""

    x: np.ndarray

    @cached_property
    def q8(self) -> Quantised:
        return quantise(self.x)

    def arguments(self, integer: bool) -> dict[str, np.ndarray]:
        """What a matrix kernel of either arm takes as x and xs."""
        if integer:
            return {"x": self.q8.words().reshape(-1), "xs": self.q8.pairs().reshape(-1)}
        return {"x": self.x.reshape(-1)}

    def seen(self, integer: bool) -> np.ndarray:
        """f64 [T, KP]: the activations as that arm sees them."""
        return self.q8.values() if integer else self.x.astype(np.float64)


def feed(tokens: int, k: int, seed: int) -> Feed:
    """Random rows of different sizes, with one block of zeros and one outlier where there is room."""
    rng = np.random.default_rng(seed)
    x = np.zeros((tokens, -(-k // 32) * 32), np.float32)
    x[:, :k] = rng.standard_normal((tokens, k))
    if k > 64:
        x[:, 32:64] = 0
        x[-1, k // 2] = 9
    x *= rng.uniform(0.25, 4, (tokens, 1)).astype(np.float32)
    return Feed(x)
