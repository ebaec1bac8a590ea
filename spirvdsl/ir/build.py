"""Builder: appends typed nodes to the current block. Used by the frontend, the passes and tests.

It computes result types; it does not check an author's mistakes (the frontend does, with spans, before it calls this).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..lang.coopmat import CoopMatrix
from ..lang.types import Array, Ref, RuntimeArray, Scalar, Struct, Type, Vector, bool_, u32, with_scalar
from .nodes import Block, Function, Node, Resource, Span

NO_SPAN = Span("<none>", 0, 0)
_STORAGE = {"storage": "storage", "uniform": "uniform", "push": "push", "workgroup": "workgroup"}
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


class Builder:
    """`span` is stamped on every node; `block` is where nodes go; `at(block)` switches for a while."""

    def __init__(self, block: Block | None = None, span: Span = NO_SPAN):
        self.block = block if block is not None else Block()
        self.span = span

    @contextmanager
    def at(self, block: Block) -> Iterator[Block]:
        """Append to `block` inside the with statement."""
        saved, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = saved

    def node(self, op: str, type: Type | None, args: tuple[Node, ...] = (), blocks: tuple[Block, ...] = (), **attrs) -> Node:
        """Append any node."""
        made = Node(op, type, args, attrs, self.span, blocks)
        self.block.nodes.append(made)
        return made

    # values
    def const(self, type: Type, value) -> Node:
        return self.node("const", type, value=value)

    def builtin(self, name: str) -> Node:
        vector = name in ("global_id", "group_id", "num_groups", "local_id")
        return self.node("builtin", Vector(u32, 3) if vector else u32, name=name)

    def binary(self, op: str, a: Node, b: Node) -> Node:
        """Arithmetic, bitwise, shift or comparison; both arguments have one type (shifts: same lanes)."""
        return self.node(op, with_scalar(a.type, bool_) if op in _COMPARE else a.type, (a, b))

    def unary(self, op: str, a: Node) -> Node:
        """neg, not."""
        return self.node(op, a.type, (a,))

    def select(self, cond: Node, a: Node, b: Node) -> Node:
        return self.node("select", a.type, (cond, a, b))

    def convert(self, a: Node, type: Type) -> Node:
        return a if a.type == type else self.node("convert", type, (a,))

    def bitcast(self, a: Node, type: Type) -> Node:
        return a if a.type == type else self.node("bitcast", type, (a,))

    def vector(self, elem: Scalar, parts: tuple[Node, ...], lanes: int) -> Node:
        return self.node("vector", Vector(elem, lanes), parts)

    def splat(self, a: Node, lanes: int) -> Node:
        return self.node("splat", Vector(a.type, lanes), (a,))

    def extract(self, a: Node, index: int) -> Node:
        t = a.type
        elem = t.fields[index].type if isinstance(t, Struct) else t.elem
        return self.node("extract", elem, (a,), index=index)

    def math(self, fn: str, *args: Node, type: Type | None = None) -> Node:
        return self.node("math", type or args[0].type, args, fn=fn)

    # places
    def local(self, type: Type, name: str) -> Node:
        return self.node("local", Ref(type, "function"), name=name)

    def resource(self, resource: Resource) -> Node:
        return self.node("resource", Ref(resource.type, _STORAGE[resource.kind]), resource=resource)

    def index(self, ref: Node, i: Node) -> Node:
        inner = ref.type.elem
        assert isinstance(inner, Array | RuntimeArray | Vector | CoopMatrix), inner
        return self.node("index", Ref(inner.elem, ref.type.storage), (ref, i))

    def member(self, ref: Node, field: int) -> Node:
        return self.node("member", Ref(ref.type.elem.fields[field].type, ref.type.storage), (ref,), field=field)

    def load(self, ref: Node, **attrs) -> Node:
        return self.node("load", ref.type.elem, (ref,), **attrs)

    def store(self, ref: Node, value: Node, **attrs) -> None:
        self.node("store", None, (ref, value), **attrs)

    # control
    def if_(self, cond: Node) -> tuple[Block, Block]:
        """Returns the then and else blocks to fill."""
        blocks = Block(), Block()
        self.node("if", None, (cond,), blocks)
        return blocks

    def loop(self, hint: str | None = None, hint_count: int | None = None) -> tuple[Block, Block, Block]:
        """Returns the cond, body and step blocks to fill; cond must end in yield_."""
        blocks = Block(), Block(), Block()
        self.node("loop", None, (), blocks, hint=hint, hint_count=hint_count)
        return blocks

    def yield_(self, cond: Node) -> None:
        self.node("yield", None, (cond,))

    def return_(self, value: Node | None = None) -> None:
        self.node("return", None, () if value is None else (value,))

    def call(self, function: Function, args: tuple[Node, ...]) -> Node:
        return self.node("call", function.result, args, function=function)
