"""Random weights as a GGUF file holds them, and as the device does after Repack.

Blocks cover what a file may hold: random codes, scales of both signs, subnormal f16 scales, all zeros, the largest codes.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kernels.formats import FORMATS
from kernels.repack import Repack
from kernels.rows import padded
from tests.kernels import rig
from tests.kernels.oracles.formats import dequantise
from tests.models import blocks as generators


@dataclass(frozen=True)
class Weights:
    """raw: u8 [rows, row bytes]; values: f32 [rows, k], by gguf; q, s: the device planes as bytes."""

    type_name: str
    k: int
    raw: np.ndarray
    values: np.ndarray
    q: np.ndarray
    s: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.raw)

    @property
    def blocks(self) -> int:
        return padded(self.k) // 32

    @property
    def format(self):
        return FORMATS[self.type_name]

    def padded_values(self) -> np.ndarray:
        """values with zero columns up to whole blocks of 32."""
        return np.pad(self.values, ((0, 0), (0, self.blocks * 32 - self.k)))


def raw_rows(type_name: str, rows: int, k: int, seed: int = 0, extremes: bool = True) -> np.ndarray:
    """u8 [rows, bytes of a row] of random weights, near unit variance; extremes: where there are six blocks or more."""
    rng = np.random.default_rng([zlib.crc32(type_name.encode()), rows, k, seed])
    extremes = extremes and rows * k // generators.block_size(type_name)[0] >= 6  # blocks: some of each kind
    kinds = generators.EXTREMES if extremes else ()
    raw = generators.weight(type_name, (rows, k), 1.0, rng, kinds)
    raw = np.ascontiguousarray(raw).view(np.uint8).reshape(rows, -1)
    if extremes and type_name in generators.SCALES:
        size = generators.block_size(type_name)[1]
        all_blocks = raw.reshape(-1, size)
        for offset in generators.SCALES[type_name]:
            all_blocks[:, offset + 1] ^= rng.choice(np.array([0, 0x80], np.uint8), len(all_blocks))  # either sign
    return raw


def planes(type_name: str, rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Poisoned planes for so many rows."""
    fmt = FORMATS[type_name]
    elements = rows * padded(k) // fmt.elements
    q, s = (rig.poisoned(elements * size, dtype=np.uint8) for size in fmt.plane_bytes())
    return q, s


def repack(run: rig.Runner, type_name: str, raw: np.ndarray, k: int, q: np.ndarray, s: np.ndarray, row0: int = 0) -> None:
    """Writes the rows of `raw` into the planes, from row row0 on."""
    rows, blocks = len(raw), padded(k) // 32
    run(Repack[FORMATS[type_name]], rig.groups(rows * blocks, 64), raw=raw.reshape(-1).view(np.uint16), q=q, s=s, row0=row0, rows=rows,
        k=k, blocks=blocks, row_bytes=raw.shape[1])


@lru_cache(maxsize=None)
def weights(type_name: str, rows: int, k: int, seed: int = 0, extremes: bool = True) -> Weights:
    """The same weights for the same arguments. Do not write to the arrays."""
    raw = raw_rows(type_name, rows, k, seed, extremes)
    q, s = planes(type_name, rows, k)
    repack(rig.interpreter(32), type_name, raw, k, q, s)
    made = Weights(type_name, k, raw, dequantise(type_name, raw, k), q, s)
    for array in (made.raw, made.values, made.q, made.s):
        array.flags.writeable = False
    return made
