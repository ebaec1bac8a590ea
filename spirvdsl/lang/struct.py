"""`@struct`: a class of annotated members becomes a struct type with std430 layout."""

from __future__ import annotations

import inspect
import sys
from functools import cache

from ..diagnostics import CompileError
from ..ir.nodes import Span
from .layout import align_of
from .types import Field, Struct, Type


@cache
def class_span(cls: type) -> Span | None:
    """Where a class was written, or None (typed at a prompt)."""
    try:
        lines, line = inspect.getsourcelines(cls)
        return Span(inspect.getsourcefile(cls) or "<unknown>", line, len(lines[0]) - len(lines[0].lstrip()))
    except (OSError, TypeError):
        return None


def struct(cls: type) -> Struct:
    """A struct type from a class body: `q: i8[256]`.

    Raises CompileError E0304 when a member has no memory layout or there is no member at all.
    """
    namespace = dict(vars(sys.modules.get(cls.__module__, sys)))
    frame = inspect.currentframe()
    if frame and frame.f_back:
        namespace.update(frame.f_back.f_locals)
    fields = []
    for name, annotation in inspect.get_annotations(cls).items():
        kind = eval(annotation, namespace) if isinstance(annotation, str) else annotation  # noqa: S307 the author's own annotation
        if not isinstance(kind, Type):
            raise CompileError("E0304", f"member {cls.__name__}.{name} has no memory layout: {annotation!r} is not a type",
                               class_span(cls), "use f16, u32, u8[32], a vector or another @struct")
        try:
            align_of(kind)
        except TypeError as why:
            raise CompileError("E0304", f"member {cls.__name__}.{name}: {why}", class_span(cls)) from None
        fields.append(Field(name, kind))
    if not fields:
        raise CompileError("E0304", f"struct {cls.__name__} has no members", class_span(cls), "write at least one: d: f16")
    return Struct(cls.__name__, tuple(fields))
