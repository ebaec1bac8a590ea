"""Calls: kernel functions, methods and decode methods, conversions, constructors.

A callee is walked in place with its parameters bound to the arguments, whatever they are: values, places (an element of a
buffer is read where it lies), formats, lists of tiles. When it returns from inside run-time control flow it becomes an IR
function instead (functions.py).
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Node, Span
from ..lang.builtins import Builtin, BuiltinValue
from ..lang.coopmat import CoopMatrix
from ..lang.types import Array, RuntimeArray, Struct, Type, Vector, bool_, scalar_of
from .builtins import takes_places
from .frame import Frame, NeedsFunction
from .source import Source, source_of
from .static import Static
from .typing import coerce, default_type, literal
from .values import Place, describe, is_runtime

_DEPTH_LIMIT = 64


class Calls(Static):
    """Mixed into the walker."""

    def expr_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and not node.keywords:
            return self.super_call(node)
        callee = self.eval(node.func)
        places = callee is len or (isinstance(callee, Builtin) and takes_places(callee.name))
        args: list[Any] = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                args += self.unpacked(a.value)
            else:
                args.append(self.eval(a) if places else self.kept(a))
        kwargs: dict[str, Any] = {}
        for k in node.keywords:
            value = self.eval(k.value) if places else self.kept(k.value)
            if k.arg is not None:
                kwargs[k.arg] = value
            elif isinstance(value, dict):
                kwargs |= value
            else:
                raise self.error("E0102", "only **kwargs of a function can be passed on", k.value, "name the arguments")
        return self.call(callee, args, kwargs, node)

    def call(self, callee: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        if isinstance(callee, Builtin) and not isinstance(callee, BuiltinValue):
            return self.builtin_call(callee.name, args, kwargs, node)
        if isinstance(callee, Type):
            return self.convert_call(callee, args, kwargs, node)
        if isinstance(callee, types.MethodType) and isinstance(callee.__func__, types.FunctionType):
            return self.function_call(callee.__func__, [callee.__self__, *args], kwargs, node)
        if isinstance(callee, types.FunctionType):
            return self.function_call(callee, args, kwargs, node)
        return self.python_call(callee, args, kwargs, node)

    def function_call(self, function: Callable, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """Walk a callee in place, or call its IR function when it returns from run-time control flow."""
        if function in self.ctx.stack:
            raise self.error("E0109", f"{function.__name__} calls itself", node)
        if len(self.ctx.stack) > _DEPTH_LIMIT:
            raise self.error("E0408", f"calls nest deeper than {_DEPTH_LIMIT}", node)
        self.budget(1, node)
        source = self._source(function, node)
        bound = self.bind(source, args, kwargs, node)
        target = self.known_function(function, bound)
        if target is not None:
            return self.call_function(target, bound)
        block, saved, mark = self.b.block, self.frame, len(self.b.block.nodes)
        self.ctx.stack.append(function)
        try:
            return self._inline(source, bound, node)
        except NeedsFunction:
            del block.nodes[mark:]
        finally:
            self.b.block, self.frame = block, saved
            self.ctx.stack.pop()
        return self.call_function(self.make_function(source, bound, node), bound)

    def _source(self, function: Callable, node: ast.AST) -> Source:
        try:
            return source_of(function)
        except CompileError as error:
            if error.span is None:  # a callee without source: the call is the author's line
                raise self.error(error.code, error.message, node, error.help) from None
            raise

    def bind(self, source: Source, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> dict[str, Any]:
        """Parameters of a callee by name, annotated ones checked."""
        try:
            bound = inspect.signature(source.function, follow_wrapped=False).bind(*args, **kwargs)
        except TypeError as why:
            raise self.error("E0105", f"{source.node.name}(): {why}", node, f"it takes {ast.unparse(source.node.args) or 'nothing'}") from None
        bound.apply_defaults()
        out = {}
        for name, value in bound.arguments.items():
            copied = isinstance(value, Place) and value.owned and name in source.stored
            value = self.load(value, self.span(node)) if copied else value
            out[name] = self._annotated(source, name, value, node)
        return out

    def _annotated(self, source: Source, name: str, value: Any, node: ast.AST) -> Any:
        """An argument against the annotation of its parameter: weak literals take that type, all else must have it."""
        hint = self.annotation(source, name)
        what = f"argument {name} of {source.node.name}()"
        if (hint is int or hint is float) and is_runtime(value):
            raise self.error("E0206", f"{what} is a run-time {describe(value)}, the annotation says a compile-time {hint.__name__}", node,
                             f"annotate it {describe(value)}")
        if not isinstance(hint, Type) or value is None:  # None: left out, as its default says
            return value
        if isinstance(value, Place):
            if value.type != hint:
                raise self.error("E0601" if hasattr(source.function, "__spirv_decode__") else "E0206", f"{what} is {hint.name}, the value is {describe(value)}", node)
            return value
        return coerce(self.b, value, hint, what, self.span(node))

    def annotation(self, source: Source, name: str) -> Any:
        """The annotation of a parameter, or of the result ("return"), evaluated; None without one. E0302 when it cannot be."""
        hint = source.function.__annotations__.get(name)
        if not isinstance(hint, str):
            return hint
        key = source.function, name
        if key in self.ctx.hints:
            return self.ctx.hints[key]
        try:
            return self.ctx.hints.setdefault(key, eval(hint, dict(source.names())))  # noqa: S307 the author's own annotation
        except Exception as why:  # noqa: BLE001 whatever the annotation raises is the author's line
            where = next((a.annotation for a in source.arguments() if a.arg == name), source.node.returns)
            span = source.span(where) if where is not None else source.head()
            raise CompileError("E0302", f"annotation of {name}: {why}", span, "annotate it with a type of the language, or not at all") from None

    def _inline(self, source: Source, bound: dict[str, Any], node: ast.AST) -> Any:
        self.frame = Frame(source, "inline", dict(bound), self.span(node), self.ctx.depth)
        self.body(source.node.body)
        hint, result = self.annotation(source, "return"), self.frame.result
        if isinstance(hint, Type) and not (isinstance(result, Place) and result.type == hint):
            if result is None:
                raise CompileError("E0402", f"{source.node.name} returns nothing, its annotation says {hint.name}", source.head())
            what, value = f"result of {source.node.name}()", self.rvalue(result, self.span(node))
            return coerce(self.b, value, hint, what, self.frame.returned_at or source.head(), "E0212")
        return result

    # conversions and constructors
    def convert_call(self, t: Type, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Node:
        span = self.span(node)
        values = [self.rvalue(a, span) for a in args]
        if isinstance(t, Struct):
            return self._construct(t, values, {n: self.rvalue(v, span) for n, v in kwargs.items()}, node)
        if kwargs or isinstance(t, RuntimeArray) or (isinstance(t, Array) and len(args) != t.length):
            raise self.error("E0105", f"{t.name}(...) takes {t.length if isinstance(t, Array) else 'plain'} values", node)
        if isinstance(t, Array):
            return self.b.node("array", t, tuple(coerce(self.b, a, t.elem, f"element {i}", span) for i, a in enumerate(values)))
        if isinstance(t, Vector) and (len(values) > 1 or (values and isinstance(values[0], Node) and not isinstance(values[0].type, Vector))):
            return self._vector(t, values, node)
        if len(values) != 1:
            raise self.error("E0105", f"{t.name}() takes one value, got {len(values)}", node)
        if isinstance(t, CoopMatrix):
            return self.to_matrix(values[0], t, node)
        return self.convert(values[0], t, node)

    def convert(self, value: Any, t: Type, node: ast.AST) -> Node:
        """An explicit conversion of one value."""
        span = self.span(node)
        if not isinstance(value, Node):
            return literal(self.b, value, t, span, explicit=True)
        have, want = scalar_of(value.type) if value.type else None, scalar_of(t)
        if have is None or getattr(value.type, "lanes", 1) != getattr(t, "lanes", 1):
            raise self.error("E0206", f"{describe(value)} does not convert to {t.name}", node, "conversions keep the number of lanes")
        if want == bool_ and have != bool_:
            zero = literal(self.b, 0, value.type, span, explicit=True)
            return self.b.binary("ne", value, zero)
        return self.b.convert(value, t)

    def _vector(self, t: Vector, values: list[Any], node: ast.Call) -> Node:
        if len(values) == 1:
            return self.b.splat(coerce(self.b, values[0], t.elem, t.name, self.span(node)), t.lanes)
        parts, lanes = [], 0
        for v in values:
            if isinstance(v, Node) and isinstance(v.type, Vector):
                if v.type.elem != t.elem:
                    raise self.error("E0206", f"{v.type.name} in {t.name}(...)", node, f"convert it with {t.elem.name}x{v.type.lanes}(...)")
                parts.append(v)
                lanes += v.type.lanes
            else:
                parts.append(coerce(self.b, v, t.elem, f"a component of {t.name}", self.span(node)))
                lanes += 1
        if lanes != t.lanes:
            raise self.error("E0105", f"{t.name}(...) takes {t.lanes} components, got {lanes}", node)
        return self.b.vector(t.elem, tuple(parts), t.lanes)

    def _construct(self, t: Struct, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Node:
        named = dict(zip((f.name for f in t.fields), args, strict=False)) | kwargs
        if len(args) + len(kwargs) != len(t.fields) or any(f.name not in named for f in t.fields):
            raise self.error("E0105", f"{t.name}(...) needs {', '.join(f.name for f in t.fields)}, each once", node)
        span = self.span(node)
        return self.b.node("struct", t, tuple(coerce(self.b, named[f.name], f.type, f"{t.name}.{f.name}", span) for f in t.fields))

    def typed_default(self, value: Any, span: Span) -> Node:
        """A literal in the type that it takes when nothing else says."""
        return value if isinstance(value, Node) else literal(self.b, value, default_type(value, span), span)
