"""Dequantising on the host, for tests and small tensors: PyPI gguf's numpy decoders behind a checked call."""

from __future__ import annotations

import numpy as np
from gguf import GGMLQuantizationType, quants

from runtime.gguf.errors import GGUFError
from runtime.gguf.layout import BLOCKS

_RAW = {"I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "F64": "<f8"}


def dequantize(type_name: str, raw: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The values of a tensor: `raw` u8 [bytes] as GGUFFile.data gives it, `shape` in numpy order -> f32 of that shape.

    Raises GGUFError for an unknown type, for one that PyPI gguf does not decode, and for raw bytes that do not
    fill the shape.
    """
    kind = GGMLQuantizationType.__members__.get(type_name)
    if kind is None:
        raise GGUFError("dequantize", f"type {type_name!r}", "is no GGUF tensor type", "use a type name such as 'Q4_K'")
    elements, size = BLOCKS[kind]
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
    try:
        return quants.dequantize(rows, kind).reshape(shape)
    except NotImplementedError:
        raise GGUFError(
            "dequantize", type_name, "PyPI gguf has no decoder for it", "convert the tensor to another type"
        ) from None
