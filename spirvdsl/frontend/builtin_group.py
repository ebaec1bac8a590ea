"""Builtins that touch memory or other lanes: barriers, arrays, atomics, subgroup operations."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ..ir.nodes import Node, Resource
from ..lang.builtins import REDUCTIONS
from ..lang.coopmat import CoopMatrix
from ..lang.layout import size_of, stride_of
from ..lang.types import Array, Scalar, Type, Vector, bool_, f32, scalar_of, u32
from .typing import coerce
from .values import Place, describe

_FLOAT_ATOMICS = ("add", "exchange", "load", "store")
_MOST_BYTES = 1 << 20  # of one array; the largest workgroup memory of any device is a quarter of this
_LANE_ARGUMENT = {"broadcast": "lane", "shuffle": "lane", "shuffle_xor": "mask", "shuffle_up": "delta", "shuffle_down": "delta"}
_RESULTS = {"all": bool_, "any": bool_, "all_equal": bool_, "ballot": Vector(u32, 4)}


class BuiltinGroup:
    """Handlers, mixed into the walker."""

    def _flag(self, value: Any, what: str, node: ast.AST) -> bool:
        if not isinstance(value, bool):
            raise self.error("E0405", f"{what} is {describe(value)}", node, "it is a compile-time True or False")
        return value

    def call_barrier(self, node: ast.AST, storage: Any = False) -> None:
        memory = ("workgroup", "storage") if self._flag(storage, "barrier(storage=...)", node) else ("workgroup",)
        self.b.node("barrier", None, scope="workgroup", memory=memory)

    def call_subgroup_barrier(self, node: ast.AST) -> None:
        self.b.node("barrier", None, scope="subgroup", memory=("workgroup",))

    def call_memory_barrier(self, node: ast.AST, scope: Any = "device") -> None:
        if not isinstance(scope, str) or scope not in ("device", "workgroup", "subgroup"):
            raise self.error("E0405", f"memory_barrier scope is {describe(scope)}", node, "'device', 'workgroup' or 'subgroup'")
        self.b.node("memory_barrier", None, scope=scope, memory=("workgroup", "storage"))

    # arrays
    def call_shared(self, node: ast.AST, type: Any, length: Any) -> Place:
        """One array per place in the source (and unrolled iteration there): a library function called twice uses its array
        twice, which it brackets with barriers."""
        array = self._array_type(node, type, length)
        key = (self.frame.source.file, node.lineno, node.col_offset, self.frame.iteration, array)
        made = self.ctx.shared.get(key)
        if made is None:
            made = self.ctx.shared[key] = self._workgroup("shared", array, node)
        return Place(self.b.resource(made), made, made.name)

    def _workgroup(self, stem: str, array: Array, node: ast.AST, views: Resource | None = None) -> Resource:
        """A new array in workgroup memory: stem, stem1, stem2 ..."""
        taken = {r.name for r in self.ctx.module.resources}
        name = next(n for n in (f"{stem}{i or ''}" for i in range(len(taken) + 1)) if n not in taken)
        made = Resource(name, "workgroup", array, self.span(node), views=views)
        self.ctx.module.resources.append(made)
        return made

    def call_shared_view(self, node: ast.AST, array: Any, type: Any) -> Place:
        """One view per array and type."""
        if not isinstance(array, Place) or array.resource is None or array.resource.kind != "workgroup" or array.steps:
            raise self.error("E0305", f"shared_view() of {describe(array)}", node, "it takes a whole array that shared() made")
        viewed = array.resource.views or array.resource
        whole = self._array_type(node, type, 1)
        length = size_of(viewed.type) // size_of(whole)
        if not length:
            raise self.error("E0305", f"{viewed.name} has {size_of(viewed.type)} bytes, fewer than one {type.name}", node, "view a longer array")
        key = (viewed, type)
        if key not in self.ctx.shared:
            same = type == viewed.type.elem
            self.ctx.shared[key] = viewed if same else self._workgroup(f"{viewed.name}_{type.name}", Array(type, length), node, viewed)
        made = self.ctx.shared[key]
        return Place(self.b.resource(made), made, made.name)

    def call_local_array(self, node: ast.AST, type: Any, length: Any) -> Place:
        return Place(self.ctx.local(self._array_type(node, type, length, matrices=True), "array"), None, "local array")

    def _array_type(self, node: ast.AST, type: Any, length: Any, matrices: bool = False) -> Array:
        if isinstance(length, Node):
            raise self.error("E0305", "the length of an array is a run-time value", node, "give a constant or a template parameter")
        if not isinstance(type, Type) or not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise self.error("E0305", f"an array of {describe(length)} x {describe(type)}", node)
        if matrices and isinstance(type, CoopMatrix):
            return Array(type, length)
        try:
            bytes = size_of(type) and stride_of(Array(type, length)) * length
        except TypeError as why:
            raise self.error("E0305", str(why), node) from None
        if bytes > _MOST_BYTES:
            raise self.error("E0305", f"an array of {bytes} bytes", node, f"at most {_MOST_BYTES}; put it into a buffer")
        return Array(type, length)

    # atomics
    def call_volatile_load(self, node: ast.AST, place: Any) -> Node:
        if not isinstance(place, Place) or place.resource is None or place.resource.kind not in ("storage", "workgroup"):
            raise self.error("E0308", f"volatile_load() of {describe(place)} that is no memory", node, "it takes an element of a buffer or of a shared array")
        return self.load(place, self.span(node), volatile=True)

    def call_atomic_load(self, node: ast.AST, place: Any) -> Node:
        return self.atomic("load", place, [], node)

    def call_atomic_store(self, node: ast.AST, place: Any, value: Any) -> None:
        self.atomic("store", place, [value], node)

    def call_atomic_compare_exchange(self, node: ast.AST, place: Any, expected: Any, value: Any) -> Node:
        return self.atomic("compare_exchange", place, [value, expected], node)

    def atomic(self, fn: str, place: Any, values: list[Any], node: ast.AST) -> Node:
        span = self.span(node)
        if not isinstance(place, Place) or place.resource is None or place.resource.kind not in ("storage", "workgroup"):
            raise self.error("E0307", f"atomic_{fn}() takes an element of a buffer or of workgroup memory, not {describe(place)}", node)
        t, r = place.type, place.resource
        if not isinstance(t, Scalar) or not (t.is_int and t.bits in (32, 64) or (t == f32 and fn in _FLOAT_ATOMICS)):
            raise self.error("E0307", f"atomic_{fn}() on {t.name}", node, "atomics work on u32, i32, u64, i64, and add and exchange on f32")
        if fn == "load" and place.write_only:
            raise self.error("E0309", f"{r.name} is Out; it cannot be read", node, f"annotate it InOut to read what {r.name} holds")
        if fn != "load":
            self.writable(place, span)
        if fn != "store":
            r.read = True
        scope = "workgroup" if r.kind == "workgroup" else "device"
        args = tuple(coerce(self.b, self.rvalue(v, span), t, place.what, span) for v in values)
        return self.b.node("atomic", None if fn == "store" else t, (place.ref, *args), fn=fn, scope=scope)

    # subgroups
    def subgroup_handler(self, name: str) -> Callable:
        """The handler of subgroup_<name>, with the parameters that its docstring shows."""
        if name in REDUCTIONS:
            return lambda node, x, cluster=None: self._reduce(name, "reduce", x, cluster, node)
        mode, _, fn = name.partition("_")
        if mode in ("inclusive", "exclusive"):
            return lambda node, x: self._reduce(fn, mode, x, None, node)
        if name == "elect":
            return lambda node: self.b.node("subgroup", bool_, (), fn="elect")
        second = _LANE_ARGUMENT.get(name)
        if second is None:
            return lambda node, x: self._subgroup(name, x, (), node)
        handlers = {"lane": lambda node, x, lane: self._subgroup(name, x, (lane,), node), "mask": lambda node, x, mask: self._subgroup(name, x, (mask,), node),
                    "delta": lambda node, x, delta: self._subgroup(name, x, (delta,), node)}
        return handlers[second]

    def _subgroup(self, fn: str, x: Any, lanes: tuple[Any, ...], node: ast.AST) -> Node:
        span = self.span(node)
        x = self.typed_default(x, span)
        s = scalar_of(x.type) if x.type is not None else None
        if s is None or s.encoding == "bf16":
            raise self.error("E0701", f"subgroup_{fn}() of {describe(x)}", node, "it takes numbers, bools and vectors of them; move a struct member by member")
        if fn in ("all", "any", "ballot") and x.type != bool_:
            raise self.error("E0205", f"subgroup_{fn}() takes a bool, this is {describe(x)}", node, "compare it: x != 0")
        extra = tuple(coerce(self.b, v, u32, f"the {_LANE_ARGUMENT.get(fn)}", span) for v in lanes)
        return self.b.node("subgroup", _RESULTS.get(fn, x.type), (x, *extra), fn=fn)

    def _reduce(self, fn: str, mode: str, x: Any, cluster: Any, node: ast.AST) -> Node:
        if cluster is not None and (not isinstance(cluster, int) or isinstance(cluster, bool) or not 1 <= cluster <= 128 or cluster & (cluster - 1)):
            raise self.error("E0701", f"cluster size is {describe(cluster)}", node, "a cluster is a compile-time power of two, at most 128")
        x = self.typed_default(x, self.span(node))
        s = scalar_of(x.type) if x.type is not None else None
        logical = fn in ("and", "or", "xor")
        if s is None or s.encoding == "bf16" or (s.is_bool and not logical) or (s.is_float and logical):
            raise self.error("E0701", f"subgroup_{fn}() is not defined for {describe(x)}", node)
        return self.b.node("subgroup", x.type, (x,), fn=fn, mode=mode, cluster=cluster)
