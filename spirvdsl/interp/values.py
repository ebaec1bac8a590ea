"""Run-time values of the interpreter: how each type is held in numpy.

Over the L lanes of a batch a scalar is an array [L], or a numpy scalar when it is the same in every lane (uniform).
A vector of n lanes is [n, L], or [n, 1] when uniform. Structs and arrays are tuples of such. Values are never written in
place, so a value may be a view. bf16 is held as f32 already rounded to bf16; bool as numpy bool.
"""

from __future__ import annotations

import numpy as np

from ..lang.types import Array, Scalar, Struct, Type, Vector, lanes_of, scalar_of

_DTYPES = {
    ("b", 1): np.bool_, ("f", 16): np.float16, ("f", 32): np.float32, ("f", 64): np.float64,
    ("i", 8): np.int8, ("i", 16): np.int16, ("i", 32): np.int32, ("i", 64): np.int64,
    ("u", 8): np.uint8, ("u", 16): np.uint16, ("u", 32): np.uint32, ("u", 64): np.uint64,
}


def dtype_of(s: Scalar) -> np.dtype:
    """Numpy type of a scalar in a register."""
    return np.dtype(np.float32 if s.encoding == "bf16" else _DTYPES[s.kind, s.bits])


def memory_dtype(s: Scalar) -> np.dtype:
    """Numpy type of a scalar in memory (bf16 is its 16 bits, bool one byte)."""
    if s.encoding == "bf16":
        return np.dtype(np.uint16)
    return np.dtype(np.uint8) if s.is_bool else dtype_of(s)


def make_const(t: Type, value):
    """The uniform value of a `const` node."""
    if isinstance(t, Scalar):
        return dtype_of(t).type(value)
    if isinstance(t, Vector):
        return np.array(value, dtype_of(t.elem)).reshape(t.lanes, 1)
    if isinstance(t, Array):
        return tuple(make_const(t.elem, v) for v in value)
    if isinstance(t, Struct):
        return tuple(make_const(f.type, v) for f, v in zip(t.fields, value, strict=True))
    raise TypeError(f"{t.name} has no constants")


def to_python(t: Type, value):
    """The attribute of a `const` node for a uniform value: make_const's inverse."""
    if isinstance(t, Scalar):
        return value.item()
    if isinstance(t, Vector):
        return tuple(v.item() for v in value[:, 0])
    members = [t.elem] * t.length if isinstance(t, Array) else [f.type for f in t.fields]
    return tuple(to_python(m, v) for m, v in zip(members, value, strict=True))


def squeeze(row: np.ndarray):
    """A row of a vector as a scalar value: a row of length 1 is uniform."""
    return row[0] if row.shape[0] == 1 else row


def build_vector(parts: tuple, dtype: np.dtype) -> np.ndarray:
    """A vector of scalars and vectors, flattened in order."""
    rows = []
    for p in parts:
        if p.ndim == 2:
            rows.extend(p)
        else:
            rows.append(p)
    out = np.empty((len(rows), max(r.size for r in rows)), dtype)
    for i, r in enumerate(rows):
        out[i] = r
    return out


def splat(x, lanes: int) -> np.ndarray:
    """A vector of `lanes` equal components."""
    return np.broadcast_to(np.reshape(x, (1, -1)), (lanes, np.size(x)))


def round_bf16(x):
    """f32 (or wider) values rounded to nearest even bf16, as f32."""
    a = np.asarray(x)
    f = a.astype(np.float32)
    if a.dtype != np.float32:
        # Round the wide value to odd first, so that the second rounding sees every lost bit.
        wide = a.astype(np.float64)
        back = f.astype(np.float64)
        even = (f.view(np.uint32) & np.uint32(1)) == 0
        off = even & (back != wide) & np.isfinite(f)
        f = np.where(off, np.nextafter(f, np.where(back < wide, np.float32(np.inf), np.float32(-np.inf))), f)
    bits = f.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    quiet = (bits | np.uint32(0x400000)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(f), quiet, rounded).astype(np.uint32).view(np.float32)[()]


def to_memory(s: Scalar, value):
    """A register value as the numbers memory holds."""
    if s.encoding == "bf16":
        return (np.asarray(value, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)[()]
    return value


def from_memory(s: Scalar, value):
    """The register value of numbers read from memory."""
    if s.encoding == "bf16":
        return (np.asarray(value).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]
    return value != 0 if s.is_bool else value


def bitcast(value, src: Type, dst: Type):
    """Same bits, another type; lane 0 of a vector is least significant."""
    s, d = scalar_of(src), scalar_of(dst)
    value = to_memory(s, value)
    sd, dd = memory_dtype(s), memory_dtype(d)
    if lanes_of(src) == lanes_of(dst):
        return from_memory(d, value.view(dd))
    rows = np.ascontiguousarray(np.atleast_2d(np.asarray(value)).T, sd)  # [lanes of the batch, components]
    cast = rows.view(dd)
    if isinstance(dst, Vector):
        return from_memory(d, np.ascontiguousarray(cast.T))
    return from_memory(d, squeeze(cast[:, 0]))


def map_leaves(fn, *values):
    """`fn` over the matching leaves of composite values."""
    if isinstance(values[0], tuple):
        return tuple(map_leaves(fn, *parts) for parts in zip(*values, strict=True))
    return fn(*values)
