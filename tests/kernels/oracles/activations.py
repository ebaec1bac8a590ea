"""The q8 form of activations: one scale and two integer sums for 32 values, ints round(x / d) with d = amax / 127."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Quantised:
    """ints: i8 [T, KP]; scales: f32 [T, KP / 32]."""

    ints: np.ndarray
    scales: np.ndarray

    def words(self) -> np.ndarray:
        """u32 [T, KP / 4], lane 0 lowest."""
        return np.ascontiguousarray(self.ints).view("<u4")

    def sums(self) -> np.ndarray:
        """i64 [T, KP / 32, 2]: of ints 0-15 and of 16-31 of each block."""
        return self.ints.astype(np.int64).reshape(len(self.ints), -1, 2, 16).sum(-1)

    def pairs(self) -> np.ndarray:
        """u32 [T, KP / 32, 2]: the bits of the scale, then both sums as i16, the first one low."""
        sums = self.sums().astype(np.int16).view(np.uint16).astype(np.uint32)
        return np.stack([self.scales.view(np.uint32), sums[..., 0] | sums[..., 1] << np.uint32(16)], -1)

    def values(self) -> np.ndarray:
        """f64 [T, KP]: what the ints and scales stand for."""
        blocks = self.ints.astype(np.float64).reshape(*self.scales.shape, 32)
        return (blocks * self.scales.astype(np.float64)[..., None]).reshape(self.ints.shape)


def quantise(x: np.ndarray) -> Quantised:
    """f32 [T, KP], KP a multiple of 32. Ties go to the even int."""
    blocks = x.astype(np.float32).reshape(len(x), -1, 32)
    scales = (np.abs(blocks).max(-1) / np.float32(127)).astype(np.float32)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.where(scales >= np.finfo(np.float32).tiny, np.float32(1) / scales, np.float32(0)).astype(np.float32)
    ints = np.rint(blocks * inverse[..., None]).astype(np.int8)
    return Quantised(ints.reshape(x.shape), scales)


def unpack(words: np.ndarray, pairs: np.ndarray) -> Quantised:
    """The same record from a kernel's words u32 [T, KP / 4] and pairs u32 [T, KP / 32, 2]."""
    ints = np.ascontiguousarray(words).view(np.int8).reshape(len(words), -1)
    return Quantised(ints, np.ascontiguousarray(pairs[..., 0]).view(np.float32))


def silu(x: np.ndarray) -> np.ndarray:
    """x * sigmoid(x) in f64."""
    x = np.asarray(x, np.float64)
    return x * np.exp(-np.logaddexp(0, -x))
