"""State of a walk: one Context a kernel, one Frame a Python function being walked; reading and assigning names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..diagnostics import CompileError
from ..ir.build import Builder
from ..ir.nodes import Block, Function, Module, Node, Resource, Span
from ..lang.types import Ref, RuntimeArray, Struct, Type
from .source import Source
from .typing import coerce, default_type, literal
from .values import Place, Unassigned, Variable


class NeedsFunction(Exception):
    """A return inside run-time control flow: the callee cannot be walked in place and becomes an IR function."""


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
    hints: dict[tuple, Any] = field(default_factory=dict)  # evaluated annotations
    placed: int = 0
    depth: int = 0  # run-time blocks around the place where nodes go now
    floor: int = 0  # the same at the top of the IR function being made
    locals: list[Node] = field(default_factory=list)  # variables of the IR function being made

    @contextmanager
    def region(self, block: Block) -> Iterator[Block]:
        """Everything emitted inside the with statement goes into a run-time block."""
        self.depth += 1
        try:
            with self.b.at(block):
                yield block
        finally:
            self.depth -= 1

    def local(self, t: Type, name: str, span: Span | None = None) -> Node:
        """A variable that every block of the IR function may use: declared here at its top level, else at its beginning."""
        if self.depth == self.floor and span is None:
            return self.b.local(t, name)
        made = Node("local", Ref(t, "function"), (), {"name": name}, span or self.b.span)
        self.locals.append(made)
        return made


@dataclass(eq=False)
class Frame:
    """One function being walked.

    kind: entry | inline | function. env: what each name is now. base: run-time blocks around its first statement.
    variables: the function-storage locals made for names so far, one per name. stored: names the function assigns anywhere.
    loops: the loops around, innermost last: (run-time or not, depth of their body). left: "break", "continue" or "return" when
    compile-time control flow has left the statements being walked. result, returned_at: of an inline function, and where.
    read, written, sure: names in the innermost run-time loop: perhaps read before they are bound; bound; bound on every path.
    """

    source: Source
    kind: str
    env: dict[str, Any]
    parent: Span | None
    base: int = 0
    variables: dict[str, Variable] = field(default_factory=dict)
    loops: list[tuple[bool, int]] = field(default_factory=list)
    left: str = ""
    result: Any = None
    returned_at: Span | None = None
    function: Function | None = None
    typed: bool = False  # the result type of `function` is known
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    sure: set[str] = field(default_factory=set)
    iteration: tuple[int, ...] = ()  # of the unrolled loops around: a shared() there is another array each time

    def __post_init__(self) -> None:
        self.stored, self.names = self.source.stored, self.source.names()

    def bind(self, name: str, value: Any) -> None:
        """A name is something else from here on."""
        self.env[name] = value
        self.written.add(name)
        self.sure.add(name)


class Names:
    """Reading and assigning names, and memory behind places. Mixed into the walker."""

    ctx: Context
    frame: Frame

    @property
    def b(self) -> Builder:
        return self.ctx.b

    @property
    def in_control_flow(self) -> bool:
        """Inside a run-time block of the function being walked."""
        return self.ctx.depth > self.frame.base

    def span(self, node: ast.AST) -> Span:
        return self.frame.source.span(node, self.frame.parent)

    def error(self, code: str, message: str, node: ast.AST, help: str = "") -> CompileError:
        return CompileError(code, message, self.span(node), help)

    @contextmanager
    def speaking_of(self, span: Span) -> Iterator[None]:
        """Nodes made inside the with statement carry this span."""
        saved, self.b.span = self.b.span, span
        try:
            yield
        finally:
            self.b.span = saved

    # memory
    def load(self, place: Place, span: Span, **attrs) -> Node:
        """Read a place. E0309 for a write-only buffer, E0209 for a whole one."""
        r = place.resource
        if isinstance(place.type, RuntimeArray):
            raise CompileError("E0209", f"{place.what} is a whole buffer", span, f"read one element: {place.what}[i]")
        if place.write_only:
            raise CompileError("E0309", f"{r.name} is Out; it cannot be read", span, f"annotate it InOut to read what {r.name} holds")
        if r is not None:
            r.read = True
        with self.speaking_of(span):
            return self.b.load(place.ref, **attrs)

    def rvalue(self, value: Any, span: Span) -> Any:
        """A Node or compile-time value; places are loaded."""
        return self.load(value, span) if isinstance(value, Place) else value

    def settle(self, value: Any, span: Span) -> Any:
        """A value to be kept for later, as an argument, a result or in a tuple: numbers are read now, memory stays memory."""
        if isinstance(value, Place) and (value.is_number or value.owned):
            return self.load(value, span)
        return value

    def writable(self, place: Place, span: Span) -> Place:
        """The place, marked written. E0301 for an In buffer, a uniform buffer or a push constant, E0308 for a whole buffer."""
        r = place.resource
        if r is not None and place.constant:
            kind = {"push": "a push constant", "uniform": "a uniform buffer"}.get(r.kind, "In")
            help = f"annotate it Out or InOut to write {r.name}" if r.kind == "storage" else "copy it into a local first"
            raise CompileError("E0301", f"{r.name if r.kind != 'push' else place.what} is {kind}; it cannot be written", span, help)
        if isinstance(place.type, RuntimeArray):
            raise CompileError("E0308", f"{place.what} is a whole buffer", span, f"assign one element: {place.what}[i] = ...")
        if r is not None:
            r.written = True
        return place

    def store(self, place: Place, value: Any, span: Span, target: Span | None = None) -> None:
        """target: where the place stands, for reports of the store; span: the whole assignment."""
        self.writable(place, span)
        value = coerce(self.b, self.rvalue(value, span), place.type, place.what, span)
        with self.speaking_of(target or span):
            self.b.store(place.ref, value)

    # names
    def read_name(self, node: ast.Name) -> Any:
        name, frame = node.id, self.frame
        if name in frame.env:
            value = frame.env[name]
            if isinstance(value, Unassigned):
                raise self._unassigned(node, value)
            if name not in frame.sure:
                frame.read.add(name)
            return value.place if isinstance(value, Variable) else value
        if name in frame.stored:
            raise self._unassigned(node, Unassigned())
        if name in frame.names:
            return self.captured(name, frame.names[name], node)
        return self.python_builtin(name, node)

    def _unassigned(self, node: ast.Name, value: Unassigned) -> CompileError:
        if value.why:
            return self.error("E0204", f"{node.id} {value.why}", node, "give it one type, and a run-time value such as f32(0), before the branch or loop")
        return self.error("E0401", f"{node.id} may be read before it is assigned", node)

    def captured(self, name: str, value: Any, node: ast.AST) -> Any:
        """A global or an attribute of a module or class: constants only."""
        if isinstance(value, list | dict | set | bytearray):
            raise self.error("E0110", f"{name} is a mutable {type(value).__name__}", node)
        return value

    def assign_name(self, name: str, value: Any, span: Span, declared: Type | None = None) -> None:
        """name = value: a new binding, or a store when run-time control flow has made the name a variable."""
        bound = self.frame.env.get(name)
        if isinstance(value, Place):
            value = self.bound_place(value, span)
        if isinstance(value, Node) and value.type is None:
            raise CompileError("E0213", f"{name} is given the result of something that returns nothing", span)
        if declared is not None:
            value = coerce(self.b, value, declared, name, span)
        if isinstance(bound, Variable):
            self.b.store(bound.place.ref, coerce(self.b, self.rvalue(value, span), bound.place.type, name, span, "E0204"))
        else:
            self.frame.bind(name, value)

    def bound_place(self, place: Place, span: Span) -> Any:
        """What `name = place` means: arrays, buffers and read-only structs by reference, everything else a copy of the value."""
        by_reference = not place.is_number and not place.owned and (not isinstance(place.type, Struct) or place.constant)
        return place if by_reference else self.load(place, span)

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
            var = self.frame.variables[name] = Variable(name, Place(self.ctx.local(t, name, span), None, name, owned=True))
        return var

    def materialise(self, names: list[str], span: Span) -> None:
        """Before run-time control flow that changes them, values become local variables."""
        for name in names:
            value = self.frame.env.get(name)
            number = isinstance(value, bool | int | float) and not self._too_wide(value)
            reference = isinstance(value, Place) and value.resource is not None and not value.write_only and (
                value.is_number or isinstance(value.type, Struct) and value.constant)
            if isinstance(value, Node) or number or reference:
                self.frame.env[name] = self.make_variable(name, value, span)

    @staticmethod
    def _too_wide(value: Any) -> bool:
        return isinstance(value, int) and not -(1 << 31) <= value < 1 << 31

    def python_builtin(self, name: str, node: ast.Name) -> Any:
        raise NotImplementedError
