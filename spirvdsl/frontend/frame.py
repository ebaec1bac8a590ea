"""State of a walk: one Context a kernel, one Frame a Python function being walked."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from ..diagnostics import CompileError
from ..ir.build import Builder
from ..ir.nodes import Block, Function, Module, Node, Resource, Span
from ..lang.types import Ref, Type, scalar_of
from .source import Source, stored_in
from .typing import coerce, default_type, literal
from .values import Place, Unassigned, Variable


class NeedsFunction(Exception):
    """A return inside run-time control flow: the callee cannot be walked in place and becomes an IR function."""


@dataclass(eq=False)
class Frame:
    """One function being walked.

    kind: entry | inline | function. env: what each name is now. regions: how many run-time blocks we are inside of.
    variables: the function-storage locals made for names so far, one per name. stored: names the function assigns anywhere.
    """

    source: Source
    kind: str
    env: dict[str, Any]
    parent: Span | None
    regions: int = 0
    variables: dict[str, Variable] = field(default_factory=dict)
    loops: list[str] = field(default_factory=list)  # "runtime" or "static", innermost last
    returned: bool = False
    result: Any = None
    function: Function | None = None
    stored: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.stored = frozenset(stored_in(self.source.node.body))


@dataclass(eq=False)
class Context:
    """One kernel being compiled."""

    module: Module
    b: Builder
    workgroup_size: tuple[int, int, int]
    functions: dict[tuple, Function] = field(default_factory=dict)
    shared: dict[tuple, Resource] = field(default_factory=dict)
    keep: list[Any] = field(default_factory=list)  # objects whose id() is a key, kept alive
    stack: list[Any] = field(default_factory=list)  # Python functions being walked: recursion is an error
    placed: int = 0
    locals: list[Node] = field(default_factory=list)  # variables of the function being walked


class Names:
    """Reading and assigning names, and memory behind places. Mixed into the walker."""

    ctx: Context
    frame: Frame

    @property
    def b(self) -> Builder:
        return self.ctx.b

    def span(self, node: ast.AST) -> Span:
        return self.frame.source.span(node, self.frame.parent)

    def error(self, code: str, message: str, node: ast.AST, help: str = "") -> CompileError:
        return CompileError(code, message, self.span(node), help)

    # memory
    def load(self, place: Place, span: Span, **attrs) -> Node:
        """Read a place. E0309 for a write-only buffer."""
        r = place.resource
        if r is not None:
            if r.access == "out" and r.kind == "storage":
                raise CompileError("E0309", f"{r.name} is Out; it cannot be read", span, f"annotate it InOut to read what {r.name} holds")
            r.read = True
        return self.b.load(place.ref, **attrs)

    def rvalue(self, value: Any, span: Span) -> Any:
        """A Node or compile-time value; places are loaded."""
        return self.load(value, span) if isinstance(value, Place) else value

    def writable(self, place: Place, span: Span) -> Place:
        """The place, marked written. E0301 for an In buffer or a push constant."""
        r = place.resource
        if r is not None:
            if r.kind in ("push", "uniform") or (r.kind == "storage" and r.access == "in"):
                kind = {"push": "a push constant", "uniform": "a uniform buffer"}.get(r.kind, "In")
                raise CompileError("E0301", f"{r.name} is {kind}; it cannot be written", span, f"annotate it Out or InOut to write {r.name}" if r.kind == "storage" else "copy it into a local first")
            r.written = True
        return place

    def store(self, place: Place, value: Any, span: Span) -> None:
        self.writable(place, span)
        self.b.store(place.ref, coerce(self.b, self.rvalue(value, span), place.type, place.what, span))

    # names
    def read_name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.frame.env:
            value = self.frame.env[name]
            if isinstance(value, Unassigned):
                raise self.error("E0401", f"{name} may be read before it is assigned", node, "give it a value on every path that leads here")
            return value.place if isinstance(value, Variable) else value
        if name in self.frame.stored:
            raise self.error("E0401", f"{name} may be read before it is assigned", node, "give it a value on every path that leads here")
        if name in self.frame.source.globals:
            return self.check_global(name, node)
        return self.python_builtin(name, node)

    def check_global(self, name: str, node: ast.Name) -> Any:
        value = self.frame.source.globals[name]
        if isinstance(value, list | dict | set | bytearray):
            raise self.error("E0110", f"global {name} is a mutable {type(value).__name__}", node, "kernels capture constants: use a tuple")
        return value

    def assign_name(self, name: str, value: Any, span: Span, declared: Type | None = None) -> None:
        """name = value: a new binding, or a store when run-time control flow has made the name a variable."""
        bound = self.frame.env.get(name)
        if isinstance(value, Place):
            value = self._bind_place(value, span)
        if isinstance(value, Node) and value.type is None:
            raise CompileError("E0213", f"{name} is given the result of something that returns nothing", span)
        if declared is not None:
            value = coerce(self.b, value, declared, name, span)
        if isinstance(bound, Variable):
            self.b.store(bound.place.ref, coerce(self.b, self.rvalue(value, span), bound.place.type, name, span, "E0204"))
        else:
            self.frame.env[name] = value

    def _bind_place(self, place: Place, span: Span) -> Any:
        """What `name = place` means: arrays and read-only structs by reference, everything else a copy of the value."""
        r = place.resource
        if scalar_of(place.type) is None and (not hasattr(place.type, "fields") or (r is not None and r.access == "in" and r.kind == "storage")):
            return place
        return self.load(place, span)

    def make_variable(self, name: str, value: Any, span: Span) -> Variable:
        """A function-storage local for `name`, holding `value` now."""
        value = self.rvalue(value, span)
        t = value.type if isinstance(value, Node) else default_type(value, span)
        node = value if isinstance(value, Node) else literal(self.b, value, t, span)
        var = self.variable(name, t, span)
        self.b.store(var.place.ref, node)
        return var

    def variable(self, name: str, t: Type, span: Span) -> Variable:
        """The local of this name and type; declared at the top of the function, so that every block sees it."""
        var = self.frame.variables.get(name)
        if var is None or var.place.type != t:
            local = Node("local", Ref(t, "function"), (), {"name": name}, span)
            self.ctx.locals.append(local)
            var = self.frame.variables[name] = Variable(name, Place(local, None, name))
        return var

    def materialise(self, names: list[str], span: Span) -> None:
        """Before run-time control flow that changes them, bound values become local variables."""
        for name in names:
            value = self.frame.env.get(name)
            if isinstance(value, Node) or (isinstance(value, bool | int | float)) or isinstance(value, Place) and scalar_of(value.type) is not None and value.resource is not None:
                self.frame.env[name] = self.make_variable(name, value, span)

    def region(self, block: Block):
        """Everything emitted inside the with statement is a run-time block."""
        return _Region(self, block)

    def python_builtin(self, name: str, node: ast.Name) -> Any:
        raise NotImplementedError


class _Region:
    def __init__(self, walker: Names, block: Block):
        self.walker, self.block = walker, block

    def __enter__(self) -> Block:
        self.saved = self.walker.ctx.b.block
        self.walker.ctx.b.block = self.block
        self.walker.frame.regions += 1
        return self.block

    def __exit__(self, *exc) -> None:
        self.walker.ctx.b.block = self.saved
        self.walker.frame.regions -= 1
