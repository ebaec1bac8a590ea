"""Random weights as a GGUF file holds them, and as the device does after Repack.

Blocks cover what a file may hold: random codes, scales of both signs, subnormal f16 scales, all zeros, the largest codes.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np

from kernels.formats import FORMATS
from kernels.repack import Repack
from kernels.rows import padded
from spirvdsl import f16
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

    def planes(self) -> dict[str, np.ndarray]:
        """What a kernel that reads the weights is given."""
        return {"q": self.q, "s": self.s, **codebook(self.type_name)}

    def padded_values(self) -> np.ndarray:
        """values with zero columns up to whole blocks of 32."""
        return np.pad(self.values, ((0, 0), (0, self.blocks * 32 - self.k)))


def widths(type_name: str) -> tuple[int, ...]:
    """Row lengths that a file may hold in this format, odd ones first."""
    return {1: (1, 100, 256), 32: (32, 96, 896), 64: (64, 192, 896), 128: (128, 384, 896), 256: (256, 512, 1024)}[FORMATS[type_name].disk_elements]


def scale_offsets(type_name: str) -> list[int]:
    """Byte offsets of the f16 scales in a block; none for formats of other scales and for floats."""
    disk = FORMATS[type_name].disk
    return [disk.offsets[f.name] for f in disk.fields if f.type == f16] if FORMATS[type_name].disk_elements > 1 else []


def _make_extreme(type_name: str, raw: np.ndarray, rng: np.random.Generator) -> None:
    """Some blocks of zeros, some of ones, some under subnormal scales; scales of either sign everywhere."""
    order = rng.permutation(len(raw))
    zero, full, tiny = (order[i::6] for i in range(3))
    raw[zero] = 0
    scales = [raw[full, offset : offset + 2].copy() for offset in scale_offsets(type_name)]
    raw[full] = 0xFF
    for offset, old in zip(scale_offsets(type_name), scales, strict=True):
        raw[full, offset : offset + 2] = old
        raw[tiny, offset : offset + 2] = rng.integers(1, 0x400, len(tiny)).astype("<u2").view(np.uint8).reshape(-1, 2)
        raw[:, offset + 1] ^= rng.choice(np.array([0, 0x80], np.uint8), len(raw))


def raw_rows(type_name: str, rows: int, k: int, seed: int = 0) -> np.ndarray:
    """u8 [rows, bytes of a row] of random weights; where there are six blocks or more, some of every extreme kind."""
    rng = np.random.default_rng([zlib.crc32(type_name.encode()), rows, k, seed])
    fmt = FORMATS[type_name]
    blocks = rows * k // fmt.disk_elements
    kinds = generators.EXTREMES if blocks >= 6 else ()
    raw = np.ascontiguousarray(generators.weight(type_name, (rows, k), 1.0, rng, kinds)).view(np.uint8)
    raw = raw.reshape(blocks, -1)
    if blocks >= 6 and scale_offsets(type_name):
        _make_extreme(type_name, raw, rng)
    return raw.reshape(rows, -1)


def codebook(type_name: str) -> dict[str, np.ndarray]:
    """The argument that kernels of a format with a codebook take besides the planes."""
    words = FORMATS[type_name].CODEBOOK
    return {"codebook": np.array(words, np.uint16)} if words else {}


def planes(type_name: str, rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Poisoned planes for so many rows."""
    fmt = FORMATS[type_name]
    elements = rows * padded(k) // fmt.elements
    q, s = (rig.poisoned(elements * size, dtype=np.uint8) for size in fmt.plane_bytes())
    return q, s


def half_words(raw: np.ndarray) -> np.ndarray:
    """Bytes as Repack takes them, u16; a last odd one has a poisoned neighbour."""
    return np.pad(raw.reshape(-1), (0, raw.size % 2), constant_values=0xDE).view(np.uint16)


def repack(run: rig.Runner, type_name: str, raw: np.ndarray, k: int, q: np.ndarray, s: np.ndarray, row0: int = 0) -> None:
    """Writes the rows of `raw` into the planes, from row row0 on."""
    rows, blocks = len(raw), padded(k) // 32
    run(Repack[FORMATS[type_name]], rig.groups(rows * blocks, 64), raw=half_words(raw), q=q, s=s, row0=row0, rows=rows,
        k=k, blocks=blocks, row_bytes=raw.shape[1])


@cache
def weights(type_name: str, rows: int, k: int, seed: int = 0) -> Weights:
    """The same weights for the same arguments. Do not write to the arrays."""
    raw = raw_rows(type_name, rows, k, seed)
    q, s = planes(type_name, rows, k)
    repack(rig.interpreter(32), type_name, raw, k, q, s)
    made = Weights(type_name, k, raw, dequantise(type_name, raw, k), q, s)
    for array in (made.raw, made.values, made.q, made.s):
        array.flags.writeable = False
    return made
