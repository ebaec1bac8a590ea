"""What an expression can be while a kernel is walked.

- a Node: a run-time value (scalar, vector, struct or array);
- a Place: memory that can be read, indexed and, unless read-only, written;
- anything else: a compile-time Python object (int, float, bool, type, format, function, list of tiles ...).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..ir.nodes import Node, Resource
from ..lang.types import Ref, Type


@dataclass(eq=False)
class Place:
    """A Ref node and where it came from.

    resource: the buffer, push block or workgroup array it lies in (None: a local variable);
    steps: how it was reached from the resource: index nodes and member numbers, so that a callee can be given the element
    by its indices (Logical addressing allows no buffer-pointer argument); what: its name in messages.
    """

    ref: Node
    resource: Resource | None
    what: str
    steps: tuple[Node | int, ...] = ()

    @property
    def type(self) -> Type:
        assert isinstance(self.ref.type, Ref)
        return self.ref.type.elem


@dataclass(eq=False)
class Variable:
    """A Python name that is assigned in run-time control flow: a function-storage local."""

    name: str
    place: Place


@dataclass(eq=False)
class Items:
    """A Python list inside a kernel: fixed length, compile-time indices; run-time elements are local variables."""

    cells: list[Any] = field(default_factory=list)


class Unassigned:
    """The value of a name on a path where nothing was assigned yet."""


UNASSIGNED = Unassigned()


def is_runtime(value: Any) -> bool:
    """True for values that exist on the device."""
    return isinstance(value, Node | Place)
