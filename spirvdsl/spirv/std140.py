"""Uniform buffers: the std430 offsets of layout.py must also satisfy std140, since the device feature that lifts it is optional.

Rule (Vulkan 1.3, 15.6.4 "extended alignment"): an array or struct in a uniform buffer starts at a multiple of 16, array
elements are a multiple of 16 apart, and nothing lies in the padding behind an array or struct.
"""

from __future__ import annotations

from ..diagnostics import CompileError
from ..ir.nodes import Resource
from ..lang.layout import offsets_of, size_of, stride_of
from ..lang.types import Array, Struct, Type


def check_std140(resource: Resource) -> None:
    """Raise CompileError E0304 naming the member whose place std140 forbids."""
    fault = _fault(resource.type, resource.name)
    if fault:
        raise CompileError(
            "E0304", f"uniform buffer: {fault}", resource.span, "pad to 16 bytes (f32x4 elements), or use In[...], a storage buffer"
        )


def _fault(t: Type, path: str) -> str:
    if isinstance(t, Array):
        if stride_of(t) % 16:
            return f"elements of {path} are {stride_of(t)} bytes apart, std140 wants a multiple of 16"
        return _fault(t.elem, f"{path}[]")
    if not isinstance(t, Struct):
        return ""
    free = 0
    for field, offset in zip(t.fields, offsets_of(t), strict=True):
        name, composite = f"{path}.{field.name}", isinstance(field.type, Array | Struct)
        if composite and offset % 16:
            return f"{name} is at offset {offset}, std140 wants a multiple of 16"
        if offset < free:
            return f"{name} is at offset {offset}, in the padding that std140 puts behind the member before it"
        inner = _fault(field.type, name)
        if inner:
            return inner
        free = offset + size_of(field.type)
        free += -free % 16 if composite else 0
    return ""
