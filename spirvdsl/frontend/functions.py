"""IR functions: callees that return from inside run-time control flow.

One per callee and kinds of arguments: numbers are passed by value; an element of a buffer is passed as its indices (element
form: Logical addressing allows no buffer pointers) and read in place; compile-time values are part of what is specialised.
"""

from __future__ import annotations

import ast
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Block, Function, Node
from ..lang.types import Type, u32
from .calls import Calls
from .frame import Frame
from .source import Source
from .values import Items, Place, is_runtime


class Functions(Calls):
    """Mixed into the walker."""

    def known_function(self, function: Any, bound: dict[str, Any]) -> Function | None:
        """The IR function made for such arguments before, if any."""
        return self.ctx.functions.get((function, _kinds(bound))) if self.ctx.functions else None

    def call_function(self, target: Function, bound: dict[str, Any]) -> Node | None:
        args: list[Node] = []
        for value in bound.values():
            self._flatten(value, args)
        args = [self.b.bitcast(a, u32) if p.type == u32 else a for a, p in zip(args, target.params, strict=True)]
        result = self.b.call(target, tuple(args))
        return result if target.result is not None else None

    def _flatten(self, value: Any, out: list[Node]) -> None:
        """The run-time arguments of one argument, in the order of parameter()."""
        if isinstance(value, tuple):
            for v in value:
                self._flatten(v, out)
        elif isinstance(value, Node):
            out.append(value)
        elif isinstance(value, Place):
            out += [s for s in value.steps if isinstance(s, Node)] if value.resource is not None else [self.b.load(value.ref)]

    def make_function(self, source: Source, bound: dict[str, Any], node: ast.AST) -> Function:
        name = source.node.name
        for what, value in bound.items():
            self._passable(what, value, source, node)
        made = Function(f"{name}_{len(self.ctx.functions)}" if self.ctx.functions else name, [], None, Block(), source.span(source.node, self.span(node)))
        ctx, saved, block, outer = self.ctx, self.frame, self.b.block, (self.ctx.locals, self.ctx.floor)
        ctx.locals, ctx.floor = [], ctx.depth
        self.frame = Frame(source, "function", {}, self.span(node), ctx.depth, function=made)
        self.b.block = made.body
        ctx.stack.append(source.function)
        try:
            hint = self.annotation(source, "return")
            if isinstance(hint, Type):
                made.result, self.frame.typed = hint, True
            for what, value in bound.items():
                self.frame.env[what] = self._parameter(made, what, value)
            self.body(source.node.body)
            if not made.body.terminated:
                if made.result is not None:
                    raise CompileError("E0402", f"{name} does not return on every path", source.head())
                self.b.return_()
            made.body.nodes[:0] = ctx.locals
        finally:
            self.frame, self.b.block, (ctx.locals, ctx.floor) = saved, block, outer
            ctx.stack.pop()
        ctx.module.functions.append(made)
        ctx.keep.append(bound)
        ctx.functions[source.function, _kinds(bound)] = made
        return made

    def _passable(self, what: str, value: Any, source: Source, node: ast.AST) -> None:
        """What cannot be passed to an IR function: lists, and local arrays that it might write."""
        why = ""
        if isinstance(value, Items):
            why = f"{what} is a list"
        elif isinstance(value, Place) and value.resource is None and not value.owned and not value.is_number:
            if what in source.stored or _passed_on(what, source.node):
                why = f"{what} lies in a local array that {source.node.name}() may write"
        elif isinstance(value, tuple):
            for v in value:
                self._passable(what, v, source, node)
        if why:
            raise self.error("E0406", f"{why}, and {source.node.name}() returns from inside run-time control flow", node, "return once, at the end of the function")

    def _parameter(self, made: Function, name: str, value: Any) -> Any:
        def param(suffix: str, t: Type) -> Node:
            node = Node("param", t, (), {"name": name + suffix, "index": len(made.params)}, made.span)
            made.params.append(node)
            return node

        if isinstance(value, tuple) and any(map(is_runtime, value)):
            return tuple(self._parameter(made, f"{name}_{i}", v) for i, v in enumerate(value))
        if isinstance(value, Node) or (isinstance(value, Place) and value.resource is None):
            return param("", value.type)
        if not isinstance(value, Place):
            return value
        ref, steps = self.b.resource(value.resource), []
        for i, step in enumerate(value.steps):
            step = param(f"_at{i}", u32) if isinstance(step, Node) else step
            ref = self.b.index(ref, step) if isinstance(step, Node) else self.b.member(ref, step)
            steps.append(step)
        return Place(ref, value.resource, value.what, tuple(steps))


def _passed_on(name: str, node: ast.AST) -> bool:
    """Whether a name is used whole and not only its parts."""
    parts = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Subscript | ast.Attribute)}
    return any(isinstance(n, ast.Name) and n.id == name and id(n) not in parts for n in ast.walk(node))


def _kinds(bound: dict[str, Any]) -> tuple:
    """What arguments have in common when one IR function serves them."""
    return tuple((n, _kind(v)) for n, v in bound.items())


def _kind(value: Any) -> tuple:
    if isinstance(value, Node):
        return ("value", value.type)
    if isinstance(value, Place):
        if value.resource is None:
            return ("value", value.type)
        return ("place", id(value.resource), tuple("*" if isinstance(s, Node) else s for s in value.steps))
    if isinstance(value, tuple):
        return ("tuple", *map(_kind, value))
    if isinstance(value, Type):
        return ("type", value)
    if value is None or isinstance(value, bool | int | float | str):
        return ("static", type(value).__name__, repr(value))  # repr: 0.0 and -0.0 are equal, but not the same
    return ("object", id(value))
