"""Expressions: one method per ast class; what has none is refused (E0102). Calls are in calls.py."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Block, Node, Span
from ..ir.ops import OPS
from ..lang.builtins import BuiltinValue
from ..lang.types import Array, RuntimeArray, Struct, Vector, bool_, scalar_of, u32
from .frame import Names
from .typing import OPERATORS, binary, compare, default_type, index_node, literal
from .values import Items, Place, Variable, is_runtime

_PYTHON = {"Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv, "Mod": operator.mod,
           "Pow": operator.pow, "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor, "LShift": operator.lshift, "RShift": operator.rshift}
_COMPARE = {"Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}
_PY_COMPARE = {"Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
               "Is": operator.is_, "IsNot": operator.is_not, "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b}
_SWIZZLE = {"x": 0, "y": 1, "z": 2, "w": 3}
# Python names that mean something inside a kernel; everything else from builtins is refused
_ALLOWED = ("range", "len", "min", "max", "abs", "pow", "round", "int", "float", "bool", "sum", "enumerate", "zip", "reversed", "isinstance", "issubclass",
            "getattr", "hasattr", "super", "list", "tuple", "any", "all", "divmod", "sorted", "str", "type")
_UNROLL_LIMIT = 4096
_EAGER_LIMIT = 8  # nodes of a right operand that may be evaluated without a branch


class Expressions(Names):
    """Evaluates expressions of the current frame to Nodes, Places or compile-time values."""

    def eval(self, node: ast.expr) -> Any:
        method = getattr(self, f"expr_{type(node).__name__}", None)
        if method is None:
            raise self.error("E0102", f"{type(node).__name__} expression has no lowering", node, "see docs/language.md for what a kernel may contain")
        saved, self.b.span = self.b.span, self.span(node)
        try:
            return method(node)
        finally:
            self.b.span = saved

    def value(self, node: ast.expr) -> Any:
        """A Node or a compile-time value: places are read."""
        return self.rvalue(self.eval(node), self.span(node))

    def condition(self, node: ast.expr) -> Any:
        """A bool Node, or a Python truth value known now."""
        test = self.value(node)
        if isinstance(test, Node):
            if test.type != bool_:
                raise self.error("E0205", f"condition is {test.type.name if test.type else 'nothing'}", node, "compare it: x != 0")
            return test
        return bool(test)

    def budget(self, copies: int, node: ast.AST) -> None:
        """Unrolling and inlining may not grow without bound (E0408)."""
        self.ctx.placed += copies
        if copies > _UNROLL_LIMIT or self.ctx.placed > 64 * _UNROLL_LIMIT:
            raise self.error("E0408", f"unrolled {copies} times, {self.ctx.placed} copies in all", node, f"at most {_UNROLL_LIMIT} a loop; use range()")

    # leaves
    def expr_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bool | int | float | str) or node.value is None:
            return node.value
        raise self.error("E0102", f"{type(node.value).__name__} literal has no lowering", node)

    def expr_Name(self, node: ast.Name) -> Any:
        value = self.read_name(node)
        return self.builtin_value(value.name) if isinstance(value, BuiltinValue) else value

    def python_builtin(self, name: str, node: ast.Name) -> Any:
        if name in _ALLOWED:
            return getattr(builtins, name)
        if hasattr(builtins, name):
            raise self.error("E0107", f"{name} is not available in a kernel", node, "kernels call their own functions and the builtins of spirvdsl")
        raise self.error("E0103", f"unknown name {name}", node, "define it, import it, or pass it in")

    def builtin_value(self, name: str) -> Any:
        if name == "workgroup_size":
            return Size(*self.ctx.workgroup_size)
        return self.b.builtin(name)

    def expr_Tuple(self, node: ast.Tuple) -> tuple:
        return tuple(self.eval(e) for e in node.elts)

    def expr_List(self, node: ast.List) -> Items:
        return Items([self.cell(self.value(e), self.span(e)) for e in node.elts])

    def cell(self, value: Any, span: Span) -> Any:
        """A list element: run-time values become local variables, so that loops may change them."""
        if isinstance(value, Node):
            place = Place(self.b.local(value.type, "cell"), None, "list element")
            self.b.store(place.ref, value)
            return Variable("cell", place)
        return value

    def expr_ListComp(self, node: ast.ListComp) -> Items:
        out: list[Any] = []
        self._comprehend(node.generators, lambda: out.append(self.cell(self.value(node.elt), self.span(node.elt))), node)
        return Items(out)

    def _comprehend(self, generators: list[ast.comprehension], emit: Callable[[], None], node: ast.AST) -> None:
        if not generators:
            emit()
            return
        head, *rest = generators
        items = self.static_items(head.iter)
        self.budget(len(items), node)
        saved = dict(self.frame.env)
        for item in items:
            self._bind_index(head.target, item)
            if all(self.static_condition(test) for test in head.ifs):
                self._comprehend(rest, emit, node)
        self.frame.env = saved

    def static_condition(self, node: ast.expr) -> bool:
        test = self.condition(node)
        if isinstance(test, Node):
            raise self.error("E0405", "a filter must be known at compile time", node)
        return test

    def expr_JoinedStr(self, node: ast.JoinedStr) -> str:
        parts = []
        for v in node.values:
            value = self.eval(v.value) if isinstance(v, ast.FormattedValue) else v.value
            if is_runtime(value):
                raise self.error("E0213", "a string cannot hold a run-time value", node)
            parts.append(str(value))
        return "".join(parts)

    # operators
    def expr_BinOp(self, node: ast.BinOp) -> Any:
        return self.operate(type(node.op).__name__, self.value(node.left), self.value(node.right), node)

    def operate(self, kind: str, a: Any, c: Any, node: ast.AST) -> Any:
        """A binary operator on anything: Python's own when both sides are compile-time."""
        span = self.span(node)
        a, c = self.rvalue(a, span), self.rvalue(c, span)
        if not is_runtime(a) and not is_runtime(c):
            if isinstance(a, Items) and kind in ("Add", "Mult"):
                raise self.error("E0102", "lists do not combine at compile time", node, "write a list comprehension")
            try:
                return _PYTHON[kind](a, c)
            except (TypeError, ValueError, ZeroDivisionError, OverflowError, KeyError) as why:
                raise self.error("E0202", f"{ast.unparse(node)}: {why}", node) from None
        if kind not in OPERATORS:
            raise self.error("E0202", f"operator {kind} is not defined for run-time values", node, "use pow(a, b)" if kind == "Pow" else "")
        for side in (a, c):
            if isinstance(side, Node) and side.type is None:
                raise self.error("E0202", "an operand returns nothing", node)
        return binary(self.b, kind, a, c, span)

    def expr_UnaryOp(self, node: ast.UnaryOp) -> Any:
        kind, a = type(node.op).__name__, self.value(node.operand)
        if not isinstance(a, Node):
            try:
                return {"USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert, "Not": operator.not_}[kind](a)
            except TypeError as why:
                raise self.error("E0202", str(why), node) from None
        s = scalar_of(a.type) if a.type is not None else None
        if s is None:
            raise self.error("E0202", f"unary operator is not defined for {a.type.name if a.type else 'nothing'}", node)
        if kind == "Not":
            if a.type != bool_:
                raise self.error("E0205", f"not takes a bool, this is {a.type.name}", node, "compare it: x == 0")
            return self.b.unary("not", a)
        if kind == "Invert" and (s.is_int or s.is_bool):
            return self.b.unary("not", a)
        if kind in ("USub", "UAdd") and (s.is_float or s.is_signed) and s.encoding != "bf16":
            return self.b.unary("neg", a) if kind == "USub" else a
        help = f"write 0 - x to wrap, or i{s.bits}(x)" if kind == "USub" and s.kind == "u" else ""
        raise self.error("E0202", f"cannot {'negate' if kind == 'USub' else 'invert'} {a.type.name}", node, help)

    def expr_Compare(self, node: ast.Compare) -> Any:
        """a < b < c: b is evaluated once, and c only when a < b."""
        left = self.value(node.left)
        return self._compare_chain(left, list(zip(node.ops, node.comparators, strict=True)), node)

    def _compare_chain(self, left: Any, rest: list, node: ast.Compare) -> Any:
        (op, right_node), more = rest[0], rest[1:]
        right = self.value(right_node)
        kind = type(op).__name__
        if is_runtime(left) or is_runtime(right):
            if kind not in _COMPARE:
                raise self.error("E0202", f"{kind.lower()} is not defined for run-time values", node)
            first = compare(self.b, _COMPARE[kind], left, right, self.span(node))
        else:
            first = _PY_COMPARE[kind](left, right)
        if not more:
            return first
        return self.lazily(first, lambda: self._compare_chain(right, more, node), is_and=True, node=node)

    def expr_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)

        def chain(values: list[ast.expr]) -> Any:
            first = self.condition(values[0])
            return self.lazily(first, lambda: chain(values[1:]), is_and, node) if len(values) > 1 else first

        return chain(node.values)

    def lazily(self, first: Any, second: Callable[[], Any], is_and: bool, node: ast.AST) -> Any:
        """`first and second()` / `first or second()`: the right side runs only when it is needed (or cannot matter)."""
        if not isinstance(first, Node):
            return second() if bool(first) == is_and else first
        scratch = Block()
        with self.b.at(scratch):
            right = second()
            right = right if isinstance(right, Node) else self.b.const(bool_, bool(right))
        if right.type != bool_ or first.type != bool_:
            raise self.error("E0205", "and / or take bools", node, "use & and | on vectors and integers")
        if self._is_cheap(scratch):
            self.b.block.nodes += scratch.nodes
            return self.b.binary("and" if is_and else "or", first, right)
        result = self.b.local(bool_, "and" if is_and else "or")
        self.b.store(result, first)
        then, orelse = self.b.if_(first)
        target = then if is_and else orelse
        target.nodes += scratch.nodes
        with self.b.at(target):
            self.b.store(result, right)
        return self.b.load(result)

    @staticmethod
    def _is_cheap(block: Block) -> bool:
        """Few pure nodes: evaluating them without a branch can neither trap nor cost more than the branch."""
        return len(block.nodes) <= _EAGER_LIMIT and all(OPS[n.op].pure and n.op not in ("div", "rem") for n in block.nodes)

    def expr_IfExp(self, node: ast.IfExp) -> Any:
        test = self.condition(node.test)
        if not isinstance(test, Node):
            return self.eval(node.body if test else node.orelse)
        blocks, values = (Block(), Block()), []
        for block, side in zip(blocks, (node.body, node.orelse), strict=True):
            with self.b.at(block):
                values.append(self.value(side))
        t = next((v.type for v in values if isinstance(v, Node)), None) or default_type(values[0] if isinstance(values[0], float) else values[1], self.span(node))
        for i, (block, v) in enumerate(zip(blocks, values, strict=True)):
            with self.b.at(block):
                values[i] = v if isinstance(v, Node) else literal(self.b, v, t, self.span(node))
        if values[0].type != values[1].type:
            raise self.error("E0201", f"one side is {values[0].type.name}, the other {values[1].type.name}", node, "convert one of them")
        if all(self._is_cheap(b) for b in blocks) and (scalar_of(t) is not None):
            self.b.block.nodes += blocks[0].nodes + blocks[1].nodes
            test = self.b.splat(test, t.lanes) if isinstance(t, Vector) else test
            return self.b.select(test, *values)
        result = self.b.local(t, "either")
        for block, inner, v in zip(self.b.if_(test), blocks, values, strict=True):
            block.nodes += inner.nodes
            with self.b.at(block):
                self.b.store(result, v)
        return self.b.load(result)

    # parts of things
    def expr_Attribute(self, node: ast.Attribute) -> Any:
        return self.part(self.eval(node.value), node)

    def expr_Subscript(self, node: ast.Subscript) -> Any:
        return self.part(self.eval(node.value), node)

    def part(self, base: Any, node: ast.Attribute | ast.Subscript) -> Any:
        """base.attr or base[index], for run-time and compile-time bases."""
        if isinstance(base, Variable):
            base = base.place
        if isinstance(base, Place):
            return self._place_attr(base, node) if isinstance(node, ast.Attribute) else self._place_index(base, node)
        if isinstance(base, Node):
            return self._node_part(base, node)
        if isinstance(node, ast.Attribute):
            return self.static_attr(base, node.attr, node)
        if isinstance(base, tuple | Items):
            cells = base.cells if isinstance(base, Items) else base
            cell = cells[self.static_index(cells, node)]
            return cell.place if isinstance(cell, Variable) else cell
        index = self.value(node.slice)
        if is_runtime(index):
            raise self.error("E0209", f"cannot index {type(base).__name__} with a run-time value", node, "index compile-time sequences by constants")
        try:
            return base[index]
        except (TypeError, KeyError, IndexError, CompileError) as why:
            if isinstance(why, CompileError):
                raise
            raise self.error("E0209", f"{ast.unparse(node)}: {why}", node) from None

    def static_index(self, cells: Any, node: ast.Attribute | ast.Subscript) -> int:
        if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice):
            raise self.error("E0209", "a list inside a kernel is indexed by a compile-time int", node)
        at = self.value(node.slice)
        if not isinstance(at, int) or isinstance(at, bool):
            raise self.error("E0209", "a list of tiles or registers is indexed by a compile-time int", node, "loop with static_range, or use local_array")
        if not -len(cells) <= at < len(cells):
            raise self.error("E0211", f"index {at} is out of range of {len(cells)} elements", node)
        return at % len(cells)

    def _place_attr(self, base: Place, node: ast.Attribute) -> Any:
        t = base.type
        if isinstance(t, Struct):
            at = t.index(node.attr)
            if at is None:
                raise self.error("E0106", f"{t.name} has no member {node.attr}", node, f"members: {', '.join(f.name for f in t.fields)}")
            return Place(self.b.member(base.ref, at), base.resource, f"{base.what}.{node.attr}", (*base.steps, at))
        if isinstance(t, Vector):
            lanes = self.swizzle(t, node)
            if len(lanes) == 1:
                step = self.b.const(u32, lanes[0])
                return Place(self.b.index(base.ref, step), base.resource, f"{base.what}.{node.attr}", (*base.steps, step))
            return self._node_part(self.load(base, self.span(node)), node)
        raise self.error("E0106", f"{t.name} has no member {node.attr}", node)

    def _place_index(self, base: Place, node: ast.Subscript) -> Place:
        t = base.type
        if isinstance(node.slice, ast.Slice):
            raise self.error("E0102", "slices have no lowering", node, "index one element")
        if not isinstance(t, Array | RuntimeArray | Vector):
            raise self.error("E0209", f"cannot index {t.name}", node, "buffers, arrays and vectors are indexed")
        length = t.length if isinstance(t, Array) else t.lanes if isinstance(t, Vector) else None
        index = index_node(self.b, self.value(node.slice), length, self.span(node))
        return Place(self.b.index(base.ref, index), base.resource, f"an element of {base.what}", (*base.steps, index))

    def _node_part(self, base: Node, node: ast.Attribute | ast.Subscript) -> Node:
        t = base.type
        at = self.component(base, node)
        if isinstance(at, int):
            return self.b.extract(base, at)
        if isinstance(node, ast.Attribute):
            lanes = self.swizzle(t, node)
            return self.b.node("shuffle", Vector(t.elem, len(lanes)), (base, base), lanes=lanes)
        index = index_node(self.b, at, None, self.span(node))
        if isinstance(t, Vector):
            return self.b.node("extract_dynamic", t.elem, (base, index))
        spill = self.b.local(t, "spill")  # a value has no run-time index: through memory
        self.b.store(spill, base)
        return self.b.load(self.b.index(spill, index))

    def component(self, base: Node, node: ast.Attribute | ast.Subscript) -> int | Node | None:
        """Which single component of a value is meant: a number, a run-time index, or None for a swizzle."""
        t = base.type
        if isinstance(node, ast.Attribute):
            if isinstance(t, Struct):
                at = t.index(node.attr)
                if at is None:
                    raise self.error("E0106", f"{t.name} has no member {node.attr}", node, f"members: {', '.join(f.name for f in t.fields)}")
                return at
            if not isinstance(t, Vector):
                raise self.error("E0106", f"{t.name if t else 'nothing'} has no member {node.attr}", node)
            lanes = self.swizzle(t, node)
            return lanes[0] if len(lanes) == 1 else None
        if not isinstance(t, Vector | Array):
            raise self.error("E0209", f"cannot index {t.name if t else 'nothing'}", node)
        at = self.value(node.slice)
        if isinstance(at, Node):
            return at.attrs["value"] if at.op == "const" else at
        length = t.lanes if isinstance(t, Vector) else t.length
        if not isinstance(at, int) or not 0 <= at < length:
            raise self.error("E0211", f"index {at!r} is out of range of {length} elements", node)
        return at

    def swizzle(self, t: Vector, node: ast.Attribute) -> tuple[int, ...]:
        lanes = tuple(_SWIZZLE.get(c, 9) for c in node.attr)
        if len(lanes) > 4 or any(n >= t.lanes for n in lanes):
            raise self.error("E0106", f"{t.name} has no component {node.attr}", node, f"components: {'xyzw'[: t.lanes]}")
        return lanes

    def static_attr(self, base: Any, name: str, node: ast.AST) -> Any:
        raise NotImplementedError

    def static_items(self, node: ast.expr) -> list[Any]:
        raise NotImplementedError


class Size(tuple):
    """workgroup_size: a compile-time (x, y, z) with names."""

    def __new__(cls, x: int, y: int, z: int):
        return super().__new__(cls, (x, y, z))

    x = property(operator.itemgetter(0))
    y = property(operator.itemgetter(1))
    z = property(operator.itemgetter(2))
