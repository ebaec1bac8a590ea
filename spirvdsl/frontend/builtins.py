"""Meaning of the builtins of lang/builtins.py: each name maps to one handler that checks types and emits nodes.

Here are numbers and compile-time checks; memory and execution are in builtin_group.py, matrices in builtin_matrix.py.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Node, Span
from ..ir.ops import MATH, MATH_SPECIAL
from ..lang.builtins import BUILTINS
from ..lang.types import Type, Vector, bool_, f32, i32, lanes_of, scalar_of, u32, with_scalar
from .builtin_group import BuiltinGroup
from .builtin_matrix import BuiltinMatrix
from .typing import coerce, common_literal_type, default_type, literal, unify
from .values import Place, describe, is_runtime

_F64_MATH = ("abs", "sign", "floor", "ceil", "trunc", "fract", "round", "sqrt", "rsqrt", "min", "max", "clamp", "mix", "step", "smoothstep", "fma", "length", "normalize", "cross", "ldexp")
_BITS_32 = ("find_lsb", "find_msb", "bit_count", "bit_reverse", "bit_extract")  # Vulkan takes no other width


def takes_places(name: str) -> bool:
    """Whether a builtin wants memory itself and not what it holds."""
    return name.startswith("atomic_") or name in ("volatile_load", "type_of", "shared_view", "matrix_load", "matrix_store")


class BuiltinCalls(BuiltinGroup, BuiltinMatrix):
    """Handlers, mixed into the walker. `builtin_call` finds them by name."""

    def builtin_call(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """Check the arguments against the handler's signature, then let it check their types and emit."""
        handler = getattr(self, f"call_{name}", None) or self._generic(name)
        if not takes_places(name):
            span = self.span(node)
            args, kwargs = [self.rvalue(a, span) for a in args], {n: self.rvalue(v, span) for n, v in kwargs.items()}
        try:
            bound = inspect.signature(handler).bind(node, *args, **kwargs)
        except TypeError as why:
            raise self.error("E0105", f"{name}(): {why}", node, BUILTINS[name].__doc__ or "") from None
        return handler(*bound.args, **bound.kwargs)

    def _generic(self, name: str) -> Callable:
        """The handler of a builtin that is one of a family: maths, atomics, subgroups."""
        if name.startswith("subgroup_"):
            return self.subgroup_handler(name.removeprefix("subgroup_"))
        if name.startswith("atomic_"):
            return lambda node, place, value: self.atomic(name.removeprefix("atomic_"), place, [value], node)
        handlers = {1: lambda node, x: self._math(name, [x], node), 2: lambda node, x, y: self._math(name, [x, y], node),
                    3: lambda node, x, y, z: self._math(name, [x, y, z], node)}
        return handlers[MATH[name].arity]

    def call_min(self, node: ast.AST, x: Any, y: Any, *more: Any) -> Any:
        return self._fold("min", [x, y, *more], node)

    def call_max(self, node: ast.AST, x: Any, y: Any, *more: Any) -> Any:
        return self._fold("max", [x, y, *more], node)

    def _fold(self, name: str, values: list[Any], node: ast.AST) -> Any:
        out = values[0]
        for v in values[1:]:
            out = self._math(name, [out, v], node)
        return out

    # maths
    def _math(self, name: str, args: list[Any], node: ast.AST) -> Any:
        span, info = self.span(node), MATH[name]
        if name in MATH_SPECIAL:
            return self._math_special(name, args, node)
        nodes = self._same_type(args, name, span)
        t = nodes[0].type
        s = scalar_of(t)
        if s.is_bool or s.encoding == "bf16" or not (info.float_op if s.is_float else info.signed_op if s.is_signed else info.unsigned_op):
            raise self.error("E0202", f"{name}() is not defined for {t.name}", node)
        if s.bits == 64 and s.is_float and name not in _F64_MATH:
            raise self.error("E0202", f"{name}() has no f64 form in GLSL.std.450", node, "compute in f32")
        if name in _BITS_32 and s.bits != 32:
            raise self.error("E0202", f"{name}() takes 32-bit integers, this is {t.name}", node, "convert to u32")
        if name == "cross" and lanes_of(t) != 3:
            raise self.error("E0202", f"cross() takes vectors of 3, this is {t.name}", node, "write f32x3(...)")
        return self.b.math(name, *nodes)

    def _math_special(self, name: str, args: list[Any], node: ast.AST) -> Node:
        span = self.span(node)
        if name == "length":
            v = self._vector_arg(args[0], name, node)
            return self.b.math(name, v, type=v.type.elem)
        if name == "pack_half_2x16":
            return self.b.math(name, coerce(self.b, args[0], Vector(f32, 2), "the argument", span), type=u32)
        if name == "unpack_half_2x16":
            return self.b.math(name, coerce(self.b, args[0], u32, "the argument", span), type=Vector(f32, 2))
        base = self.typed_default(args[0], span)
        s = scalar_of(base.type) if base.type is not None else None
        if name == "ldexp":
            if s is None or not s.is_float or s.encoding == "bf16":
                raise self.error("E0202", f"ldexp() takes a float, this is {describe(base)}", node)
            return self.b.math(name, base, coerce(self.b, args[1], with_scalar(base.type, i32), "the exponent", span))
        if s is None or not s.is_int or s.bits != 32:
            raise self.error("E0202", f"bit_extract() takes 32-bit integers, this is {describe(base)}", node, "convert to u32")
        offset, count = args[1:]
        if all(isinstance(n, int) and not isinstance(n, bool) for n in (offset, count)) and not 0 <= offset <= offset + count <= 32:
            raise self.error("E0215", f"bits {offset} to {offset + count} of {describe(base)}", node, "offset and count are not negative, together at most 32")
        return self.b.math(name, base, *(coerce(self.b, a, u32, "offset and count", span) for a in (offset, count)))

    def _same_type(self, args: list[Any], name: str, span: Span) -> list[Node]:
        """All arguments in one type: weak literals follow the first typed argument; scalars splat to its vector."""
        typed = [a for a in args if isinstance(a, Node)]
        for a in typed:
            if a.type is None or scalar_of(a.type) is None:
                raise CompileError("E0202", f"{name}() takes numbers, not {describe(a)}", span, "read a member or an element first")
        if not typed:
            t = common_literal_type(args, span)
            return [literal(self.b, a, t, span) for a in args]
        lead = max(typed, key=lambda a: lanes_of(a.type))
        return [unify(self.b, lead, a, f"combine in {name}()", span)[1] if a is not lead else a for a in args]

    def _vector_arg(self, value: Any, name: str, node: ast.AST) -> Node:
        if not isinstance(value, Node) or not isinstance(value.type, Vector) or not value.type.elem.is_float:
            raise self.error("E0202", f"{name}() takes a float vector, this is {describe(value)}", node)
        return value

    def call_dot(self, node: ast.AST, a: Any, b: Any) -> Node:
        x, y = unify(self.b, a, b, "dot", self.span(node))
        self._vector_arg(x, "dot", node)
        return self.b.node("dot", x.type.elem, (x, y))

    def _int_dot(self, node: ast.AST, a: Any, b: Any, signs: tuple[bool, bool], acc: Any = None) -> Node:
        span = self.span(node)
        words = []
        for v in (a, b):
            v = v if isinstance(v, Node) else literal(self.b, v, u32, span)
            if v.type not in (u32, i32):
                raise self.error("E0202", f"packed dot takes u32 or i32 words, this is {describe(v)}", node, "bitcast four bytes to u32")
            words.append(self.b.bitcast(v, u32))
        t = i32 if any(signs) else u32
        extra = () if acc is None else (coerce(self.b, acc, t, "the accumulator", span),)
        return self.b.node("int_dot", t, (*words, *extra), signed_a=signs[0], signed_b=signs[1], saturate=acc is not None)

    def call_sdot4(self, node: ast.AST, a: Any, b: Any) -> Node:
        return self._int_dot(node, a, b, (True, True))

    def call_udot4(self, node: ast.AST, a: Any, b: Any) -> Node:
        return self._int_dot(node, a, b, (False, False))

    def call_sudot4(self, node: ast.AST, a: Any, b: Any) -> Node:
        return self._int_dot(node, a, b, (True, False))

    def call_sdot4_sat(self, node: ast.AST, a: Any, b: Any, acc: Any) -> Node:
        return self._int_dot(node, a, b, (True, True), acc)

    def call_select(self, node: ast.AST, cond: Any, a: Any, b: Any) -> Any:
        if not isinstance(cond, Node):
            return a if self.truth(cond, node) else b
        x, y = unify(self.b, a, b, "select from", self.span(node))
        s = scalar_of(cond.type)
        if s is None or not s.is_bool or (isinstance(cond.type, Vector) and lanes_of(cond.type) != lanes_of(x.type)):
            raise self.error("E0205", f"select() condition is {describe(cond)}", node, "it is a bool, or a bool vector with as many lanes as the values")
        if scalar_of(x.type) is None:
            raise self.error("E0202", f"select() takes numbers, bools and vectors, not {describe(x)}", node, "write a if cond else b")
        if isinstance(x.type, Vector) and cond.type == bool_:
            cond = self.b.splat(cond, x.type.lanes)
        return self.b.select(cond, x, y)

    def call_bitcast(self, node: ast.AST, value: Any, type: Any) -> Node:
        value = self.typed_default(value, self.span(node))
        have, want = scalar_of(value.type), scalar_of(type) if isinstance(type, Type) else None
        if have is None or want is None or have.is_bool or want.is_bool:
            raise self.error("E0202", f"cannot bitcast {describe(value)} to {describe(type)}", node, "bitcast(value, type) takes numbers and a number type")
        if have.bits * lanes_of(value.type) != want.bits * lanes_of(type):
            raise self.error("E0214", f"bitcast from {value.type.name} to {type.name} changes the size", node)
        return self.b.bitcast(value, type)

    def _float_test(self, node: ast.AST, op: str, name: str, x: Any) -> Node:
        s = scalar_of(x.type) if isinstance(x, Node) and x.type is not None else None
        if s is None or not s.is_float or s.encoding == "bf16":
            raise self.error("E0202", f"{name}() takes a float, this is {describe(x)}", node)
        return self.b.node(op, with_scalar(x.type, bool_), (x,))

    def call_isnan(self, node: ast.AST, x: Any) -> Node:
        return self._float_test(node, "is_nan", "isnan", x)

    def call_isinf(self, node: ast.AST, x: Any) -> Node:
        return self._float_test(node, "is_inf", "isinf", x)

    def _bool_fold(self, node: ast.AST, op: str, v: Any) -> Node:
        if not isinstance(v, Node) or not isinstance(v.type, Vector) or v.type.elem != bool_:
            raise self.error("E0202", f"{op}_true() takes a bool vector, this is {describe(v)}", node, "compare vectors: any_true(a < b)")
        return self.b.node(op, bool_, (v,))

    def call_any_true(self, node: ast.AST, v: Any) -> Node:
        return self._bool_fold(node, "any", v)

    def call_all_true(self, node: ast.AST, v: Any) -> Node:
        return self._bool_fold(node, "all", v)

    # compile time
    def call_static_range(self, node: ast.AST, *bounds: Any) -> range:
        if not 1 <= len(bounds) <= 3:
            raise self.error("E0105", f"static_range() takes 1 to 3 bounds, got {len(bounds)}", node, BUILTINS["static_range"].__doc__)
        for b in bounds:
            if isinstance(b, bool) or not isinstance(b, int):
                raise self.error("E0405", f"static_range() bound is {describe(b)}, not a compile-time int", node, "use range() for run-time bounds")
        if len(bounds) == 3 and bounds[2] == 0:
            raise self.error("E0404", "static_range() step is 0", node, "a step is a non-zero int")
        return range(*bounds)

    def call_static_assert(self, node: ast.Call, condition: Any, message: Any = "") -> None:
        if is_runtime(condition):
            raise self.error("E0405", "static_assert() condition is a run-time value", node)
        if not self.truth(condition, node):
            shown = message if isinstance(message, str) else describe(message)
            raise self.error("E0503", f"static_assert failed: {shown or ast.unparse(node)}", node)

    def call_type_of(self, node: ast.AST, value: Any) -> Type:
        if isinstance(value, Place | Node) and value.type is not None:
            return value.type
        return default_type(value, self.span(node))
