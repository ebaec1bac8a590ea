"""Type rules of every op, as ops.py states them: one small function per group, returning what is wrong or None."""

from __future__ import annotations

from collections.abc import Callable

from ..lang.coopmat import CoopMatrix
from ..lang.types import (
    Array,
    Ref,
    RuntimeArray,
    Scalar,
    Struct,
    Type,
    Vector,
    bool_,
    f32,
    i32,
    lanes_of,
    scalar_of,
    u32,
    with_scalar,
)
from .nodes import Node
from .ops import MATH
from .verify_matrix import MATRIX_RULES, convert_problem, elementwise_problem, index_problem

_BUILTINS = {
    **dict.fromkeys(("global_id", "group_id", "num_groups", "local_id"), Vector(u32, 3)),
    **dict.fromkeys(("local_index", "subgroup_id", "num_subgroups", "subgroup_size", "subgroup_lane"), u32),
}
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_SUBGROUP_ARITY = {"elect": 0, "broadcast": 2, "shuffle": 2, "shuffle_xor": 2, "shuffle_up": 2, "shuffle_down": 2,
                   "quad_broadcast": 2, "rotate": 2}
_SUBGROUP_RESULT = {"elect": bool_, "all": bool_, "any": bool_, "all_equal": bool_, "ballot": Vector(u32, 4),
                    "ballot_bit_count": u32, "inverse_ballot": bool_}
_SUBGROUP_FNS = ("add", "mul", "min", "max", "and", "or", "xor", "elect", "all", "any", "all_equal", "ballot", "broadcast",
                 "broadcast_first", "shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "quad_broadcast", "quad_swap",
                 "ballot_bit_count", "inverse_ballot", "rotate")
_ATOMIC_ARITY = {"load": 1, "compare_exchange": 3}
_ATOMIC_FNS = ("add", "sub", "min", "max", "and", "or", "xor", "exchange", "compare_exchange", "load", "store")


def problem_of(node: Node) -> str | None:
    """What breaks the type rules of `node`, or None."""
    return _RULES[node.op](node)


def _args(node: Node) -> list[Type]:
    return [a.type for a in node.args]


def _bits(t: Type) -> int | None:
    s = scalar_of(t)
    return None if s is None or s.is_bool else s.bits * lanes_of(t)


def fits(t: Type, value) -> bool:
    """True when a const attribute is a value of type `t`."""
    if isinstance(t, Scalar):
        if t.is_bool:
            return isinstance(value, bool)
        if t.is_float:
            return isinstance(value, float | int) and not isinstance(value, bool)
        lo, hi = t.range()
        return isinstance(value, int) and not isinstance(value, bool) and lo <= value <= hi
    if isinstance(t, Vector | Array):
        n = t.lanes if isinstance(t, Vector) else t.length
        return isinstance(value, tuple) and len(value) == n and all(fits(t.elem, v) for v in value)
    if isinstance(t, Struct):
        return isinstance(value, tuple) and len(value) == len(t.fields) and all(map(fits, (f.type for f in t.fields), value))
    return False


def _const(node: Node) -> str | None:
    return None if fits(node.type, node.attrs["value"]) else f"value {node.attrs['value']!r} is not a {node.type}"


def _local(node: Node) -> str | None:
    t = node.type
    ok = isinstance(t, Ref) and t.storage == "function" and not isinstance(t.elem, Ref | RuntimeArray)
    return None if ok and isinstance(node.attrs["name"], str) else "is not a named Ref in function storage"


def _resource(node: Node) -> str | None:
    r = node.attrs["resource"]
    return None if node.type == Ref(r.type, r.kind) else f"type is not a Ref to {r.type} in {r.kind}"


def _index(node: Node) -> str | None:
    ref, i = _args(node)
    if isinstance(ref, Ref) and isinstance(ref.elem, CoopMatrix):
        return index_problem(node)
    if not isinstance(ref, Ref) or not isinstance(ref.elem, Array | RuntimeArray | Vector):
        return f"cannot index {ref}"
    if i not in (i32, u32):
        return f"index is {i}, not a 32-bit integer"
    return None if node.type == Ref(ref.elem.elem, ref.storage) else f"type should be {Ref(ref.elem.elem, ref.storage)}"


def _member(node: Node) -> str | None:
    ref = node.args[0].type
    if not isinstance(ref, Ref) or not isinstance(ref.elem, Struct):
        return f"{ref} has no members"
    field = ref.elem.fields[node.attrs["field"]]
    return None if node.type == Ref(field.type, ref.storage) else f"type should be {Ref(field.type, ref.storage)}"


def _load(node: Node) -> str | None:
    ref = node.args[0].type
    ok = isinstance(ref, Ref) and node.type == ref.elem and not isinstance(ref.elem, RuntimeArray)
    return None if ok else f"cannot load {node.type} from {ref}"


def _store(node: Node) -> str | None:
    ref, value = _args(node)
    if not isinstance(ref, Ref) or ref.elem != value or isinstance(value, RuntimeArray):
        return f"cannot store {value} to {ref}"
    return None if ref.storage not in ("uniform", "push") else f"stores to {ref.storage} memory"


def _array_length(node: Node) -> str | None:
    ref = node.args[0].type
    ok = isinstance(ref, Ref) and isinstance(ref.elem, RuntimeArray) and ref.storage == "storage" and node.type == u32
    return None if ok else "is not the u32 length of a storage resource's runtime array"


def _arithmetic(kinds: str) -> Callable[[Node], str | None]:
    def rule(node: Node) -> str | None:
        a, *rest = _args(node)
        if isinstance(a, CoopMatrix):
            return elementwise_problem(node)
        s = scalar_of(a)
        if s is None or s.kind not in kinds:
            return f"is not defined for {a}"
        if any(t != a for t in rest):
            return f"argument types differ: {a}, {rest[0]}"
        expected = with_scalar(a, bool_) if node.op in _COMPARE else a
        return None if node.type == expected else f"type should be {expected}"

    return rule


def _shift(node: Node) -> str | None:
    x, n = _args(node)
    sx, sn = scalar_of(x), scalar_of(n)
    if sx is None or sn is None or not sx.is_int or not sn.is_int or lanes_of(x) != lanes_of(n):
        return f"cannot shift {x} by {n}"
    return None if node.type == x else f"type should be {x}"


def _select(node: Node) -> str | None:
    cond, a, b = _args(node)
    if a != b or node.type != a or isinstance(a, Ref):
        return f"chooses between {a} and {b} as {node.type}"
    vector = isinstance(cond, Vector) and cond.elem == bool_ and isinstance(a, Vector) and cond.lanes == a.lanes
    return None if cond == bool_ or vector else f"condition is {cond}"


def _any_all(node: Node) -> str | None:
    a = node.args[0].type
    return None if isinstance(a, Vector) and a.elem == bool_ and node.type == bool_ else f"takes a bool vector, has {a}"


def _float_test(node: Node) -> str | None:
    a = node.args[0].type
    s = scalar_of(a)
    return None if s is not None and s.is_float and node.type == with_scalar(a, bool_) else f"takes a float, has {a}"


def _convert(node: Node) -> str | None:
    a = node.args[0].type
    if isinstance(a, CoopMatrix):
        return convert_problem(node)
    s, d = scalar_of(a), scalar_of(node.type)
    ok = s is not None and d is not None and lanes_of(a) == lanes_of(node.type) and not d.is_bool
    return None if ok else f"cannot convert {a} to {node.type}"


def _bitcast(node: Node) -> str | None:
    a = node.args[0].type
    return None if _bits(a) is not None and _bits(a) == _bits(node.type) else f"{a} and {node.type} have different sizes"


def _vector(node: Node) -> str | None:
    t = node.type
    if not isinstance(t, Vector) or any(scalar_of(a) != t.elem for a in _args(node)):
        return "parts are not components of the vector"
    return None if sum(map(lanes_of, _args(node))) == t.lanes else f"parts do not fill {t}"


def _splat(node: Node) -> str | None:
    t = node.type
    return None if isinstance(t, Vector) and node.args[0].type == t.elem else f"cannot splat {node.args[0].type} to {t}"


def member_type(t: Type, i: int) -> Type | None:
    """Type of member `i` of a composite value, None where there is none."""
    if isinstance(t, Struct):
        return t.fields[i].type if 0 <= i < len(t.fields) else None
    n = t.lanes if isinstance(t, Vector) else t.length if isinstance(t, Array) else t.size if isinstance(t, CoopMatrix) else 0
    return t.elem if 0 <= i < n else None


def _extract(node: Node) -> str | None:
    path = node.attrs["index"]
    t: Type | None = node.args[0].type
    for i in (path,) if isinstance(path, int) else path:
        t = member_type(t, i) if t is not None else None
    return None if t is not None and t == node.type else f"no {node.type} at {path} of {node.args[0].type}"


def _extract_dynamic(node: Node) -> str | None:
    v, i = _args(node)
    ok = isinstance(v, Vector) and i in (i32, u32) and node.type == v.elem
    return None if ok else f"cannot take lane {i} of {v} as {node.type}"


def _insert(node: Node) -> str | None:
    value, element = _args(node)
    ok = member_type(value, node.attrs["index"]) == element and node.type == value
    return None if ok else f"cannot put {element} at {node.attrs['index']} of {value}"


def _shuffle(node: Node) -> str | None:
    a, b = _args(node)
    lanes = node.attrs["lanes"]
    if not isinstance(a, Vector) or not isinstance(b, Vector) or a.elem != b.elem:
        return f"cannot shuffle {a} and {b}"
    result = Vector(a.elem, len(lanes)) if len(lanes) > 1 else a.elem
    ok = node.type == result and all(0 <= i < a.lanes + b.lanes for i in lanes)
    return None if ok else f"lanes {lanes} do not make {node.type}"


def _struct(node: Node) -> str | None:
    t = node.type
    return None if isinstance(t, Struct) and [f.type for f in t.fields] == _args(node) else f"members do not make {t}"


def _array(node: Node) -> str | None:
    t = node.type
    return None if isinstance(t, Array) and [t.elem] * t.length == _args(node) else f"elements do not make {t}"


def _math(node: Node) -> str | None:
    fn, args = node.attrs["fn"], _args(node)
    info = MATH.get(fn)
    if info is None or len(args) != info.arity:
        return f"math {fn} is unknown or has {len(args)} arguments"
    a = args[0]
    s = scalar_of(a)
    if s is None or not (info.float_op if s.is_float else info.signed_op if s.is_signed else info.unsigned_op):
        return f"math {fn} is not defined for {a}"
    expected = {
        "ldexp": ([a, with_scalar(a, i32)], a), "length": ([a], s), "bit_extract": ([a, u32, u32], a),
        "pack_half_2x16": ([Vector(f32, 2)], u32), "unpack_half_2x16": ([u32], Vector(f32, 2)),
    }.get(fn, ([a] * info.arity, a))
    return None if (args, node.type) == expected else f"math {fn} of {args} is not {node.type}"


def _dot(node: Node) -> str | None:
    a, b = _args(node)
    ok = isinstance(a, Vector) and a == b and a.elem.is_float and node.type == a.elem
    return None if ok else f"cannot take the dot product of {a} and {b} as {node.type}"


def _int_dot(node: Node) -> str | None:
    at, args = node.attrs, _args(node)
    result = i32 if at["signed_a"] or at["signed_b"] else u32
    if any(t not in (i32, u32) for t in args[:2]) or node.type != result:
        return f"takes packed u32 or i32 and yields {result}"
    if len(args) == 3:
        return None if args[2] == result and bool(at.get("saturate")) else "accumulator has the wrong type or does not saturate"
    return None


def _atomic(node: Node) -> str | None:
    fn, (ref, *values) = node.attrs["fn"], _args(node)
    if fn not in _ATOMIC_FNS or len(node.args) != _ATOMIC_ARITY.get(fn, 2):
        return f"atomic {fn} is unknown or has {len(node.args)} arguments"
    if not isinstance(ref, Ref) or ref.storage not in ("workgroup", "storage") or not isinstance(ref.elem, Scalar):
        return f"atomic on {ref}"
    t = ref.elem
    allowed = t.is_int and t.bits >= 32 or t.is_float and fn in ("add", "exchange", "load", "store")
    if not allowed or any(v != t for v in values):
        return f"atomic {fn} is not defined for {t}"
    expected = None if fn == "store" else t
    return None if node.type == expected else f"atomic {fn} yields {expected or 'nothing'}"


def _subgroup(node: Node) -> str | None:
    fn, args = node.attrs["fn"], _args(node)
    if fn not in _SUBGROUP_FNS or len(args) != _SUBGROUP_ARITY.get(fn, 1):
        return f"subgroup {fn} is unknown or has {len(args)} arguments"
    if len(args) == 2 and args[1] not in (u32, i32):
        return f"subgroup {fn}: lane is {args[1]}, not a 32-bit integer"
    expected = _SUBGROUP_RESULT.get(fn) or args[0]
    return None if node.type == expected else f"subgroup {fn} yields {expected}"


def _call(node: Node) -> str | None:
    fn = node.attrs["function"]
    ok = [p.type for p in fn.params] == _args(node) and node.type == fn.result
    return None if ok else f"call of {fn.name}() does not match its parameters or result"


def _if(node: Node) -> str | None:
    return None if node.args[0].type == bool_ else f"condition is {node.args[0].type}, not bool"


def _fine(node: Node) -> str | None:
    return None


_RULES: dict[str, Callable[[Node], str | None]] = {
    "const": _const, "undef": _fine, "param": _fine, "local": _local, "resource": _resource,
    "spec_const": lambda n: None if n.type == n.attrs["spec"].type else "type is not the constant's",
    "builtin": lambda n: None if n.type == _BUILTINS.get(n.attrs["name"]) else f"builtin {n.attrs['name']} is not {n.type}",
    "index": _index, "member": _member, "load": _load, "store": _store, "array_length": _array_length,
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "neg"), _arithmetic("fiu")),
    **dict.fromkeys(("and", "or", "xor", "not"), _arithmetic("iub")),
    **dict.fromkeys(("eq", "ne"), _arithmetic("fiub")), **dict.fromkeys(("lt", "le", "gt", "ge"), _arithmetic("fiu")),
    "shl": _shift, "shr": _shift, "select": _select, "any": _any_all, "all": _any_all,
    "is_nan": _float_test, "is_inf": _float_test, "convert": _convert, "bitcast": _bitcast,
    "vector": _vector, "splat": _splat, "extract": _extract, "extract_dynamic": _extract_dynamic, "insert": _insert,
    "shuffle": _shuffle, "struct": _struct, "array": _array, "math": _math, "dot": _dot, "int_dot": _int_dot,
    **MATRIX_RULES, "atomic": _atomic, "subgroup": _subgroup, "call": _call, "if": _if,
    "barrier": lambda n: None if n.attrs["scope"] in ("workgroup", "subgroup") else f"barrier of scope {n.attrs['scope']}",
    "memory_barrier": lambda n: None if n.attrs["scope"] in ("device", "workgroup", "subgroup") else "scope is unknown",
    **dict.fromkeys(("loop", "break", "continue", "return", "unreachable", "yield"), _fine),
}
