"""Formats: one description of a quantised block that every arm, the repacker and the reference read.

A Format names its GGUF block (`disk`) and the device planes it is repacked into (`planes`, structs aligned to 16 bytes),
and has decode methods marked `@spirv_decode` that kernels call directly: `fmt.weight(q[i], s[i], j)`.
"""

from __future__ import annotations

from collections.abc import Callable

from .layout import size_of
from .types import Array, Field, Scalar, Struct, Type


def spirv_decode(method: Callable) -> Callable:
    """Marks a method of a Format as callable from kernels; its struct parameters take elements of buffers in place."""
    method.__spirv_decode__ = True
    return method


class DiskBlock:
    """The bytes of one GGUF block, packed without padding: DiskBlock(d=f16, qs=i8[32])."""

    def __init__(self, **fields: Type):
        self.fields = tuple(Field(n, t) for n, t in fields.items())
        self.offsets: dict[str, int] = {}
        at = 0
        for f in self.fields:
            self.offsets[f.name] = at
            at += packed_size(f.type)
        self.size = at


def packed_size(t: Type) -> int:
    """Bytes of a scalar or an array of scalars without padding."""
    if isinstance(t, Array):
        return packed_size(t.elem) * t.length
    if isinstance(t, Scalar):
        return t.bits // 8
    raise TypeError(f"a disk block holds scalars and arrays of scalars, not {t.name}")


class Format:
    """Base of all block formats. Formats are used as classes and never instantiated.

    name: ggml's name (Q4_K); elements: weights of one element of the planes; disk: the GGUF block;
    disk_elements: weights of one GGUF block; planes: one struct per device buffer.
    """

    name: str = ""
    elements: int = 256
    disk: DiskBlock | None = None
    disk_elements: int = 32
    planes: tuple[Struct, ...] = ()

    @classmethod
    def plane_bytes(cls) -> tuple[int, ...]:
        """Bytes per element of each plane."""
        return tuple(size_of(p) for p in cls.planes)
