"""Places, loads and stores.

A chain of index and member nodes becomes one OpAccessChain at the load or store that needs it, shared within a basic block.
A composite in a buffer has another SPIR-V type than the same composite in a register (layout decorations): it is moved
member by member when small, and by OpCopyLogical (SPIR-V 1.4) when large.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.nodes import Node, Resource
from ..lang.coopmat import CoopMatrix
from ..lang.types import Array, RuntimeArray, Struct, Type, u32
from .context import FunctionLowering, internal, lowers
from .module import inst
from .pool import LAID, has_layout

WORKGROUP = 2  # Scope
MEMBERWISE_LEAVES = 16  # beyond this a copy is shorter than its member loads


@dataclass(frozen=True)
class Place:
    """A pointer not yet formed: variable, indices, what it points at."""

    root: int
    indices: tuple[int, ...]
    type: Type
    storage: str
    resource: Resource | None
    laid: bool

    def inner(self, index: int, t: Type) -> Place:
        return Place(self.root, (*self.indices, index), t, self.storage, self.resource, self.laid)


def place_of(f: FunctionLowering, node: Node) -> Place:
    """The place a ref node names."""
    if node.op == "index":
        ref, index = node.args
        return place_of(f, ref).inner(f.value(index), node.type.elem)
    if node.op == "member":
        return place_of(f, node.args[0]).inner(f.pool.u32(node.attrs["field"]), node.type.elem)
    if node.op == "local":
        return Place(f.value(node), (), node.type.elem, "function", None, False)
    if node.op == "resource":
        resource = node.attrs["resource"]
        if resource not in f.parent.variables:
            raise internal(f"resource '{resource.name}' is not in the module's list", node.span)
        viewed = resource in f.parent.offsets
        data = (f.pool.u32(0),) if viewed or isinstance(resource.type, RuntimeArray) else ()
        return Place(f.parent.variables[resource], data, resource.type, node.type.storage, resource, viewed or resource.kind in LAID)
    raise internal(f"'{node.op}' is no place", node.span)


def pointer(f: FunctionLowering, place: Place) -> int:
    """Id of the pointer, one access chain for the whole path."""
    if not place.indices:
        return place.root
    key = (place.root, *place.indices)
    if key not in f.chains:
        type_id = f.pool.pointer(place.storage, f.pool.type(place.type, place.laid))
        f.chains[key] = f.emit("OpAccessChain", type_id, place.root, *place.indices)
    return f.chains[key]


@lowers("local")
def _local(f: FunctionLowering, node: Node) -> int:
    type_id = f.pool.pointer("function", f.pool.type(node.type.elem))
    made = f.module.new_id()
    f.code.variables.append(inst("OpVariable", type_id, made, "Function", span=node.span))
    f.module.add_name(made, node.attrs["name"])
    return made


@lowers("resource", "index", "member")
def _place(f: FunctionLowering, node: Node) -> None:
    """Nothing to emit: the load or store that uses the place forms the pointer."""


def access_of(f: FunctionLowering, place: Place, volatile: bool, writes: bool) -> tuple:
    """Memory operands. In the Vulkan memory model an access is private to its lane unless it says otherwise (SPIR-V 3.26): what
    other lanes see of workgroup memory is made available and visible here, of buffers by barriers (lower_group.py)."""
    words = ["Volatile"] if volatile else []
    if f.module.memory_model != "Vulkan":
        return tuple(words)
    if place.storage == "workgroup":
        words += ["MakePointerAvailable" if writes else "MakePointerVisible", "NonPrivatePointer"]
        return "|".join(words), f.pool.u32(WORKGROUP)
    if place.resource is not None and place.resource in f.parent.shared_buffers:
        words.append("NonPrivatePointer")
    return ("|".join(words),) if words else ()


@lowers("load")
def _load(f: FunctionLowering, node: Node) -> int:
    ref = node.args[0]
    if ref.op == "index" and isinstance(ref.args[0].type.elem, CoopMatrix) and ref.args[1].op == "const":
        return f.emit_t("OpCompositeExtract", node.type, load(f, place_of(f, ref.args[0])), ref.args[1].attrs["value"])
    place = place_of(f, ref)
    return load(f, place, access_of(f, place, bool(node.attrs.get("volatile")), False))


def load(f: FunctionLowering, place: Place, access: tuple = ()) -> int:
    """The plain value held in a place."""
    if not (place.laid and has_layout(place.type)):
        return f.emit_t("OpLoad", place.type, pointer(f, place), *access)
    if _leaves(place.type) > MEMBERWISE_LEAVES:
        raw = f.emit("OpLoad", f.pool.type(place.type, laid=True), pointer(f, place), *access)
        return f.emit_t("OpCopyLogical", place.type, raw)
    parts = [load(f, place.inner(f.pool.u32(i), t), access) for i, t in enumerate(_members(place.type))]
    return f.emit_t("OpCompositeConstruct", place.type, *parts)


@lowers("store")
def _store(f: FunctionLowering, node: Node) -> None:
    ref, value = node.args
    if ref.op == "index" and isinstance(ref.args[0].type.elem, CoopMatrix) and ref.args[1].op == "const":
        whole = place_of(f, ref.args[0])  # an insertion costs nothing; a pointer into a matrix keeps it out of registers
        store(f, whole, f.emit_t("OpCompositeInsert", whole.type, f.value(value), load(f, whole), ref.args[1].attrs["value"]))
        return
    place = place_of(f, ref)
    if place.resource is not None:
        f.parent.written[place.resource] = None
    if place.storage in ("uniform", "push"):
        raise internal(f"store to {place.storage} memory", node.span)
    store(f, place, f.value(value), access_of(f, place, bool(node.attrs.get("volatile")), True))


def store(f: FunctionLowering, place: Place, value: int, access: tuple = ()) -> None:
    """Write a plain value to a place."""
    if not (place.laid and has_layout(place.type)):
        f.effect("OpStore", pointer(f, place), value, *access)
    elif _leaves(place.type) > MEMBERWISE_LEAVES:
        raw = f.emit("OpCopyLogical", f.pool.type(place.type, laid=True), value)
        f.effect("OpStore", pointer(f, place), raw, *access)
    else:
        for i, t in enumerate(_members(place.type)):
            part = f.emit_t("OpCompositeExtract", t, value, i)
            store(f, place.inner(f.pool.u32(i), t), part, access)


@lowers("array_length")
def _array_length(f: FunctionLowering, node: Node) -> int:
    place = place_of(f, node.args[0])
    return f.emit_t("OpArrayLength", u32, place.root, 0)


def _members(t: Type) -> list[Type]:
    return [m.type for m in t.fields] if isinstance(t, Struct) else [t.elem] * t.length


def _leaves(t: Type) -> int:
    """Number of scalars and vectors in a composite."""
    if isinstance(t, Array):
        return t.length * _leaves(t.elem)
    return sum(_leaves(m.type) for m in t.fields) if isinstance(t, Struct) else 1
