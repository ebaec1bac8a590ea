"""Calls: kernel functions, methods and decode methods, conversions, constructors.

A callee is walked in place with its parameters bound to the arguments, whatever they are: values, places (an element of a
buffer is read where it lies), formats, lists of tiles. When it returns from inside run-time control flow it becomes an IR
function instead, specialised per argument kinds, and an element of a buffer is passed as its indices (element form).
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Block, Function, Node, Span
from ..lang.builtins import Builtin
from ..lang.format import Format
from ..lang.types import Array, RuntimeArray, Struct, Type, Vector, bool_, scalar_of, u32
from .builtins import BuiltinCalls
from .frame import Frame, NeedsFunction
from .source import source_of
from .statements import Statements
from .typing import coerce, default_type, index_node, literal
from .values import Items, Place, Variable, is_runtime

_DEPTH_LIMIT = 64


class Walker(Statements, BuiltinCalls):
    """The whole front end of one kernel: statements, expressions, calls."""

    def __init__(self, ctx, self_object: Any = None):
        self.ctx, self.self_object = ctx, self_object

    # calls
    def expr_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return self._super(node)
        callee = self.eval(node.func)
        args: list[Any] = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                items = self.eval(a.value)
                if is_runtime(items):
                    raise self.error("E0102", "only compile-time sequences can be unpacked", a)
                args += [c.place if isinstance(c, Variable) else c for c in items.cells] if isinstance(items, Items) else list(items)
            else:
                args.append(self.eval(a))
        kwargs = {}
        for k in node.keywords:
            if k.arg is None:
                raise self.error("E0102", "** arguments have no lowering", node)
            kwargs[k.arg] = self.eval(k.value)
        return self.call(callee, args, kwargs, node)

    def call(self, callee: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        if isinstance(callee, Builtin):
            return self.builtin_call(callee.name, args, kwargs, node)
        if isinstance(callee, Type):
            return self.convert_call(callee, args, kwargs, node)
        if isinstance(callee, types.MethodType):
            return self.function_call(callee.__func__, [callee.__self__, *args], kwargs, node)
        if isinstance(callee, types.FunctionType):
            return self.function_call(callee, args, kwargs, node)
        return self.python_call(callee, args, kwargs, node)

    def function_call(self, function: Callable, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """Walk a callee in place, or call its IR function when it returns from run-time control flow."""
        if function in self.ctx.stack:
            raise self.error("E0109", f"{function.__name__} calls itself", node, "a GPU has no stack; write a loop")
        if len(self.ctx.stack) > _DEPTH_LIMIT:
            raise self.error("E0408", f"calls nest deeper than {_DEPTH_LIMIT}", node)
        self.budget(1, node)
        bound = self.bind(function, args, kwargs, node)
        block, saved, mark = self.b.block, self.frame, len(self.b.block.nodes)
        self.ctx.stack.append(function)
        try:
            return self._inline(function, bound, node)
        except NeedsFunction:
            del block.nodes[mark:]
        finally:
            self.b.block, self.frame = block, saved
            self.ctx.stack.pop()
        return self._ir_call(function, bound, node)

    def bind(self, function: Callable, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> dict[str, Any]:
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except TypeError as why:
            raise self.error("E0105", f"{function.__name__}(): {why}", node) from None
        bound.apply_defaults()
        return {n: self.rvalue_argument(v, self.span(node)) for n, v in bound.arguments.items()}

    def rvalue_argument(self, value: Any, span: Span) -> Any:
        """Scalars and vectors are passed by value, arrays, structs and buffers in place."""
        if isinstance(value, Place) and scalar_of(value.type) is not None and not self._is_output(value):
            return self.load(value, span)
        return value

    @staticmethod
    def _is_output(place: Place) -> bool:
        return place.resource is not None and place.resource.access == "out"

    def _inline(self, function: Callable, bound: dict[str, Any], node: ast.Call) -> Any:
        source = source_of(function)
        frame = Frame(source, "inline", dict(bound), self.span(node))
        self._check_annotations(source, frame, node)
        self.frame = frame
        self.body(source.node.body)
        return frame.result

    def _check_annotations(self, source, frame: Frame, node: ast.Call) -> None:
        """Annotated parameters of a concrete scalar, vector or struct type are checked; weak literals take that type."""
        hints = source.function.__annotations__
        for name, value in frame.env.items():
            hint = hints.get(name)
            hint = source.globals.get(hint) if isinstance(hint, str) else hint
            if not isinstance(hint, Type):
                continue
            if isinstance(value, Place):
                if value.type != hint:
                    raise self.error("E0601" if hasattr(source.function, "__spirv_decode__") else "E0206",
                                     f"argument {name} of {source.node.name}() is {value.type.name}, {hint.name} is needed", node)
            elif isinstance(value, Node):
                frame.env[name] = coerce(self.b, value, hint, f"argument {name} of {source.node.name}()", self.span(node))

    # IR functions
    def _ir_call(self, function: Callable, bound: dict[str, Any], node: ast.Call) -> Node | None:
        span = self.span(node)
        bound = {n: self.load(v, span) if isinstance(v, Place) and v.resource is None else v for n, v in bound.items()}
        key = (function, tuple((n, self._kind_of(v, n, node)) for n, v in bound.items()))
        target = self.ctx.functions.get(key)
        if target is None:
            target = self._make_function(function, bound, node)
            self.ctx.functions[key] = target
        args: list[Node] = []
        for v in bound.values():
            args += [v] if isinstance(v, Node) else [s for s in v.steps if isinstance(s, Node)] if isinstance(v, Place) else []
        args = [self.b.bitcast(a, u32) if p.type == u32 else a for a, p in zip(args, target.params, strict=True)]
        result = self.b.call(target, tuple(args))
        return result if target.result is not None else None

    def _kind_of(self, value: Any, name: str, node: ast.Call) -> tuple:
        if isinstance(value, Node):
            return ("value", value.type)
        if isinstance(value, Place):
            return ("place", id(value.resource), tuple("*" if isinstance(s, Node) else s for s in value.steps))
        if isinstance(value, Items):
            raise self.error("E0406", f"{name} is a list, and the callee returns from inside run-time control flow", node, "return once, at the end")
        self.ctx.keep.append(value)
        try:
            return ("static", type(value).__name__, hash(value) and value)
        except TypeError:
            return ("static", id(value))

    def _make_function(self, function: Callable, bound: dict[str, Any], node: ast.Call) -> Function:
        source, span = source_of(function), self.span(node)
        if source.function in self.ctx.stack:
            raise self.error("E0109", f"{function.__name__} calls itself", node)
        made = Function(f"{source.node.name}_{len(self.ctx.functions)}" if self.ctx.functions else source.node.name, [], None, Block(), source.span(source.node, span))
        saved, block, outer = self.frame, self.b.block, self.ctx.locals
        self.ctx.locals = []
        frame = Frame(source, "function", {}, span, function=made)
        self.frame, self.b.block = frame, made.body
        self.ctx.stack.append(function)
        try:
            for name, value in bound.items():
                frame.env[name] = self._parameter(made, name, value)
            self._check_annotations(source, frame, node)
            self.body(source.node.body)
            if not made.body.terminated:
                if made.result is not None:
                    raise CompileError("E0402", f"{source.node.name} does not return on every path", made.span, "end it with return")
                self.b.return_()
            made.body.nodes[:0] = self.ctx.locals
        finally:
            self.frame, self.b.block, self.ctx.locals = saved, block, outer
            self.ctx.stack.pop()
        self.ctx.module.functions.append(made)
        return made

    def _parameter(self, made: Function, name: str, value: Any) -> Any:
        def param(suffix: str, t: Type) -> Node:
            node = Node("param", t, (), {"name": name + suffix, "index": len(made.params)}, made.span)
            made.params.append(node)
            return node

        if isinstance(value, Node):
            return param("", value.type)
        if not isinstance(value, Place):
            return value
        ref, steps = self.b.resource(value.resource), []
        for i, step in enumerate(value.steps):
            step = param(f"_at{i}", u32) if isinstance(step, Node) else step
            ref = self.b.index(ref, step) if isinstance(step, Node) else self.b.member(ref, step)
            steps.append(step)
        return Place(ref, value.resource, value.what, tuple(steps))

    # conversions and constructors
    def convert_call(self, t: Type, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Node:
        span = self.span(node)
        if isinstance(t, Struct):
            return self._construct(t, args, kwargs, node)
        if isinstance(t, Array) and len(args) == t.length and not kwargs:
            return self.b.node("array", t, tuple(coerce(self.b, self.rvalue(a, span), t.elem, f"element {i}", span) for i, a in enumerate(args)))
        if kwargs or isinstance(t, Array | RuntimeArray) or scalar_of(t) is None:
            raise self.error("E0105", f"{t.name}(...) takes {t.length if isinstance(t, Array) else 'plain'} values", node)
        values = [self.rvalue(a, span) for a in args]
        if isinstance(t, Vector) and (len(values) > 1 or (values and isinstance(values[0], Node) and not isinstance(values[0].type, Vector))):
            return self._vector(t, values, node)
        if len(values) != 1:
            raise self.error("E0105", f"{t.name}() takes one value", node)
        return self.convert(values[0], t, node)

    def convert(self, value: Any, t: Type, node: ast.AST) -> Node:
        """An explicit conversion of one value."""
        span = self.span(node)
        if not isinstance(value, Node):
            return literal(self.b, value, t, span, explicit=True)
        have, want = scalar_of(value.type) if value.type else None, scalar_of(t)
        if have is None or getattr(value.type, "lanes", 1) != getattr(t, "lanes", 1):
            raise self.error("E0206", f"{value.type.name if value.type else 'nothing'} does not convert to {t.name}", node, "conversions keep the number of lanes")
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
            raise self.error("E0105", f"{t.name}(...) has {lanes} components", node)
        return self.b.vector(t.elem, tuple(parts), t.lanes)

    def _construct(self, t: Struct, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Node:
        named = dict(zip((f.name for f in t.fields), args, strict=False)) | kwargs
        if len(args) + len(kwargs) != len(t.fields) or any(f.name not in named for f in t.fields):
            raise self.error("E0105", f"{t.name}(...) needs {', '.join(f.name for f in t.fields)}", node)
        span = self.span(node)
        return self.b.node("struct", t, tuple(coerce(self.b, self.rvalue(named[f.name], span), f.type, f"{t.name}.{f.name}", span) for f in t.fields))

    def typed_default(self, value: Any, span: Span) -> Node:
        return literal(self.b, value, default_type(value, span), span)

    # compile-time objects
    def static_attr(self, base: Any, name: str, node: ast.AST) -> Any:
        """An attribute of a compile-time object: parameters and methods of self, of a format, of a module."""
        if base is self.self_object and base is not None or isinstance(base, SuperOf):
            value = base.lookup(name)
        else:
            value = inspect.getattr_static(base, name, _MISSING)
            if value is not _MISSING:
                value = getattr(base, name)
        if value is _MISSING:
            raise self.error("E0106", f"{getattr(base, '__name__', type(base).__name__)} has no member {name}", node)
        if isinstance(value, property):
            return self.function_call(value.fget, [base], {}, node)
        owner = base.owner if isinstance(base, SuperOf) else base
        if isinstance(value, types.FunctionType) and (owner is self.self_object or (isinstance(base, type) and issubclass(base, Format))) and self._takes_self(base, name):
            return types.MethodType(value, owner)
        return value

    def _takes_self(self, base: Any, name: str) -> bool:
        holder = base.cls if hasattr(base, "cls") else base
        return not isinstance(inspect.getattr_static(holder, name, None), staticmethod)

    def _super(self, node: ast.Call) -> Any:
        owner = self.frame.source.globals.get("__class__")
        if owner is None or self.self_object is None:
            raise self.error("E0102", "super() works in methods of kernel classes", node)
        return SuperOf(self.self_object, owner)

    def static_items(self, node: ast.expr) -> list[Any]:
        """What a for loop or comprehension unrolls over: static_range, a tuple, a list, zip, enumerate."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            bounds = [self.value(a) for a in node.args]
            if any(isinstance(v, Node) for v in bounds):
                raise self.error("E0405", "a comprehension needs compile-time bounds", node, "use static_range with constants")
            return list(range(*bounds))
        items = self.eval(node)
        if isinstance(items, Items):
            return [c.place if hasattr(c, "place") else c for c in items.cells]
        if is_runtime(items):
            raise self.error("E0404", "cannot loop over a run-time value", node, "loop over range(n) and index")
        try:
            return list(items)
        except TypeError:
            raise self.error("E0404", f"cannot loop over {type(items).__name__}", node, "loop over range(n), static_range(n) or a tuple") from None

    def range_call(self, node: ast.expr) -> tuple[list[Any], str | None, int | None] | None:
        """(arguments, hint, count) of a run-time range(), or None for anything else."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and self.eval(node.func) is range):
            return None
        hint, count = None, None
        for k in node.keywords:
            value = self.eval(k.value)
            if k.arg != "unroll" or not isinstance(value, bool | int):
                raise self.error("E0404", f"range() has no argument {k.arg}={value!r}", node, "the only hint is unroll=True, False or a count")
            hint, count = ("unroll", None if isinstance(value, bool) else value) if value else ("dont_unroll", None)
        if not 1 <= len(node.args) <= 3:
            raise self.error("E0404", f"range() takes 1 to 3 bounds, got {len(node.args)}", node)
        return [self.value(a) for a in node.args], hint, count

    def python_call(self, callee: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """Python's own functions: on compile-time values they run now, some have a run-time meaning."""
        name = getattr(callee, "__name__", type(callee).__name__)
        if callee is range:
            raise self.error("E0404", "range() stands only in a for statement", node)
        if callee is len and len(args) == 1:
            return self._length(args[0], node)
        if any(is_runtime(a) for a in [*args, *kwargs.values()]):
            if name in ("min", "max", "abs", "pow", "round"):
                return self.builtin_call(name, args, kwargs, node)
            if callee is bool:
                return self.convert(self.rvalue(args[0], self.span(node)), bool_, node)
            if callee is sum and isinstance(args[0], Items):
                return self._sum(args, node)
            raise self.error("E0107", f"{name}() takes no run-time values", node, {"int": "write i32(...)", "float": "write f32(...)"}.get(name, ""))
        if not (getattr(callee, "__module__", None) in ("builtins", "math") or isinstance(callee, type)):
            raise self.error("E0107", f"{name} cannot be called in a kernel", node, "call functions written in this language, or builtins of spirvdsl")
        args = [tuple(a.cells) if isinstance(a, Items) else a for a in args]
        try:
            return callee(*args, **kwargs)
        except CompileError:
            raise
        except Exception as why:  # noqa: BLE001 a compile-time call of the author's fails with the author's line
            raise self.error("E0107", f"{ast.unparse(node)}: {why}", node) from None

    def _length(self, value: Any, node: ast.AST) -> Any:
        if isinstance(value, Place):
            if isinstance(value.type, RuntimeArray):
                return self.b.node("array_length", u32, (value.ref,))
            if isinstance(value.type, Array):
                return value.type.length
        if isinstance(value, Items | tuple | str):
            return len(value.cells if isinstance(value, Items) else value)
        raise self.error("E0107", "len() takes a buffer, an array or a list", node)

    def _sum(self, args: list[Any], node: ast.Call) -> Any:
        cells = [c.place if hasattr(c, "place") else c for c in args[0].cells]
        total = args[1] if len(args) > 1 else cells.pop(0)
        for c in cells:
            total = self.operate("Add", total, c, node)
        return total

    def index_of(self, value: Any, span: Span) -> Node:
        return index_node(self.b, value, None, span)


class SuperOf:
    """super() inside a method of a kernel class: attributes come from the classes after `cls`."""

    def __init__(self, owner: Any, cls: type):
        self.owner, self.cls = owner, cls

    def lookup(self, name: str) -> Any:
        return self.owner.lookup(name, after=self.cls)


_MISSING = object()
