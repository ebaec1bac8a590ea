"""Typing of operators: what may meet what, weak literals, and the messages when it may not.

No implicit narrowing, no int/float mix, no sign change. A literal takes the type of the other operand when it fits.
"""

from __future__ import annotations

import struct as _struct
from typing import Any

import numpy as np

from ..diagnostics import CompileError
from ..ir.build import Builder
from ..ir.nodes import Node, Span
from ..lang.coopmat import CoopMatrix
from ..lang.types import Scalar, Type, Vector, bool_, f32, i32, lanes_of, scalar_of, u32
from .values import describe

OPERATORS = {"Add": ("add", "add"), "Sub": ("sub", "subtract"), "Mult": ("mul", "multiply"), "Div": ("div", "divide"),
             "FloorDiv": ("floordiv", "floor-divide"), "Mod": ("mod", "take the modulo of"), "BitAnd": ("and", "and"), "BitOr": ("or", "or"),
             "BitXor": ("xor", "xor"), "LShift": ("shl", "shift"), "RShift": ("shr", "shift")}


def round_to(value: float, t: Scalar) -> float:
    """A float literal in the precision of `t` (round to nearest even); overflow gives inf."""
    if t.encoding == "bf16":
        bits = _struct.unpack("<I", _struct.pack("<f", np.float32(value)))[0]
        if (bits & 0x7F800000) != 0x7F800000:
            bits += 0x7FFF + ((bits >> 16) & 1)
        return _struct.unpack("<f", _struct.pack("<I", bits & 0xFFFF0000))[0]
    with np.errstate(over="ignore"):
        return float({16: np.float16, 32: np.float32, 64: np.float64}[t.bits](value))


def literal(b: Builder, value: Any, t: Type, span: Span, explicit: bool = False) -> Node:
    """A Python number as a constant of type `t` (vectors: splat). explicit: the author wrote t(value)."""
    s = scalar_of(t)
    if s is None or not isinstance(value, bool | int | float):
        raise _formless(value, f" as {t.name}", span)
    if isinstance(t, Vector):
        one = literal(b, value, s, span, explicit)
        return b.const(t, (one.attrs["value"],) * t.lanes)
    if s.is_bool != isinstance(value, bool) and not (explicit and s.is_bool is False):
        raise CompileError("E0206", f"{describe(value)} is not {s.name}", span, f"write {s.name}(...) or a {s.name} literal")
    if s.is_bool:
        return b.const(s, bool(value))
    if s.is_float:
        return b.const(s, _float_literal(value, s, span))
    if isinstance(value, float):
        if not explicit or value % 1 != 0:
            raise CompileError("E0206", f"float literal {value!r} where {s.name} is needed", span, f"write an int, or {s.name}(...) of a float value")
        value = int(value)
    low, high = s.range()
    if not low <= int(value) <= high:
        raise CompileError("E0203", f"{describe(value)} does not fit {s.name} ({low} to {high})", span)
    return b.const(s, int(value))


def _float_literal(value: bool | int | float, s: Scalar, span: Span) -> float:
    try:
        wide = float(value)
    except OverflowError:
        raise CompileError("E0203", f"{describe(value)} does not fit {s.name}", span) from None
    rounded = round_to(wide, s)
    if np.isinf(rounded) and not np.isinf(wide):
        raise CompileError("E0203", f"{value!r} does not fit {s.name}", span)
    return rounded


def default_type(value: Any, span: Span) -> Scalar:
    """The type a bare literal takes when nothing else says: bool, i32 or f32."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return i32
    if isinstance(value, float):
        return f32
    raise _formless(value, "", span)


def _formless(value: Any, where: str, span: Span) -> CompileError:
    help = ""
    if value is None:
        help = "a helper that returns nothing has no value: return one on every path"
    elif isinstance(value, np.number):
        help = "numpy's numbers are not literals: write float(...) or int(...) around it"
    return CompileError("E0213", f"{describe(value)} has no run-time form{where}", span, help)


def common_literal_type(values: Any, span: Span) -> Scalar:
    """The type bare literals take together: f32 when one is a float, else that of the first."""
    values = list(values)
    return default_type(next((v for v in values if isinstance(v, float)), values[0]), span)


def unify(b: Builder, a: Any, c: Any, verb: str, span: Span) -> tuple[Node, Node]:
    """Both operands as nodes of one type; a scalar meets a vector by splat."""
    if not isinstance(a, Node) and not isinstance(c, Node):
        t = common_literal_type((a, c), span)
        return literal(b, a, t, span), literal(b, c, t, span)
    if not isinstance(a, Node):
        return _weak(b, a, c.type, verb, span), c
    if not isinstance(c, Node):
        return a, _weak(b, c, a.type, verb, span)
    if a.type == c.type:
        return a, c
    if isinstance(a.type, Vector) and a.type.elem == c.type:
        return a, b.splat(c, a.type.lanes)
    if isinstance(c.type, Vector) and c.type.elem == a.type:
        return b.splat(a, c.type.lanes), c
    joint = {"divide": "by", "multiply": "by", "floor-divide": "by", "take the modulo of": "by", "subtract": "from"}.get(verb, "and")
    first, second = (c, a) if joint == "from" else (a, c)
    raise CompileError("E0207", f"cannot {verb} {first.type.name} {joint} {second.type.name}", span, _conversion_help(a.type, c.type))


def _weak(b: Builder, value: Any, t: Type, verb: str, span: Span) -> Node:
    s = scalar_of(t)
    if s is None:
        raise CompileError("E0202", f"cannot {verb} {t.name} and {describe(value)}", span)
    if isinstance(value, float) and s.is_int:
        raise CompileError("E0207", f"cannot {verb} {t.name} and the float literal {value!r}", span, f"write f32(...) around the {t.name}, or an int literal")
    return literal(b, value, t, span)


def _conversion_help(a: Type, c: Type) -> str:
    sa, sc = scalar_of(a), scalar_of(c)
    if sa is None or sc is None:
        return "numbers and vectors of numbers combine; read a member first"
    if isinstance(a, Vector) and isinstance(c, Vector) and a.lanes != c.lanes:
        return "both vectors need the same number of lanes"
    wide = a if (sa.is_float, sa.bits) >= (sc.is_float, sc.bits) else c
    return f"write {wide.name}(...) around the {(c if wide is a else a).name}; numbers never convert by themselves"


def binary(b: Builder, kind: str, a: Any, c: Any, span: Span) -> Node:
    """A run-time binary operator; kind is the ast class name (Add, Mod, LShift ...)."""
    op, verb = OPERATORS[kind]
    if any(isinstance(v, Node) and isinstance(v.type, CoopMatrix) for v in (a, c)):
        return _matrix(b, op, verb, a, c, span)
    if op in ("shl", "shr"):
        return _shift(b, op, a, c, span)
    x, y = unify(b, a, c, verb, span)
    s = scalar_of(x.type)
    if s is None:
        raise CompileError("E0202", f"cannot {verb} {x.type.name}", span)
    if op in ("and", "or", "xor"):
        if s.is_float:
            raise CompileError("E0202", f"bitwise {op} is not defined for {x.type.name}", span, "bitcast to u32 first")
        return b.binary(op, x, y)
    if s.is_bool:
        raise CompileError("E0202", f"cannot {verb} bool", span, "use select(), and, or, or u32(...)")
    if s.encoding == "bf16":
        raise CompileError("E0202", "bf16 has no arithmetic", span, "convert with f32(...), compute, convert back")
    if op == "div" and s.is_int:
        raise CompileError("E0202", f"/ on {x.type.name} would be a float in Python", span, "write // for integers, or convert to f32")
    if op in ("floordiv", "mod"):
        return _floor(b, op, x, y, s, span)
    return b.binary(op, x, y)


def _matrix(b: Builder, op: str, verb: str, a: Any, c: Any, span: Span) -> Node:
    """+ - * / of matrices of one type, per element; a scalar scales, and otherwise stands for a matrix full of it."""
    t = next(v.type for v in (a, c) if isinstance(v, Node) and isinstance(v.type, CoopMatrix))
    if op not in ("add", "sub", "mul", "div") or (op == "div" and t.elem.is_int):
        raise CompileError("E0202", f"cannot {verb} {t.name}", span, "matrices take + - * and, of floats, /; matrix_muladd(a, b, c) multiplies")
    x, y = (v if isinstance(v, Node) and v.type == t else coerce(b, v, t.elem, f"the other side of {t.name}", span, "E0703") for v in (a, c))
    if op == "mul" and x.type != y.type:
        return b.node("matrix_scale", t, (x, y) if x.type == t else (y, x))
    x, y = (v if v.type == t else b.node("matrix_fill", t, (v,)) for v in (x, y))
    return b.node(op, t, (x, y))


def _floor(b: Builder, op: str, x: Node, y: Node, s: Scalar, span: Span) -> Node:
    """`//` and `%` mean what Python means: exact for unsigned, by shift and mask for powers of two, else refused."""
    if s.is_float:
        raise CompileError("E0202", f"{'//' if op == 'floordiv' else '%'} is not defined for {x.type.name}", span, "use floor(a / b), or a - b * floor(a / b)")
    divisor = y.attrs["value"] if y.op == "const" else None
    if divisor == 0 or (isinstance(divisor, tuple) and 0 in divisor):
        raise CompileError("E0203", "division by zero", span)
    if s.kind == "u":
        return b.binary("div" if op == "floordiv" else "rem", x, y)
    if isinstance(divisor, tuple) and len(set(divisor)) == 1:
        divisor = divisor[0]
    if isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0:
        if op == "floordiv":
            return b.binary("shr", x, literal(b, divisor.bit_length() - 1, x.type, span))
        return b.binary("and", x, literal(b, divisor - 1, x.type, span))
    raise CompileError("E0208", f"{x.type.name} {'//' if op == 'floordiv' else '%'} by a value that is not a literal power of two", span,
                       "Python floors and SPIR-V truncates; use unsigned operands")


def _shift(b: Builder, op: str, a: Any, n: Any, span: Span) -> Node:
    if not isinstance(a, Node):
        a = literal(b, a, n.type, span)
    s = scalar_of(a.type)
    if s is None or not s.is_int:
        raise CompileError("E0202", f"cannot shift {a.type.name}", span, "shifts take integers")
    counts = n.attrs["value"] if isinstance(n, Node) and n.op == "const" else n
    for count in counts if isinstance(counts, tuple) else (counts,):
        if not isinstance(count, Node) and (not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < s.bits):
            raise CompileError("E0215", f"shift of {s.name} by {describe(count)}", span, f"a shift count is an int, 0 to {s.bits - 1}")
    if not isinstance(n, Node):
        return b.binary(op, a, literal(b, n, a.type, span))
    t = scalar_of(n.type)
    if t is None or not t.is_int:
        raise CompileError("E0202", f"cannot shift by {n.type.name}", span, "shift counts are integers")
    if isinstance(a.type, Vector) and isinstance(n.type, Scalar):
        n = b.splat(n, a.type.lanes)
    if lanes_of(n.type) != lanes_of(a.type):
        raise CompileError("E0202", f"cannot shift {a.type.name} by {n.type.name}", span)
    return b.binary(op, a, n)


def compare(b: Builder, op: str, a: Any, c: Any, span: Span) -> Node:
    """A run-time comparison: eq ne lt le gt ge."""
    x, y = unify(b, a, c, "compare", span)
    s = scalar_of(x.type)
    if s is None or (s.is_bool and op not in ("eq", "ne")):
        raise CompileError("E0202", f"cannot compare {x.type.name}", span, "numbers and vectors are compared; bools with == and !=")
    if s.encoding == "bf16":
        raise CompileError("E0202", "bf16 has no comparison", span, "convert with f32(...)")
    return b.binary(op, x, y)


def coerce(b: Builder, value: Any, t: Type, what: str, span: Span, code: str = "E0206") -> Node:
    """`value` as a `t`: weak literals convert, everything else must already have the type."""
    if isinstance(value, Node):
        if value.type != t:
            help = f"write {t.name}(...)" if scalar_of(t) and value.type is not None and scalar_of(value.type) else ""
            raise CompileError(code, f"{what} is {t.name}, the value is {value.type.name if value.type else 'nothing'}", span, help)
        return value
    return literal(b, value, t, span)


def index_node(b: Builder, value: Any, length: int | None, span: Span) -> Node:
    """An index as a 32-bit integer node; constants are checked against a known length."""
    if isinstance(value, bool) or not isinstance(value, Node | int):
        raise CompileError("E0210", f"index is {describe(value)}", span)
    if isinstance(value, Node) and value.type not in (u32, i32):
        s = scalar_of(value.type) if value.type is not None else None
        wide = s is not None and s.is_int and s.bits == 64 and isinstance(value.type, Scalar)
        raise CompileError("E0602" if wide else "E0210", f"index is {describe(value)}", span, "an index is u32 or i32; write u32(...)")
    known = value.attrs["value"] if isinstance(value, Node) and value.op == "const" else value
    if not isinstance(known, Node) and not 0 <= known < (length or 1 << 32):
        raise CompileError("E0211", f"index {known} is out of range{f' of {length} elements' if length is not None else ''}", span,
                           "negative indices do not wrap" if known < 0 else "")
    return value if isinstance(value, Node) else b.const(u32, value)
