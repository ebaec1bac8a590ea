"""Dequantised weights, by PyPI gguf's own numpy code."""

from __future__ import annotations

import numpy as np
from gguf import GGMLQuantizationType, quants


def dequantise(type_name: str, raw: np.ndarray, k: int) -> np.ndarray:
    """u8 [rows, bytes of a row] -> f32 [rows, k]."""
    rows = len(raw)
    raw = np.ascontiguousarray(raw)
    if type_name in ("F32", "F16"):
        return raw.view({"F32": "<f4", "F16": "<f2"}[type_name]).astype(np.float32).reshape(rows, k)
    return quants.dequantize(raw, GGMLQuantizationType[type_name]).reshape(rows, k)
