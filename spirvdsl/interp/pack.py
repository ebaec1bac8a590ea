"""Python values -> bytes in std430 layout, for push constants and tests."""

from __future__ import annotations

import numpy as np

from ..lang.layout import offsets_of, size_of, stride_of
from ..lang.types import Array, Scalar, Struct, Type, Vector
from .values import make_const, memory_dtype, round_bf16, to_memory


def pack(t: Type, value) -> np.ndarray:
    """uint8 [size_of(t)] holding `value`: a number, or nested sequences in the shape of the type.

    Raises OverflowError for an integer out of range, ValueError for a wrong number of members or a fraction where the
    type is an integer, TypeError for something that is no number.
    """
    out = np.zeros(size_of(t), np.uint8)
    _write(out, 0, t, value)
    return out


def _write(out: np.ndarray, at: int, t: Type, value) -> None:
    if isinstance(t, Scalar):
        if t.is_int and value != int(value):
            raise ValueError(f"{value!r} is no {t.name}")
        number = round_bf16(np.float64(value)) if t.encoding == "bf16" else make_const(t, value)
        raw = np.asarray(to_memory(t, number), memory_dtype(t)).reshape(1).view(np.uint8)
        out[at : at + raw.size] = raw
    elif isinstance(t, Struct):
        for f, o, v in zip(t.fields, offsets_of(t), value, strict=True):
            _write(out, at + o, f.type, v)
    elif isinstance(t, Vector | Array):
        n = t.lanes if isinstance(t, Vector) else t.length
        stride = size_of(t.elem) if isinstance(t, Vector) else stride_of(t)
        for i, v in zip(range(n), value, strict=True):
            _write(out, at + i * stride, t.elem, v)
    else:
        raise TypeError(f"{t.name} has no value")
