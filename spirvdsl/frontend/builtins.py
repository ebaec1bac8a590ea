"""Meaning of the builtins of lang/builtins.py: each name maps to one handler that checks types and emits nodes."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Node, Resource, Span
from ..ir.ops import MATH, MATH_SPECIAL
from ..lang.builtins import ATOMICS, BUILTINS, REDUCTIONS
from ..lang.layout import size_of, stride_of
from ..lang.types import Array, Scalar, Type, Vector, bool_, f32, i32, lanes_of, scalar_of, u32, with_scalar
from .typing import coerce, default_type, literal, unify
from .values import Place, is_runtime

_F64_MATH = ("abs", "sign", "floor", "ceil", "trunc", "fract", "round", "sqrt", "rsqrt", "min", "max", "clamp", "mix", "step", "smoothstep", "fma", "length", "normalize", "cross", "ldexp")
_FLOAT_ATOMICS = ("add", "exchange")


class BuiltinCalls:
    """Handlers, mixed into the walker. `builtin_call` finds them by name."""

    def builtin_call(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        span = self.span(node)
        own = getattr(self, f"call_{name}", None)
        if own is not None:
            try:
                inspect.signature(own).bind(node, *args, **kwargs)
            except TypeError as why:
                raise self.error("E0105", f"{name}(): {why}", node, _usage(name)) from None
            return own(node, *args, **kwargs)
        if name.startswith("subgroup_"):
            return self._subgroup(name.removeprefix("subgroup_"), args, kwargs, node)
        if name.startswith("atomic_") and name.removeprefix("atomic_") in ATOMICS:
            self._arity(name, args, kwargs, 2, node)
            return self._atomic(name.removeprefix("atomic_"), args[0], [args[1]], node)
        if name in MATH:
            self._arity(name, args, kwargs, MATH[name].arity, node)
            return self._math(name, [self.rvalue(a, span) for a in args], node)
        raise self.error("E0901", f"builtin {name} has no handler", node)

    def _arity(self, name: str, args: list[Any], kwargs: dict[str, Any], want: int, node: ast.Call) -> None:
        if len(args) != want or kwargs:
            raise self.error("E0105", f"{name}() takes {want} arguments, got {len(args) + len(kwargs)}", node, _usage(name))

    # maths
    def _math(self, name: str, args: list[Any], node: ast.Call) -> Any:
        span, info = self.span(node), MATH[name]
        if name in MATH_SPECIAL:
            return self._math_special(name, args, node)
        nodes = self._same_type(args, name, span)
        s = scalar_of(nodes[0].type)
        if s is None or s.is_bool or s.encoding == "bf16":
            raise self.error("E0202", f"{name}() is not defined for {nodes[0].type.name}", node)
        op = info.float_op if s.is_float else info.signed_op if s.is_signed else info.unsigned_op
        if not op:
            raise self.error("E0202", f"{name}() is not defined for {nodes[0].type.name}", node, "convert the arguments first")
        if s.bits == 64 and s.is_float and name not in _F64_MATH:
            raise self.error("E0202", f"{name}() has no f64 form in GLSL.std.450", node, "compute in f32")
        if s.is_int and s.bits != 32 and name in ("find_lsb", "find_msb", "bit_count", "bit_reverse"):
            raise self.error("E0202", f"{name}() takes 32-bit integers, this is {nodes[0].type.name}", node, "convert to u32")
        return self.b.math(name, *nodes)

    def _math_special(self, name: str, args: list[Any], node: ast.Call) -> Node:
        span = self.span(node)
        if name == "length":
            v = self._vector_arg(args[0], name, node)
            return self.b.math(name, v, type=v.type.elem)
        if name == "pack_half_2x16":
            return self.b.math(name, coerce(self.b, args[0], Vector(f32, 2), "the argument", span), type=u32)
        if name == "unpack_half_2x16":
            return self.b.math(name, coerce(self.b, args[0], u32, "the argument", span), type=Vector(f32, 2))
        base = args[0] if isinstance(args[0], Node) else self.typed_default(args[0], span)
        if name == "ldexp":
            return self.b.math(name, base, coerce(self.b, args[1], with_scalar(base.type, i32), "the exponent", span))
        return self.b.math(name, base, *(coerce(self.b, a, u32, "offset and count", span) for a in args[1:]))

    def _same_type(self, args: list[Any], name: str, span: Span) -> list[Node]:
        """All arguments in one type: weak literals follow the first typed argument; scalars splat to its vector."""
        typed = [a for a in args if isinstance(a, Node)]
        for a in typed:
            if a.type is None or scalar_of(a.type) is None:
                raise CompileError("E0202", f"{name}() takes numbers, not {a.type.name if a.type else 'nothing'}", span)
        if not typed:
            t = default_type(next((a for a in args if isinstance(a, float)), args[0]), span)
            return [literal(self.b, a, t, span) for a in args]
        lead = max(typed, key=lambda a: lanes_of(a.type))
        return [unify(self.b, lead, a, f"combine in {name}()", span)[1] if a is not lead else a for a in args]

    def _vector_arg(self, value: Any, name: str, node: ast.AST) -> Node:
        if not isinstance(value, Node) or not isinstance(value.type, Vector) or not value.type.elem.is_float:
            raise self.error("E0202", f"{name}() takes a float vector", node)
        return value

    def call_dot(self, node: ast.Call, a: Any, b: Any) -> Node:
        x, y = unify(self.b, self.rvalue(a, self.span(node)), self.rvalue(b, self.span(node)), "dot", self.span(node))
        self._vector_arg(x, "dot", node)
        return self.b.node("dot", x.type.elem, (x, y))

    def _int_dot(self, node: ast.Call, a: Any, b: Any, signs: tuple[bool, bool], acc: Any = None) -> Node:
        span = self.span(node)
        words = []
        for v in (a, b):
            v = self.rvalue(v, span)
            v = v if isinstance(v, Node) else literal(self.b, v, u32, span)
            if v.type not in (u32, i32):
                raise self.error("E0202", f"packed dot takes u32 or i32 words, this is {v.type.name}", node, "bitcast four bytes to u32")
            words.append(self.b.bitcast(v, u32))
        t = i32 if any(signs) else u32
        extra = () if acc is None else (coerce(self.b, self.rvalue(acc, span), t, "the accumulator", span),)
        return self.b.node("int_dot", t, (*words, *extra), signed_a=signs[0], signed_b=signs[1], saturate=acc is not None)

    def call_sdot4(self, node: ast.Call, a: Any, b: Any) -> Node:
        return self._int_dot(node, a, b, (True, True))

    def call_udot4(self, node: ast.Call, a: Any, b: Any) -> Node:
        return self._int_dot(node, a, b, (False, False))

    def call_sudot4(self, node: ast.Call, a: Any, b: Any) -> Node:
        return self._int_dot(node, a, b, (True, False))

    def call_sdot4_sat(self, node: ast.Call, a: Any, b: Any, acc: Any) -> Node:
        return self._int_dot(node, a, b, (True, True), acc)

    def call_select(self, node: ast.Call, cond: Any, a: Any, b: Any) -> Any:
        span = self.span(node)
        cond = self.rvalue(cond, span)
        if not isinstance(cond, Node):
            return a if cond else b
        x, y = unify(self.b, self.rvalue(a, span), self.rvalue(b, span), "select from", span)
        if scalar_of(cond.type) != bool_ or (isinstance(cond.type, Vector) and lanes_of(cond.type) != lanes_of(x.type)):
            raise self.error("E0205", f"select() condition is {cond.type.name}", node, "it is a bool, or a bool vector with as many lanes as the values")
        if isinstance(x.type, Vector) and cond.type == bool_:
            cond = self.b.splat(cond, x.type.lanes)
        return self.b.select(cond, x, y)

    def call_bitcast(self, node: ast.Call, value: Any, type: Any) -> Node:
        value = self.rvalue(value, self.span(node))
        value = value if isinstance(value, Node) else self.typed_default(value, self.span(node))
        have, want = scalar_of(value.type), scalar_of(type) if isinstance(type, Type) else None
        if have is None or want is None or have.is_bool or want.is_bool:
            raise self.error("E0202", "bitcast(value, type) takes numbers and a number type", node)
        if have.bits * lanes_of(value.type) != want.bits * lanes_of(type):
            raise self.error("E0214", f"bitcast from {value.type.name} to {type.name} changes the size", node, "both sides need the same number of bits")
        return self.b.bitcast(value, type)

    def _float_test(self, node: ast.Call, op: str, x: Any) -> Node:
        x = self.rvalue(x, self.span(node))
        if not isinstance(x, Node) or not (scalar_of(x.type) and scalar_of(x.type).is_float):
            raise self.error("E0202", f"{op}() takes a float", node)
        return self.b.node(op, with_scalar(x.type, bool_), (x,))

    def call_isnan(self, node: ast.Call, x: Any) -> Node:
        return self._float_test(node, "is_nan", x)

    def call_isinf(self, node: ast.Call, x: Any) -> Node:
        return self._float_test(node, "is_inf", x)

    def _bool_fold(self, node: ast.Call, op: str, v: Any) -> Node:
        v = self.rvalue(v, self.span(node))
        if not isinstance(v, Node) or not isinstance(v.type, Vector) or v.type.elem != bool_:
            raise self.error("E0202", f"{op}_true() takes a bool vector", node)
        return self.b.node(op, bool_, (v,))

    def call_any_true(self, node: ast.Call, v: Any) -> Node:
        return self._bool_fold(node, "any", v)

    def call_all_true(self, node: ast.Call, v: Any) -> Node:
        return self._bool_fold(node, "all", v)

    # memory and execution
    def call_barrier(self, node: ast.Call, storage: bool = False) -> None:
        self.b.node("barrier", None, scope="workgroup", memory=("workgroup", "storage") if storage else ("workgroup",))

    def call_subgroup_barrier(self, node: ast.Call) -> None:
        self.b.node("barrier", None, scope="subgroup", memory=("workgroup",))

    def call_memory_barrier(self, node: ast.Call, scope: str = "device") -> None:
        if scope not in ("device", "workgroup", "subgroup"):
            raise self.error("E0105", f"memory_barrier scope {scope!r}", node, "device, workgroup or subgroup")
        self.b.node("memory_barrier", None, scope=scope, memory=("workgroup", "storage"))

    def call_shared(self, node: ast.Call, type: Any, length: Any) -> Place:
        """One array per call site: a library function called twice uses its array twice (it brackets use with barriers)."""
        array = self._array_type(node, type, length)
        key = (self.frame.source.file, node.lineno, node.col_offset, array)
        made = self.ctx.shared.get(key)
        if made is None:
            taken = {r.name for r in self.ctx.module.resources}
            name = next(n for n in (f"shared{i or ''}" for i in range(1000)) if n not in taken)
            made = Resource(name, "workgroup", array, self.span(node))
            self.ctx.module.resources.append(made)
            self.ctx.shared[key] = made
        return Place(self.b.resource(made), made, made.name)

    def call_local_array(self, node: ast.Call, type: Any, length: Any) -> Place:
        return Place(self.b.local(self._array_type(node, type, length), "array"), None, "local array")

    def _array_type(self, node: ast.Call, type: Any, length: Any) -> Array:
        if not isinstance(type, Type) or is_runtime(length) or not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise self.error("E0305", "an array needs a type and a positive compile-time length", node, "shared(f32, 256)")
        try:
            size_of(type), stride_of(Array(type, length))
        except TypeError as why:
            raise self.error("E0305", str(why), node) from None
        return Array(type, length)

    def call_static_range(self, node: ast.Call, *bounds: Any) -> range:
        if not 1 <= len(bounds) <= 3 or any(is_runtime(b) or isinstance(b, bool) or not isinstance(b, int) for b in bounds):
            raise self.error("E0405", "static_range() bounds are not compile-time ints", node, "use range() for run-time bounds")
        if len(bounds) == 3 and bounds[2] == 0:
            raise self.error("E0405", "static_range() step is 0", node)
        return range(*bounds)

    def call_static_assert(self, node: ast.Call, condition: Any, message: str = "") -> None:
        if is_runtime(condition):
            raise self.error("E0405", "static_assert() condition is a run-time value", node)
        if not condition:
            raise self.error("E0503", f"static_assert failed: {message or ast.unparse(node.args[0])}", node)

    def call_type_of(self, node: ast.Call, value: Any) -> Type:
        if isinstance(value, Place | Node) and value.type is not None:
            return value.type
        return default_type(value, self.span(node))

    def call_volatile_load(self, node: ast.Call, place: Any) -> Node:
        if not isinstance(place, Place):
            raise self.error("E0308", "volatile_load() takes an element of a buffer", node)
        return self.load(place, self.span(node), volatile=True)

    def call_atomic_load(self, node: ast.Call, place: Any) -> Node:
        return self._atomic("load", place, [], node)

    def call_atomic_store(self, node: ast.Call, place: Any, value: Any) -> None:
        self._atomic("store", place, [value], node)

    def call_atomic_compare_exchange(self, node: ast.Call, place: Any, expected: Any, value: Any) -> Node:
        return self._atomic("compare_exchange", place, [value, expected], node)

    def _atomic(self, fn: str, place: Any, values: list[Any], node: ast.Call) -> Node:
        span = self.span(node)
        if not isinstance(place, Place) or place.resource is None or place.resource.kind not in ("storage", "workgroup"):
            raise self.error("E0307", f"atomic_{fn}() takes an element of a buffer or of workgroup memory", node, "x[i] of an InOut buffer or a shared array")
        t = place.type
        fits = isinstance(t, Scalar) and (t.is_int and t.bits in (32, 64) or (t == f32 and fn in (*_FLOAT_ATOMICS, "load", "store")))
        if not fits:
            raise self.error("E0307", f"atomic_{fn}() on {t.name}", node, "atomics work on u32, i32, u64, i64, and add and exchange on f32")
        if fn != "load":
            self.writable(place, span)
        if place.resource.access != "out" or fn not in ("store",):
            place.resource.read = True
        scope = "workgroup" if place.resource.kind == "workgroup" else "device"
        args = tuple(coerce(self.b, self.rvalue(v, span), t, place.what, span) for v in values)
        return self.b.node("atomic", None if fn == "store" else t, (place.ref, *args), fn=fn, scope=scope)

    # subgroups
    def _subgroup(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Node:
        span = self.span(node)
        mode, fn = "reduce", name
        for m in ("inclusive", "exclusive"):
            if name.startswith(m + "_"):
                mode, fn = m, name.removeprefix(m + "_")
        values = [self.rvalue(a, span) for a in args]
        if fn in REDUCTIONS:
            return self._subgroup_reduce(fn, mode, values, kwargs, node)
        want = {"elect": 0, "broadcast_first": 1, "all": 1, "any": 1, "all_equal": 1, "ballot": 1}.get(fn, 2)
        self._arity(f"subgroup_{fn}", values, kwargs, want, node)
        if fn == "elect":
            return self.b.node("subgroup", bool_, (), fn=fn)
        x = values[0] if isinstance(values[0], Node) else self.typed_default(values[0], span)
        if x.type is None or scalar_of(x.type) is None:
            raise self.error("E0701", f"subgroup_{fn}() takes numbers", node)
        if fn in ("all", "any", "ballot") and x.type != bool_:
            raise self.error("E0205", f"subgroup_{fn}() takes a bool, this is {x.type.name}", node, "compare it: x != 0")
        result = {"all": bool_, "any": bool_, "all_equal": bool_, "ballot": Vector(u32, 4)}.get(fn, x.type)
        extra = tuple(coerce(self.b, v, u32, "the lane", span) for v in values[1:])
        return self.b.node("subgroup", result, (x, *extra), fn=fn)

    def _subgroup_reduce(self, fn: str, mode: str, values: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Node:
        cluster = kwargs.pop("cluster", None)
        self._arity(f"subgroup_{fn}", values, kwargs, 1, node)
        if cluster is not None and (not isinstance(cluster, int) or cluster < 1 or cluster & (cluster - 1) or mode != "reduce"):
            raise self.error("E0701", f"cluster size {cluster!r}", node, "a cluster is a compile-time power of two, for plain reductions")
        x = values[0] if isinstance(values[0], Node) else self.typed_default(values[0], self.span(node))
        s = scalar_of(x.type) if x.type else None
        if s is None or s.encoding == "bf16" or (s.is_bool and fn not in ("and", "or", "xor")) or (s.is_float and fn in ("and", "or", "xor")):
            raise self.error("E0701", f"subgroup_{fn}() is not defined for {x.type.name if x.type else 'nothing'}", node)
        return self.b.node("subgroup", x.type, (x,), fn=fn, mode=mode, cluster=cluster)


def takes_places(name: str) -> bool:
    """Builtins whose first argument is a place or a type, not a value that is read for the call."""
    return name.startswith("atomic_") or name in ("volatile_load", "type_of")


def _usage(name: str) -> str:
    return BUILTINS[name].__doc__ or ""
