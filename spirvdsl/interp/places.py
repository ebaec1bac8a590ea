"""Code for places: which bytes or which slot of a local a chain of index and member nodes means.

Buffers and workgroup memory: every index node leaves an int or intp array in a variable, and an access adds
index * (stride / size of the scalar) + constant. Locals are taken apart into scalars and vectors: each is a Python
variable, an entry of a list, or (when indexed at run time) a LaneArray.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from ..ir.nodes import Function, Node, walk
from ..lang.coopmat import CoopMatrix
from ..lang.layout import offsets_of, size_of, stride_of
from ..lang.types import Array, Field, RuntimeArray, Scalar, Struct, Type, Vector, u8


@cache
def memory_type(t: Type) -> Type:
    """`t` with u8 for bool, which workgroup memory may hold though the API gives it no layout."""
    if isinstance(t, CoopMatrix):
        return t
    if isinstance(t, Scalar):
        return u8 if t.is_bool else t
    if isinstance(t, Vector):
        return Vector(u8, t.lanes) if t.elem.is_bool else t
    if isinstance(t, Array):
        return Array(memory_type(t.elem), t.length)
    if isinstance(t, RuntimeArray):
        return RuntimeArray(memory_type(t.elem))
    return Struct(t.title, tuple(Field(f.name, memory_type(f.type)) for f in t.fields))


def chain_of(ref: Node) -> tuple[Node, list[Node]]:
    """(the local or resource, the index and member nodes from it to `ref`)."""
    nodes = []
    while ref.op in ("index", "member"):
        nodes.append(ref)
        ref = ref.args[0]
    return ref, nodes[::-1]


def suffix(dtype: np.dtype) -> str:
    """Name of a typed view: f4, u1 ..."""
    return f"{dtype.kind}{dtype.itemsize}"


def length_of(t: Type) -> int | None:
    """Number of elements an index may name, None for a runtime array."""
    if isinstance(t, RuntimeArray):
        return None
    return t.lanes if isinstance(t, Vector) else t.length


def local_bytes(t: Type) -> int:
    """Bytes of a local per lane; a matrix counts as if eight lanes held it."""
    if isinstance(t, CoopMatrix):
        return t.size * t.elem.bits // 64 + 1
    if isinstance(t, Array):
        return t.length * local_bytes(t.elem)
    return sum(local_bytes(f.type) for f in t.fields) if isinstance(t, Struct) else size_of(memory_type(t))


@dataclass
class Spot:
    """A resolved place: terms of (index variable, stride), a constant, and the variables of indices to be checked."""

    terms: list[tuple[str, int]] = field(default_factory=list)
    const: int = 0
    bads: list[str] = field(default_factory=list)

    def at(self, extra: int, size: int = 1, base: str = "") -> str:
        """Expression of the element index: everything divided by `size`."""
        parts = [base] if base else []
        parts += [k if s == size else f"{k}*{s // size}" for k, s in self.terms]
        if (self.const + extra) // size or not parts:
            parts.append(str((self.const + extra) // size))
        return " + ".join(parts)


def byte_spot(nodes: list[Node], indices: dict[Node, tuple]) -> Spot:
    """The spot of a place in byte memory, in bytes. `indices` holds what each index node left: (int or variable, bad or None)."""
    spot = Spot()
    for node in nodes:
        t = memory_type(node.args[0].type.elem)
        if node.op == "member":
            spot.const += offsets_of(t)[node.attrs["field"]]
            continue
        _add(spot, indices[node], size_of(t.elem) if isinstance(t, Vector) else stride_of(t))
    return spot


def _add(spot: Spot, index: tuple, stride: int) -> None:
    k, bad = index
    if isinstance(k, int):
        spot.const += k * stride
    else:
        spot.terms.append((k, stride))
    if bad is not None:
        spot.bads.append(bad)


@dataclass
class Group:
    """All scalars (or vectors) of a local that lie at one path of struct fields; `dims` are the arrays around them."""

    var: str
    leaf: Type
    dims: tuple[int, ...]
    dynamic: bool

    @property
    def count(self) -> int:
        return int(np.prod(self.dims)) if self.dims else 1

    def strides(self) -> tuple[int, ...]:
        """Elements from one entry to the next, per dimension."""
        return tuple(int(np.prod(self.dims[i + 1 :])) for i in range(len(self.dims)))


@dataclass
class Local:
    """A local taken apart. `split`: vectors are held by component, because something stores to one component."""

    node: Node
    name: str
    split: bool
    groups: dict[tuple[int, ...], Group]

    def spot(self, nodes: list[Node], indices: dict[Node, tuple]) -> tuple[tuple[int, ...], list[tuple]]:
        """(path of struct fields, indices passed on the way) of a place in this local."""
        path = tuple(n.attrs["field"] for n in nodes if n.op == "member")
        return path, [indices[n] for n in nodes if n.op == "index"]


def plan_locals(fn: Function) -> dict[Node, Local]:
    """How every local of a function is held."""
    found = [n for n in walk(fn.body) if n.op == "local"]
    dynamic: set[Node] = set()
    split: set[Node] = set()
    for n in walk(fn.body):
        if n.op == "index":
            root, _ = chain_of(n)
            if n.args[1].op != "const":
                dynamic.add(root)
            if isinstance(n.args[0].type.elem, Vector):
                split.add(root)
    out = {}
    for i, node in enumerate(found):
        local = Local(node, node.attrs["name"], node in split, {})
        for j, (path, leaf, dims) in enumerate(_leaves(node.type.elem, local.split)):
            local.groups[path] = Group(f"x{i}_{j}", leaf, dims, node in dynamic and bool(dims))
        out[node] = local
    return out


def _leaves(t: Type, split: bool):
    """(path, leaf type, dims) of every group of a type."""
    if isinstance(t, Struct):
        for i, f in enumerate(t.fields):
            for path, leaf, dims in _leaves(f.type, split):
                yield (i, *path), leaf, dims
    elif isinstance(t, Array):
        for path, leaf, dims in _leaves(t.elem, split):
            yield path, leaf, (t.length, *dims)
    elif isinstance(t, Vector) and split:
        yield (), t.elem, (t.lanes,)
    else:
        yield (), t, ()

