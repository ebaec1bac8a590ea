"""Small kernels built by hand, run by the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spirvdsl.interp import interpret
from spirvdsl.interp.values import memory_dtype
from spirvdsl.ir.build import Builder
from spirvdsl.ir.nodes import Block, FloatControls, Function, Module, Node, Resource, Span, SpecConst
from spirvdsl.ir.verify import verify
from spirvdsl.lang.types import Field, RuntimeArray, Struct, Type, Vector, lanes_of, scalar_of, u32

SPAN = Span("<test>", 1, 0)


class Kit(Builder):
    """A builder that also holds the resources of the kernel it builds."""

    def __init__(self) -> None:
        super().__init__(Block(), SPAN)
        self.resources: dict[str, Resource] = {}
        self.specs: list[SpecConst] = []
        self.functions: list[Function] = []

    def storage(self, name: str, elem: Type) -> Node:
        """A storage buffer of `elem`, made at the first use of its name."""
        return self._resource(name, "storage", RuntimeArray(elem))

    def shared(self, name: str, t: Type) -> Node:
        return self._resource(name, "workgroup", t)

    def push(self, **members: Type) -> dict[str, Node]:
        """Push members, loaded."""
        ref = self._resource("push", "push", Struct("Push", tuple(Field(n, t) for n, t in members.items())))
        return {n: self.load(self.member(ref, i)) for i, n in enumerate(members)}

    def _resource(self, name: str, kind: str, t: Type) -> Node:
        made = self.resources.setdefault(name, Resource(name, kind, t, SPAN, binding=len(self.resources)))
        return self.resource(made)

    def spec(self, name: str, t: Type, default) -> Node:
        made = SpecConst(name, len(self.specs), t, default, SPAN)
        self.specs.append(made)
        return self.node("spec_const", t, spec=made)

    def u32(self, value: int) -> Node:
        return self.const(u32, value)

    def gid(self) -> Node:
        return self.extract(self.builtin("global_id"), 0)

    def at(self, where, i: Node | None = None):
        """`at(block)` as Builder's; `at(ref, i)` loads an element."""
        return super().at(where) if i is None else self.load(self.index(where, i))

    def put(self, ref: Node, i: Node, value: Node) -> None:
        self.store(self.index(ref, i), value)

    def function(self, name: str, params: list[Type], result: Type | None, body: Callable) -> Function:
        """A function whose body `body(kit, *params)` appends to the current block."""
        nodes = [Node("param", t, (), {"name": f"p{i}", "index": i}, SPAN) for i, t in enumerate(params)]
        made = Function(name, nodes, result, Block(), SPAN)
        with self.at(made.body):
            body(self, *nodes)
        self.functions.append(made)
        return made

    def module(self, workgroup: tuple[int, int, int] = (32, 1, 1), controls: FloatControls | None = None, **more) -> Module:
        """The finished, verified kernel."""
        if not self.block.terminated:
            self.return_()
        entry = Function("main", [], None, self.block, SPAN)
        made = Module("test", [entry, *self.functions], list(self.resources.values()), self.specs, workgroup, SPAN,
                      float_controls=controls or FloatControls(), **more)
        verify(made)
        return made


def raw(t: Type, values) -> np.ndarray:
    """Rows of values as the bytes of a buffer of `t` (vectors of 3 padded to 4)."""
    s = scalar_of(t)
    a = np.asarray(values)
    if s.encoding == "bf16":
        a = (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    a = a.astype(memory_dtype(s))
    if isinstance(t, Vector) and t.lanes == 3:
        a = np.concatenate([a, np.zeros((len(a), 1), a.dtype)], axis=1)
    return np.ascontiguousarray(a)


def cooked(t: Type, data: np.ndarray, n: int) -> np.ndarray:
    """The inverse of `raw` for n elements: [n] or [n, lanes]."""
    s = scalar_of(t)
    a = data.view(memory_dtype(s))
    if s.encoding == "bf16":
        a = (a.astype(np.uint32) << 16).view(np.float32)
    if isinstance(t, Vector):
        a = a.reshape(n, -1)[:, : t.lanes]
    return a


def apply(body: Callable, types: list[Type], result: Type, *columns, uniform: bool = False, **options) -> np.ndarray:
    """result[i] = body(kit, a[i], b[i], ...) over columns of values; `uniform` computes row 0 only, in uniform values."""
    kit = Kit()
    n = len(columns[0])
    i = kit.u32(0) if uniform else kit.gid()
    args = [kit.at(kit.storage(f"a{j}", t), i) for j, t in enumerate(types)]
    value = body(kit, *args)
    bools = scalar_of(result).is_bool
    if bools:
        value = kit.select(value, kit.const(result_type(result), ones(result, 1)), kit.const(result_type(result), ones(result, 0)))
        result = result_type(result)
    kit.put(kit.storage("out", result), i, value)
    size = 4 if lanes_of(result) == 3 else lanes_of(result)
    out = np.zeros(n * size, memory_dtype(scalar_of(result)))
    buffers = {f"a{j}": raw(t, c) for j, (t, c) in enumerate(zip(types, columns))}
    controls = options.pop("controls", None)
    interpret(kit.module((1, 1, 1), controls), 1 if uniform else n, {**buffers, "out": out}, {}, None, **options)
    got = cooked(result, out, n)
    got = got != 0 if bools else got
    return got[:1] if uniform else got


def result_type(t: Type) -> Type:
    """u32 in the shape of a bool type, which buffers cannot hold."""
    return Vector(u32, t.lanes) if isinstance(t, Vector) else u32


def ones(t: Type, value: int):
    return (value,) * t.lanes if isinstance(t, Vector) else value
