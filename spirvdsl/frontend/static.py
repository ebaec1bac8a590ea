"""Compile-time objects: attributes of classes, formats and modules; Python's own functions; sequences that are unrolled."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from itertools import islice
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Node
from ..lang.format import Format
from ..lang.types import Array, RuntimeArray, Vector, bool_, u32
from .expressions import UNROLL_LIMIT, Expressions
from .values import Items, Place, describe, holds_runtime, is_runtime

_MISSING = object()
_STRUCTURE = (zip, enumerate, reversed, list, tuple)  # build sequences of whatever elements
_FOLDS = {"sum": "Add", "any": "BitOr", "all": "BitAnd"}
_PLAIN = (int, float, str, tuple, bool, range)  # bound methods of these have no effects


class SelfObject:
    """`self` of a class kernel: resources by member name, everything else from the stamped class."""

    def __init__(self, cls: type, names: dict[str, Any]):
        self.cls, self.names, self.__name__ = cls, names, cls.__name__

    def lookup(self, name: str, after: type | None = None) -> Any:
        """The member `name`, or the sentinel for none; after: search only the classes behind it (super())."""
        if name in self.names and after is None:
            return self.names[name]
        return _class_member(self.cls, name, after)


class SuperOf:
    """super() inside a method: attributes come from the classes after `cls`. owner: self of a kernel, or a format."""

    def __init__(self, owner: Any, cls: type):
        self.owner, self.cls = owner, cls

    def lookup(self, name: str) -> Any:
        return _class_member(self.owner.cls if isinstance(self.owner, SelfObject) else self.owner, name, self.cls)


def _class_member(cls: type, name: str, after: type | None) -> Any:
    mro = cls.__mro__
    for base in mro[mro.index(after) + 1 :] if after in mro else mro:
        if name in vars(base):
            return vars(base)[name]
    return _MISSING


class Static(Expressions):
    """Mixed into the walker."""

    self_object: SelfObject | None

    def static_attr(self, base: Any, name: str, node: ast.AST) -> Any:
        """An attribute of a compile-time object: parameters and methods of self, of a format, of a module."""
        value = self._member(base, name, node)
        if value is _MISSING:
            raise self.error("E0106", f"{getattr(base, '__name__', None) or describe(base)} has no member {name}", node)
        return self.shader_value(value)

    def _member(self, base: Any, name: str, node: ast.AST) -> Any:
        if isinstance(base, Items):
            return _MISSING
        if isinstance(base, SelfObject | SuperOf):
            owner = base.owner if isinstance(base, SuperOf) else base
            return self._bound(base.lookup(name), owner, node)
        if isinstance(base, type) and issubclass(base, Format):
            return self._bound(_class_member(base, name, None), base, node)
        try:
            value = inspect.getattr_static(base, name, _MISSING)
            value = value if value is _MISSING else getattr(base, name)
        except Exception as why:  # noqa: BLE001 whatever the author's object raises is the author's line
            raise self.error("E0106", f"{ast.unparse(node)}: {why}", node) from None
        return self.captured(name, value, node) if isinstance(base, types.ModuleType | type) else value

    def _bound(self, value: Any, owner: Any, node: ast.AST) -> Any:
        """A member of a kernel or format class, as `owner.member` gives it: devirtualised, bound to its owner."""
        if isinstance(value, property):
            return self.function_call(value.fget, [owner], {}, node)
        if isinstance(value, staticmethod):
            return value.__func__
        if isinstance(value, classmethod):
            return types.MethodType(value.__func__, owner)
        if isinstance(value, types.FunctionType):
            return types.MethodType(value, owner)
        return self.captured(getattr(node, "attr", "member"), value, node)

    def super_call(self, node: ast.Call) -> SuperOf:
        """super() without arguments, in a method of a kernel class or of a format."""
        cls = self.frame.names.get("__class__")
        args = self.frame.source.arguments()
        owner = self.frame.env.get(args[0].arg) if args else None
        held = owner.cls if isinstance(owner, SelfObject) else owner
        if not isinstance(cls, type) or not isinstance(held, type) or not issubclass(held, cls):
            raise self.error("E0102", "super() works in methods of kernel classes and formats", node, "call it in a method, on self")
        return SuperOf(owner, cls)

    # sequences
    def static_items(self, node: ast.expr) -> list[Any]:
        """What a for loop or comprehension unrolls over: static_range, a tuple, a list, zip, enumerate."""
        if self.is_range(node):
            bounds = self.range_bounds(node)[0]
            if any(isinstance(v, Node) for v in bounds):
                raise self.error("E0405", "a comprehension needs compile-time bounds", node, "use static_range with constants")
            items: Any = self.static_call(range, bounds, {}, node)
        else:
            items = self.eval(node)
        if is_runtime(items):
            raise self.error("E0404", f"cannot loop over {describe(items)}, a run-time value", node, "loop over range(n) and index")
        try:
            return items.values() if isinstance(items, Items) else list(islice(items, UNROLL_LIMIT + 1))  # more is refused, and may not end
        except Exception:  # noqa: BLE001 whatever the author's object raises is the author's line
            raise self.error("E0404", f"cannot loop over {describe(items)}", node) from None

    def is_range(self, node: ast.expr) -> bool:
        """A call of Python's range, by that name."""
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and self.eval(node.func) is range

    def range_bounds(self, node: ast.Call) -> tuple[list[Any], str | None, int | None]:
        """(bounds, hint, count) of range(...)."""
        hint, count = None, None
        for k in node.keywords:
            value = self.eval(k.value)
            if k.arg != "unroll" or not isinstance(value, bool | int) or value < 0:
                raise self.error("E0404", f"range() has no argument {k.arg or '**'}={describe(value)}", node, "the only hint is unroll=True, False or a count")
            hint, count = ("unroll", None if isinstance(value, bool) else value) if value else ("dont_unroll", None)
        if not 1 <= len(node.args) <= 3:
            raise self.error("E0404", f"range() takes 1 to 3 bounds, got {len(node.args)}", node)
        return [self.value(a) for a in node.args], hint, count

    # Python's functions
    def python_call(self, callee: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """Python's own functions: on compile-time values they run now, some have a run-time meaning."""
        name = getattr(callee, "__name__", describe(callee))
        if is_runtime(callee):
            raise self.error("E0107", f"{describe(callee)} is a value, it cannot be called", node)
        if callee is range:
            raise self.error("E0404", "range() stands only in a for statement", node)
        if callee is len and len(args) == 1 and not kwargs:
            return self._length(args[0], node)
        if callee in (getattr, hasattr) and len(args) in (2, 3) and isinstance(args[1], str) and not is_runtime(args[0]):
            value = self._member(args[0], args[1], node)
            if callee is hasattr:
                return value is not _MISSING
            return value if value is not _MISSING else args[2] if len(args) == 3 else self.static_attr(args[0], args[1], node)
        if callee not in _STRUCTURE and any(holds_runtime(a) for a in [*args, *kwargs.values()]):
            return self._runtime_call(callee, name, args, kwargs, node)
        known = getattr(callee, "__module__", None) in ("builtins", "math") or isinstance(getattr(callee, "__self__", None), _PLAIN)
        if not known and not isinstance(callee, type):
            raise self.error("E0107", f"{name} cannot be called in a kernel", node)
        made = self.static_call(callee, args, kwargs, node)
        return Items([self.cell(v, self.span(node)) for v in made], self.ctx.depth) if isinstance(made, list) else made

    def static_call(self, callee: Callable, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """Run a Python function now."""
        plain = [list(a.values()) if isinstance(a, Items) else a for a in args]
        for a in plain:
            if isinstance(a, range) and callee is not len and (a.stop - a.start) // a.step > UNROLL_LIMIT:
                raise self.error("E0408", f"{ast.unparse(node)} walks {a}", node, f"at most {UNROLL_LIMIT} elements; use range() in a for statement")
        try:
            made = callee(*plain, **kwargs)
            return list(made) if callee in (zip, enumerate, reversed) else made
        except CompileError:
            raise
        except Exception as why:  # noqa: BLE001 a compile-time call of the author's fails with the author's line
            raise self.error("E0107", f"{ast.unparse(node)}: {why}", node) from None

    def _runtime_call(self, callee: Any, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """What a Python function means for run-time values."""
        if callee in (min, max, abs, pow, round):
            listed = args[0] if callee in (min, max) and len(args) == 1 else None
            return self.builtin_call(name, self.elements(listed) or args, kwargs, node)
        if callee is bool and len(args) == 1 and not kwargs:
            return self.convert(self.rvalue(args[0], self.span(node)), bool_, node)
        cells = self.elements(args[0]) if args and callee in (sum, any, all) and not kwargs and len(args) <= (2 if callee is sum else 1) else None
        if cells:
            span = self.span(node)
            values = [self.rvalue(v, span) for v in [*cells, *args[1:]]]
            total = values.pop() if len(args) == 2 else values.pop(0)
            for v in values:
                total = self.operate(_FOLDS[name], total, v, node)
            return total
        help = {"int": "write i32(...) or u32(...)", "float": "write f32(...)", "type": "write type_of(...)"}.get(name, "")
        raise self.error("E0107", f"{name}() takes no run-time values", node, help)

    def _length(self, value: Any, node: ast.AST) -> Any:
        if isinstance(value, Place) and isinstance(value.type, RuntimeArray):
            return self.b.node("array_length", u32, (value.ref,))
        if is_runtime(value):
            if isinstance(value.type, Array):
                return value.type.length
            if isinstance(value.type, Vector):
                return value.type.lanes
            raise self.error("E0107", f"{describe(value)} has no length", node, "len() takes a buffer, an array, a vector or a list")
        return self.static_call(len, [value], {}, node)
