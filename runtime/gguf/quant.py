"""Dequantising on the host, for tests and small tensors: PyPI gguf's numpy decoders behind a checked call, and those it lacks."""

from __future__ import annotations

import numpy as np
from gguf import GGMLQuantizationType, quants

from runtime.gguf.errors import GGUFError
from runtime.gguf.layout import TYPES_BY_NAME

_RAW = {"I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "F64": "<f8"}
_CODES = {"Q1_0": (1, 2, -1), "Q2_0": (2, 1, -1)}  # bits of a code c, and what makes c * factor + offset of it: blocks of d f16 and 16 bytes


def dequantize(type_name: str, raw: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The values of a tensor: `raw` u8 [bytes] as GGUFFile.data gives it, `shape` in numpy order -> f32 of that shape.

    Raises GGUFError for an unknown type, for one that PyPI gguf does not decode, and for raw bytes that do not
    fill the shape.
    """
    kind = TYPES_BY_NAME.get(type_name)
    if kind is None:
        raise GGUFError("dequantize", f"type {type_name!r}", "is no GGUF tensor type", "use a type name such as 'Q4_K'")
    elements, size = kind.elements, kind.size
    if shape[-1] % elements or int(np.prod(shape, dtype=np.int64)) // elements * size != raw.nbytes:
        raise GGUFError(
            "dequantize",
            type_name,
            f"{raw.nbytes} bytes do not make shape {tuple(shape)}",
            "pass the tensor's own data and shape",
        )
    if type_name in _RAW:
        return raw.view(_RAW[type_name]).reshape(shape).astype(np.float32)
    rows = raw.reshape(*shape[:-1], shape[-1] // elements * size)
    if type_name in _CODES:
        return _plain_codes(rows.reshape(-1, size), *_CODES[type_name]).reshape(shape)
    try:
        return quants.dequantize(rows, GGMLQuantizationType[type_name]).reshape(shape)
    except NotImplementedError:
        raise GGUFError(
            "dequantize", type_name, "PyPI gguf has no decoder for it", "convert the tensor to another type"
        ) from None


def _plain_codes(blocks: np.ndarray, bits: int, factor: int, offset: int) -> np.ndarray:
    """u8 [n, 18] -> f32 [n, 128 / bits]: codes lie in the order of the weights, the first in the lowest bits."""
    d = blocks[:, :2].copy().view("<f2").astype(np.float32)
    codes = (blocks[:, 2:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8(2**bits - 1)
    return d * (codes.reshape(len(blocks), -1).astype(np.float32) * factor + offset)
