"""std430 layout (Vulkan 1.3 spec, 15.6.4; 8- and 16-bit scalars align to their own size).

A vec3 takes 12 bytes and aligns to 16; array strides round up to the element's alignment; a struct aligns to its widest member.
"""

from __future__ import annotations

from functools import cache

from .types import Array, RuntimeArray, Scalar, Struct, Type, Vector


def _round_up(n: int, align: int) -> int:
    return -(-n // align) * align


@cache
def align_of(t: Type) -> int:
    """Alignment in bytes. TypeError for types that have no memory form (bool)."""
    if isinstance(t, Scalar):
        if t.is_bool:
            raise TypeError("bool has no memory layout; store u32 or u8")
        return t.bits // 8
    if isinstance(t, Vector):
        return align_of(t.elem) * (2 if t.lanes == 2 else 4)
    if isinstance(t, Array | RuntimeArray):
        return align_of(t.elem)
    if isinstance(t, Struct):
        return max(align_of(f.type) for f in t.fields)
    raise TypeError(f"{t.name} has no memory layout")


@cache
def size_of(t: Type) -> int:
    """Size in bytes, tail padding of structs included."""
    if isinstance(t, Scalar):
        return align_of(t)
    if isinstance(t, Vector):
        return size_of(t.elem) * t.lanes
    if isinstance(t, Array):
        return stride_of(t) * t.length
    if isinstance(t, Struct):
        offsets = offsets_of(t)
        return _round_up(offsets[-1] + size_of(t.fields[-1].type), align_of(t))
    raise TypeError(f"{t.name} has no size")


def stride_of(t: Array | RuntimeArray) -> int:
    """Bytes from one element to the next."""
    return _round_up(size_of(t.elem), align_of(t.elem))


@cache
def offsets_of(t: Struct) -> tuple[int, ...]:
    """Byte offset of every member."""
    at, out = 0, []
    for f in t.fields:
        at = _round_up(at, align_of(f.type))
        out.append(at)
        at += size_of(f.type)
    return tuple(out)
