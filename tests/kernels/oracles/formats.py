"""Dequantised weights, by PyPI gguf's own numpy code, and by ggml's block structs for the two types that it does not decode."""

from __future__ import annotations

import numpy as np
from gguf import GGMLQuantizationType, quants


def dequantise(type_name: str, raw: np.ndarray, k: int) -> np.ndarray:
    """u8 [rows, bytes of a row] -> f32 [rows, k]."""
    rows = len(raw)
    raw = np.ascontiguousarray(raw)
    if type_name in ("F32", "F16"):
        return raw.view({"F32": "<f4", "F16": "<f2"}[type_name]).astype(np.float32).reshape(rows, k)
    if type_name in ("Q1_0", "Q2_0"):
        return few_bits(raw.reshape(-1, 18), 1 if type_name == "Q1_0" else 2).reshape(rows, k)
    return quants.dequantize(raw, GGMLQuantizationType[type_name]).reshape(rows, k)


def few_bits(blocks: np.ndarray, bits: int) -> np.ndarray:
    """Blocks of an f16 d and 16 bytes. One bit: 1 is d, 0 is -d. Two bits: (code - 1) * d. The first weight is in the lowest bits."""
    d = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    each = np.unpackbits(np.ascontiguousarray(blocks[:, 2:]), axis=1, bitorder="little").astype(np.float32)
    if bits == 1:
        return np.where(each == 1, d, -d)
    return (each[:, ::2] + 2 * each[:, 1::2] - 1) * d
