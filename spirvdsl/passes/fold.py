"""Constant folding and the algebra that is exact.

Integers, bools and comparisons fold by the interpreter's own functions, so a folded kernel computes what the unfolded one
does. Floats fold only where every operand is constant, for add, sub, mul, neg and conversions, and only when operands
and result are normal numbers: what a device does with NaN, infinity and subnormals is the device's to say. Undefined
operations (division by zero, shift by the width) are left for the interpreter to report.
"""

from __future__ import annotations

import math

import numpy as np

from ..interp.arith import COMPARE, float_to_int_limits
from ..interp.pure import function_of
from ..interp.values import make_const, to_python
from ..ir.nodes import Block, Module, Node
from ..lang.types import Scalar, Struct, Type, Vector, lanes_of, scalar_of
from .rewrite import Rewriter

_MOVES = ("select", "extract", "extract_dynamic", "insert", "shuffle", "vector", "splat", "array")
_ARITH = ("add", "sub", "mul", "neg", "convert", "bitcast", *COMPARE)
_INT_ONLY = ("div", "rem", "and", "or", "xor", "not", "shl", "shr", "any", "all", "int_dot")
_INT_MATH = ("abs", "sign", "min", "max", "clamp", "find_lsb", "find_msb", "bit_count", "bit_reverse", "bit_extract")
_TINY = {16: 2.0**-14, 32: 2.0**-126, 64: 2.0**-1022}


def fold(module: Module) -> Module:
    """The module with constants folded and constant branches taken."""
    with np.errstate(all="ignore"):
        return _Folder().module(module)


class _Folder(Rewriter):
    def node(self, node: Node, out: Block) -> None:
        if node.op == "if":
            self._if(node, out)
            return
        if node.op == "loop":
            self._loop(node, out)
            return
        if node.type is not None and node.args and node.op not in ("load", "index", "member", "atomic", "subgroup", "call"):
            args = tuple(self.env[a] for a in node.args)
            found = _simplify(node, args)
            if isinstance(found, Node):
                self.env[node] = found
                return
            if found is not None:
                made = Node("const", node.type, (), {"value": found[0]}, node.span)
                out.nodes.append(made)
                self.env[node] = made
                return
        self.copy(node, out)

    def _if(self, node: Node, out: Block) -> None:
        cond = self.env[node.args[0]]
        if is_const(cond):
            taken = self.block(node.blocks[0 if cond.attrs["value"] else 1])
            out.nodes.extend(taken.nodes)
            return
        blocks = tuple(self.block(b) for b in node.blocks)
        if any(b.nodes for b in blocks):
            out.nodes.append(Node("if", None, (cond,), node.attrs, node.span, blocks))

    def _loop(self, node: Node, out: Block) -> None:
        cond = self.block(node.blocks[0])
        test = cond.nodes[-1].args[0]
        if is_const(test) and not test.attrs["value"]:
            out.nodes.extend(cond.nodes[:-1])  # it is evaluated once, whatever it does
            return
        body, step = self.block(node.blocks[1]), self.block(node.blocks[2])
        out.nodes.append(Node("loop", None, (), node.attrs, node.span, (cond, body, step)))


def is_const(node: Node) -> bool:
    """True for `const` nodes."""
    return node.op == "const"


def _simplify(node: Node, args: tuple[Node, ...]) -> Node | tuple | None:
    """A node that equals `node`, or (constant,), or None. `args` are the rewritten arguments."""
    rule = _RULES.get(node.op)
    found = rule(node, args) if rule else None
    if found is None and args and all(is_const(a) for a in args):
        found = _evaluate(node, args)
    return found


def _evaluate(node: Node, args: tuple[Node, ...]) -> tuple | None:
    if isinstance(node.type, Struct) or any(isinstance(a.type, Struct) for a in args) or not _may_fold(node, args):
        return None
    shown = Node(node.op, node.type, args, node.attrs, node.span)
    value = to_python(node.type, function_of(shown)(*[make_const(a.type, a.attrs["value"]) for a in args]))
    return (value,) if node.op in _MOVES or _tame(node.type, value) else None


def _may_fold(node: Node, args: tuple[Node, ...]) -> bool:
    op, s = node.op, scalar_of(args[0].type)
    if op == "extract_dynamic":
        return 0 <= args[1].attrs["value"] < args[0].type.lanes
    if op in _MOVES:
        return True
    if s is None or not all(_tame(a.type, a.attrs["value"]) for a in args):
        return False
    if op == "convert":
        return scalar_of(node.type).is_float or not s.is_float or _converts(s, node, args[0])
    if op in _ARITH:
        return s.encoding == "ieee" or op in ("neg", "bitcast", *COMPARE)
    if s.is_float or (op == "math" and node.attrs["fn"] not in _INT_MATH):
        return False
    return op == "math" and _defined_math(node, args) or op in _INT_ONLY and _defined(op, s, args)


def _converts(s: Scalar, node: Node, arg: Node) -> bool:
    lo, hi = float_to_int_limits(s, scalar_of(node.type))
    return all(lo < v < hi for v in _flat(arg.attrs["value"]))


def _defined(op: str, s: Scalar, args: tuple[Node, ...]) -> bool:
    """False for shifts by the width or more, division by zero and the one signed division that overflows."""
    if op in ("shl", "shr"):
        return all(0 <= n < s.bits for n in _flat(args[1].attrs["value"]))
    if op in ("div", "rem"):
        pairs = zip(_flat(args[0].attrs["value"]), _flat(args[1].attrs["value"]), strict=True)
        return all(b != 0 and not (s.is_signed and b == -1 and a == s.range()[0]) for a, b in pairs)
    return True


def _defined_math(node: Node, args: tuple[Node, ...]) -> bool:
    if node.attrs["fn"] != "bit_extract":
        return True
    at, count = (a.attrs["value"] for a in args[1:])
    return at + count <= scalar_of(args[0].type).bits


def _flat(value) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def _tame(t: Type, value) -> bool:
    """False when a float of the value is NaN, infinite or subnormal in its type."""
    s = scalar_of(t)
    if s is None:
        return False
    if not s.is_float:
        return True
    tiny = _TINY[32 if s.encoding == "bf16" else s.bits]
    return all(math.isfinite(v) and (v == 0 or abs(v) >= tiny) for v in _flat(value))


def _whole(node: Node):
    """The integer (or bool) all components of a constant have, else None."""
    if node.op != "const":
        return None
    s = scalar_of(node.type)
    if s is None or s.is_float:
        return None
    values = _flat(node.attrs["value"])
    return values[0] if all(v == values[0] for v in values) else None


def _filled(t: Type, value) -> tuple:
    return ((value,) * lanes_of(t) if isinstance(t, Vector) else value,)


def _identity(right: tuple, left: tuple = (), zero=None):
    """A rule: x op c is x for c in `right`, c op x is x for c in `left`; either side being `zero` gives zero."""

    def rule(node: Node, args: tuple[Node, ...]):
        a, b = args
        ca, cb = _whole(a), _whole(b)
        if ca is None and cb is None:
            return None
        s = scalar_of(node.type)
        ones = s.range()[1] if s.kind == "u" else (True if s.is_bool else -1)
        meaning = {"ones": ones, "zero": False if s.is_bool else 0, "one": 1}
        if cb is not None and any(cb == meaning[c] for c in right):
            return a
        if ca is not None and any(ca == meaning[c] for c in left):
            return b
        if zero is not None and (meaning[zero] in (ca, cb)):
            return _filled(node.type, meaning[zero])
        return None

    return rule


def _rem(node: Node, args: tuple[Node, ...]):
    return _filled(node.type, 0) if _whole(args[1]) == 1 else None


def _select(node: Node, args: tuple[Node, ...]):
    cond, a, b = args
    if a is b:
        return a
    chosen = _whole(cond)
    return None if chosen is None else (a if chosen else b)


def _not(node: Node, args: tuple[Node, ...]):
    return args[0].args[0] if args[0].op == "not" else None


def _same(result: bool):
    """A rule for comparing a value with itself (not floats: NaN)."""

    def rule(node: Node, args: tuple[Node, ...]):
        s = scalar_of(args[0].type)
        return _filled(node.type, result) if args[0] is args[1] and s is not None and not s.is_float else None

    return rule


def _extract(node: Node, args: tuple[Node, ...]):
    """Follows an extract path through the nodes that built the composite."""
    path, value = _flat(node.attrs["index"]), args[0]
    while path:
        i = path[0]
        if value.op == "const":
            constant = value.attrs["value"]
            for i in path:
                constant = constant[i]
            return (constant,)
        if value.op == "insert" and value.attrs["index"] != i:
            value = value.args[0]
            continue
        if value.op in ("struct", "array"):
            value = value.args[i]
        elif value.op == "vector":
            value, i = _component(value, i)
            if i is not None:
                path = (i, *path[1:])
                continue
        elif value.op == "splat":
            value = value.args[0]
        elif value.op == "insert":
            value = value.args[1]
        else:
            return None
        path = path[1:]
    return value


def _component(vector: Node, i: int) -> tuple[Node, int | None]:
    """The argument of a `vector` node that holds lane i, and the lane within it (None for a scalar)."""
    for part in vector.args:
        n = lanes_of(part.type)
        if i < n:
            return part, i if isinstance(part.type, Vector) else None
        i -= n
    raise IndexError(i)


def _extract_dynamic(node: Node, args: tuple[Node, ...]):
    lane = _whole(args[1])
    if lane is None or not 0 <= lane < args[0].type.lanes:
        return None
    return _extract(Node("extract", node.type, args[:1], {"index": lane}, node.span), args[:1])


_RULES = {
    "add": _identity(("zero",), ("zero",)), "sub": _identity(("zero",)),
    "mul": _identity(("one",), ("one",), zero="zero"), "div": _identity(("one",)), "rem": _rem,
    "and": _identity(("ones",), ("ones",), zero="zero"), "or": _identity(("zero",), ("zero",), zero="ones"),
    "xor": _identity(("zero",), ("zero",)), "shl": _identity(("zero",)), "shr": _identity(("zero",)),
    "select": _select, "not": _not,
    "eq": _same(True), "le": _same(True), "ge": _same(True), "ne": _same(False), "lt": _same(False), "gt": _same(False),
    "extract": _extract, "extract_dynamic": _extract_dynamic,
}
