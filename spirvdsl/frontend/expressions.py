"""Expressions: one method per ast class; what has none is refused (E0102). Parts are in parts.py, calls in calls.py."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterator
from typing import Any

from ..ir.nodes import Block, Node
from ..ir.ops import OPS
from ..lang.builtins import BuiltinValue
from ..lang.coopmat import CoopMatrix, component_of
from ..lang.types import Vector, bool_, scalar_of
from .parts import Parts
from .typing import OPERATORS, binary, common_literal_type, compare, literal
from .values import Items, Place, describe, holds_runtime, is_runtime

_PYTHON = {"Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv, "Mod": operator.mod,
           "Pow": operator.pow, "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor, "LShift": operator.lshift, "RShift": operator.rshift}
_UNARY = {"USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert, "Not": operator.not_}
_COMPARE = {"Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}
_PY_COMPARE = {"Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
               "Is": operator.is_, "IsNot": operator.is_not, "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b}
_SIGNS = {"Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "MatMult": "@", "LShift": "<<", "RShift": ">>",
          "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in"}
# Python names that mean something inside a kernel; everything else from builtins is refused
_ALLOWED = ("range", "len", "min", "max", "abs", "pow", "round", "int", "float", "bool", "sum", "enumerate", "zip", "reversed", "isinstance", "issubclass",
            "getattr", "hasattr", "super", "list", "tuple", "any", "all", "divmod", "sorted", "str", "type")
_ADVICE = {"Lambda": "define a function at module level", "NamedExpr": "assign it in a statement of its own", "Dict": "use a tuple, or names of a class",
           "Set": "use a tuple", "DictComp": "write a list comprehension", "SetComp": "write a list comprehension", "GeneratorExp": "write a list comprehension: [...]",
           "Await": "kernels are synchronous", "Yield": "kernels are no generators", "YieldFrom": "kernels are no generators", "Starred": "index the elements"}
_WORDS = {"NamedExpr": "assignment (:=)", "DictComp": "dict comprehension", "SetComp": "set comprehension", "GeneratorExp": "generator", "YieldFrom": "yield from",
          "Starred": "starred"}
UNROLL_LIMIT = 4096
_EAGER_LIMIT = 8  # nodes of a right operand that may be evaluated without a branch
_BIG = 1 << 16  # bits of a compile-time int, elements of a compile-time sequence


class Expressions(Parts):
    """Evaluates expressions of the current frame to Nodes, Places or compile-time values."""

    def eval(self, node: ast.expr) -> Any:
        name = type(node).__name__
        method = getattr(self, f"expr_{name}", None)
        if method is None:
            raise self.error("E0102", f"{_WORDS.get(name, name.lower())} expression has no lowering", node, _ADVICE.get(name, ""))
        saved, self.b.span = self.b.span, self.span(node)
        try:
            return method(node)
        finally:
            self.b.span = saved

    def value(self, node: ast.expr) -> Any:
        """A Node or a compile-time value: places are read."""
        return self.rvalue(self.eval(node), self.span(node))

    def kept(self, node: ast.expr) -> Any:
        """A value that is used later: what other expressions do meanwhile does not change it."""
        return self.settle(self.eval(node), self.span(node))

    def condition(self, node: ast.expr) -> Any:
        """A bool Node, or a Python truth value known now."""
        test = self.value(node)
        if isinstance(test, Node):
            if test.type != bool_:
                raise self.error("E0205", f"condition is {describe(test)}", node, "compare it: x != 0")
            return test
        return self.truth(test, node)

    def truth(self, value: Any, node: ast.AST) -> bool:
        try:
            return bool(value)
        except Exception as why:  # noqa: BLE001 whatever the author's object raises is the author's line
            raise self.error("E0205", f"{describe(value)} is neither true nor false: {why}", node) from None

    def budget(self, copies: int, node: ast.AST) -> None:
        """Unrolling and inlining may not grow without bound (E0408)."""
        self.ctx.placed += copies
        if copies > UNROLL_LIMIT or self.ctx.placed > 64 * UNROLL_LIMIT:
            raise self.error("E0408", f"unrolled {copies} times, {self.ctx.placed} copies in all", node, f"at most {UNROLL_LIMIT} a loop; use range()")

    # leaves
    def expr_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bool | int | float | str) or node.value is None:
            return node.value
        raise self.error("E0102", f"{type(node.value).__name__} literal has no lowering", node)

    def expr_Name(self, node: ast.Name) -> Any:
        return self.shader_value(self.read_name(node))

    def shader_value(self, value: Any) -> Any:
        """global_id and the like are values of the lane; anything else is itself."""
        if not isinstance(value, BuiltinValue):
            return value
        return Size(*self.ctx.workgroup_size) if value.name == "workgroup_size" else self.b.builtin(value.name)

    def python_builtin(self, name: str, node: ast.Name) -> Any:
        if name in _ALLOWED:
            return getattr(builtins, name)
        if hasattr(builtins, name):
            raise self.error("E0107", f"{name} is not available in a kernel", node)
        raise self.error("E0103", f"unknown name {name}", node)

    def expr_Tuple(self, node: ast.Tuple) -> tuple:
        return tuple(v for e in node.elts for v in self.spread(e))

    def expr_List(self, node: ast.List) -> Items:
        return Items([self.cell(v, self.span(e)) for e in node.elts for v in self.spread(e)], self.ctx.depth)

    def spread(self, node: ast.expr) -> list[Any]:
        """One element, or those of *sequence."""
        return self.unpacked(node.value) if isinstance(node, ast.Starred) else [self.kept(node)]

    def unpacked(self, node: ast.expr) -> list[Any]:
        """The elements of a compile-time sequence, or the components of a vector."""
        value = self.value(node)
        parts = self.elements(value)
        if parts is None:
            raise self.error("E0102", f"{describe(value)} cannot be unpacked", node, "only compile-time sequences and vectors can")
        return parts

    def elements(self, value: Any) -> list[Any] | None:
        """What unpacking yields, None for what cannot be unpacked."""
        if isinstance(value, Node) and isinstance(value.type, Vector):
            return [self.b.extract(value, i) for i in range(value.type.lanes)]
        if isinstance(value, Items):
            return value.values()
        return list(value) if isinstance(value, tuple | list | range) else None

    def expr_ListComp(self, node: ast.ListComp) -> Items:
        out = Items([], self.ctx.depth)
        self._comprehend(node.generators, lambda: out.cells.append(self.cell(self.eval(node.elt), self.span(node.elt))), node)
        return out

    def _comprehend(self, generators: list[ast.comprehension], emit: Callable[[], None], node: ast.AST) -> None:
        if not generators:
            emit()
            return
        head, *rest = generators
        items = self.static_items(head.iter)
        self.budget(len(items), node)
        frame = self.frame
        env, written, sure = dict(frame.env), set(frame.written), set(frame.sure)
        for item in self.iterations(items):
            self.bind_fresh(head.target, item)
            if all(self._static_condition(test) for test in head.ifs):
                self._comprehend(rest, emit, node)
        frame.env, frame.written, frame.sure = env, written, sure

    def iterations(self, items: list[Any]) -> Iterator[Any]:
        """The items of something unrolled, while the frame knows which one is being walked."""
        frame, outer = self.frame, self.frame.iteration
        for i, item in enumerate(items):
            frame.iteration = (*outer, i)
            yield item
        frame.iteration = outer

    def bind_fresh(self, target: ast.expr, item: Any) -> None:
        """The names of a comprehension or an unrolled loop are bound anew, whatever they were before."""
        span = self.span(target)
        if isinstance(target, ast.Name):
            item = self.bound_place(item, span) if isinstance(item, Place) else item
            self.frame.bind(target.id, item)
            return
        if not isinstance(target, ast.Tuple | ast.List):
            raise self.error("E0404", "a loop target is a name or a tuple of names", target)
        parts = self.elements(self.rvalue(item, span))
        if parts is None or len(parts) != len(target.elts):
            raise self.error("E0105", f"cannot unpack {describe(item)} into {len(target.elts)} names", target)
        for t, v in zip(target.elts, parts, strict=True):
            self.bind_fresh(t, v)

    def _static_condition(self, node: ast.expr) -> bool:
        test = self.condition(node)
        if isinstance(test, Node):
            raise self.error("E0405", "a filter must be known at compile time", node)
        return test

    def expr_JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(self.eval(v) for v in node.values)

    def expr_FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.eval(node.value)
        if is_runtime(value):
            raise self.error("E0213", "a string cannot hold a run-time value", node)
        value = {"r": repr, "s": str, "a": ascii}.get(chr(node.conversion) if node.conversion > 0 else "", lambda v: v)(value)
        try:
            return format(value, self.eval(node.format_spec) if node.format_spec else "")
        except Exception as why:  # noqa: BLE001 whatever the author's object raises is the author's line
            raise self.error("E0102", f"{ast.unparse(node.value)}: {why}", node) from None

    # operators
    def expr_BinOp(self, node: ast.BinOp) -> Any:
        return self.operate(type(node.op).__name__, self.value(node.left), self.value(node.right), node)

    def operate(self, kind: str, a: Any, c: Any, node: ast.AST) -> Any:
        """A binary operator on two values: Python's own when both are compile-time."""
        span = self.span(node)
        if not isinstance(a, Node) and not isinstance(c, Node):
            return self._static_operate(kind, a, c, node)
        if kind not in OPERATORS:
            raise self.error("E0202", f"{_SIGNS[kind]} is not defined for run-time values", node, "use pow(a, b) of floats, or multiply" if kind == "Pow" else "")
        for side in (a, c):
            if isinstance(side, Node) and side.type is None:
                raise self.error("E0202", "an operand returns nothing", node)
        return binary(self.b, kind, a, c, span)

    def _static_operate(self, kind: str, a: Any, c: Any, node: ast.AST) -> Any:
        if isinstance(a, Items) or isinstance(c, Items):
            raise self.error("E0102", "lists do not combine", node, "write a list comprehension")
        if kind in ("Pow", "LShift", "Mult") and self._explodes(kind, a, c):
            raise self.error("E0203", f"{ast.unparse(node)} is too large", node)
        try:
            return _PYTHON[kind](a, c)
        except KeyError:
            raise self.error("E0202", f"{_SIGNS.get(kind, kind)} is not defined in a kernel", node) from None
        except Exception as why:  # noqa: BLE001 whatever Python or the author's object raises is the author's line
            raise self.error("E0202", f"{ast.unparse(node)}: {why}", node) from None

    @staticmethod
    def _explodes(kind: str, a: Any, c: Any) -> bool:
        """Would take the compiler itself down: 10 ** 10 ** 10."""
        if kind == "Mult":
            return any(isinstance(s, str | tuple) and isinstance(n, int) and len(s) * n > _BIG for s, n in ((a, c), (c, a)))
        if not isinstance(a, int) or not isinstance(c, int) or a in (-1, 0, 1):
            return False
        return c > _BIG or (kind == "Pow" and c * a.bit_length() > _BIG)

    def expr_UnaryOp(self, node: ast.UnaryOp) -> Any:
        kind, a = type(node.op).__name__, self.value(node.operand)
        if not isinstance(a, Node):
            if kind == "Not":
                return not self.truth(a, node.operand)
            try:
                return _UNARY[kind](a)
            except Exception as why:  # noqa: BLE001 whatever the author's object raises is the author's line
                raise self.error("E0202", f"{ast.unparse(node)}: {why}", node) from None
        s = component_of(a.type)
        if kind == "Not":
            if a.type != bool_:
                raise self.error("E0205", f"not takes a bool, this is {describe(a)}", node, "compare it: x == 0" if s is not None else "")
            return self.b.unary("not", a)
        if s is not None and s.encoding != "bf16":
            if kind == "UAdd" and not s.is_bool:
                return a
            if kind == "Invert" and not s.is_float and not isinstance(a.type, CoopMatrix):
                return self.b.unary("not", a)
            if kind == "USub" and (s.is_float or s.is_signed):
                return self.b.unary("neg", a)
        verb = {"USub": "negate", "UAdd": "take the sign of", "Invert": "invert"}[kind]
        help = f"write 0 - x to wrap, or i{s.bits}(x)" if kind == "USub" and s is not None and s.kind == "u" else ""
        raise self.error("E0202", f"cannot {verb} {describe(a)}", node, help)

    def expr_Compare(self, node: ast.Compare) -> Any:
        """a < b < c: b is evaluated once, and c only when a < b."""
        left = self.value(node.left)
        return self._compare_chain(left, list(zip(node.ops, node.comparators, strict=True)), node)

    def _compare_chain(self, left: Any, rest: list, node: ast.Compare) -> Any:
        (op, right_node), more = rest[0], rest[1:]
        right = self.value(right_node)
        kind = type(op).__name__
        if kind in ("Is", "IsNot") and (left is None or right is None):
            first: Any = (left is right) == (kind == "Is")  # a run-time value is never None
        elif isinstance(left, Node) or isinstance(right, Node):
            if kind not in _COMPARE:
                raise self.error("E0202", f"{_SIGNS[kind]} is not defined for run-time values", node, "compare with ==, or loop over the elements")
            first = compare(self.b, _COMPARE[kind], left, right, self.span(node))
        else:
            if kind not in ("Is", "IsNot") and (holds_runtime(left) or holds_runtime(right)):
                raise self.error("E0202", "sequences with run-time elements do not compare", node, "compare the elements")
            left_side, right_side = (tuple(v.values()) if isinstance(v, Items) else v for v in (left, right))
            try:
                first = _PY_COMPARE[kind](left_side, right_side)
            except Exception as why:  # noqa: BLE001 whatever the author's object raises is the author's line
                raise self.error("E0202", f"{ast.unparse(node)}: {why}", node) from None
        if not more:
            return first
        return self.lazily(first, lambda: self._compare_chain(right, more, node), True, node)

    def expr_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)

        def chain(values: list[ast.expr]) -> Any:
            first = self.value(values[0])
            if isinstance(first, Node) and first.type != bool_:
                raise self.error("E0205", f"{'and' if is_and else 'or'} takes bools, this is {describe(first)}", values[0], "compare it: x != 0; use & and | on integers and vectors")
            return self.lazily(first, lambda: chain(values[1:]), is_and, node) if len(values) > 1 else first

        return chain(node.values)

    def lazily(self, first: Any, second: Callable[[], Any], is_and: bool, node: ast.AST) -> Any:
        """`first and second()` / `first or second()`: the right side runs only when it is needed (or cannot matter)."""
        if not isinstance(first, Node):
            return second() if self.truth(first, node) == is_and else first
        scratch = Block()
        with self.ctx.region(scratch):
            right = second()
            right = right if isinstance(right, Node) else self.b.const(bool_, self.truth(right, node))
        if right.type != bool_ or first.type != bool_:
            raise self.error("E0205", "a comparison of vectors has many answers", node, "write any_true(...) or all_true(...) around each")
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
        """Few pure nodes: evaluating them without a branch can neither trap (an index past a vector is undefined behaviour) nor cost more than the branch."""
        return len(block.nodes) <= _EAGER_LIMIT and all(OPS[n.op].pure and n.op not in ("div", "rem", "extract_dynamic") for n in block.nodes)

    def expr_IfExp(self, node: ast.IfExp) -> Any:
        test = self.condition(node.test)
        if not isinstance(test, Node):
            return self.eval(node.body if test else node.orelse)
        blocks, values = (Block(), Block()), []
        for block, side in zip(blocks, (node.body, node.orelse), strict=True):
            with self.ctx.region(block):
                values.append(self.value(side))
        t = next((v.type for v in values if isinstance(v, Node)), None) or common_literal_type(values, self.span(node))
        for i, (block, v) in enumerate(zip(blocks, values, strict=True)):
            with self.b.at(block):
                values[i] = v if isinstance(v, Node) else literal(self.b, v, t, self.span(node))
        if values[0].type != values[1].type:
            raise self.error("E0201", f"one side is {describe(values[0])}, the other {describe(values[1])}", node)
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
