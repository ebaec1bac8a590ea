"""What an expression can be while a kernel is walked.

- a Node: a run-time value (scalar, vector, struct or array);
- a Place: memory that can be read, indexed and, unless read-only, written;
- anything else: a compile-time Python object (int, float, bool, type, format, function, list of tiles ...).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..ir.nodes import Node, Resource
from ..lang.coopmat import CoopMatrix
from ..lang.types import Ref, Scalar, Type, Vector


@dataclass(eq=False)
class Place:
    """A Ref node and where it came from.

    resource: the buffer, push block or workgroup array it lies in (None: a local variable or array);
    steps: how it was reached from the resource: index nodes and member numbers, so that a callee can be given the element
    by its indices (Logical addressing allows no buffer-pointer argument); what: its name in messages.
    owned: it is the storage of a Python name or list element, which holds a value: binding it to another name copies.
    """

    ref: Node
    resource: Resource | None
    what: str
    steps: tuple[Node | int, ...] = ()
    owned: bool = False

    @property
    def type(self) -> Type:
        assert isinstance(self.ref.type, Ref)
        return self.ref.type.elem

    @property
    def is_number(self) -> bool:
        """A scalar, vector or matrix: what is read and passed by value."""
        return isinstance(self.type, Scalar | Vector | CoopMatrix)

    @property
    def write_only(self) -> bool:
        return self.resource is not None and self.resource.kind == "storage" and self.resource.access == "out"

    @property
    def constant(self) -> bool:
        """Memory that nobody writes while the kernel runs: a reference to it is as good as a copy."""
        r = self.resource
        return r is not None and (r.kind in ("push", "uniform") or (r.kind == "storage" and r.access == "in"))


@dataclass(eq=False)
class Variable:
    """A Python name (or list element) that is assigned in run-time control flow: a function-storage local."""

    name: str
    place: Place


@dataclass(eq=False)
class Items:
    """A Python list inside a kernel: fixed length, compile-time indices; run-time elements are local variables.

    depth: run-time blocks around the place where it was made; deeper than that its compile-time elements cannot change.
    """

    cells: list[Any] = field(default_factory=list)
    depth: int = 0

    def __len__(self) -> int:
        return len(self.cells)

    def values(self) -> list[Any]:
        """The elements as expressions see them."""
        return [c.place if isinstance(c, Variable) else c for c in self.cells]


class Unassigned:
    """The value of a name on a path where nothing was assigned yet, or where the paths do not agree (`why`)."""

    def __init__(self, why: str = ""):
        self.why = why


UNASSIGNED = Unassigned()


def is_runtime(value: Any) -> bool:
    """True for values that exist on the device."""
    return isinstance(value, Node | Place)


def holds_runtime(value: Any) -> bool:
    """True for run-time values and for lists and tuples with one inside."""
    if isinstance(value, Items):
        return any(holds_runtime(v) for v in value.values())
    return is_runtime(value) or (isinstance(value, tuple | list) and any(map(holds_runtime, value)))


def describe(value: Any) -> str:
    """A value as a message names it, short."""
    if isinstance(value, Place | Node):
        return value.type.name if value.type is not None else "nothing"
    if isinstance(value, Items):
        return f"a list of {len(value)}"
    if isinstance(value, tuple | list | dict | set):
        return f"a {type(value).__name__} of {len(value)}"
    if value is None:
        return "None"
    if isinstance(value, bool | int | float | str):
        text = repr(value)
        return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
    if isinstance(value, Type):
        return f"type {value.name}"
    name = getattr(value, "__name__", None)
    return f"{type(value).__name__} {name}" if isinstance(name, str) else f"a {type(value).__name__}"
