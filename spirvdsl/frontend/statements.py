"""Statements: assignment, assert, return. One method per ast class; what has none is refused (E0101). Control flow is in flow.py."""

from __future__ import annotations

import ast
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Node, Span
from ..lang.types import Type
from .frame import NeedsFunction
from .functions import Functions
from .typing import literal
from .values import Items, Place, describe, is_runtime

_ADVICE = {"With": "there is no context manager on a device", "Try": "kernels cannot raise; test values with if", "Raise": "kernels cannot raise", "Delete": "locals end with their block",
           "Import": "import at module level", "ImportFrom": "import at module level", "Global": "kernels capture constants only", "Nonlocal": "kernels capture constants only",
           "FunctionDef": "define functions at module level", "ClassDef": "define structs at module level", "Match": "write if / elif", "AsyncFor": "kernels are synchronous",
           "AsyncWith": "kernels are synchronous", "AsyncFunctionDef": "kernels are synchronous", "TypeAlias": "name types at module level", "TryStar": "kernels cannot raise; test values with if"}
_WORDS = {"FunctionDef": "nested def", "ClassDef": "nested class", "ImportFrom": "import", "Delete": "del", "AsyncFor": "async for", "AsyncWith": "async with",
          "AsyncFunctionDef": "nested async def", "TypeAlias": "type", "TryStar": "try"}


def _leaves(stmt: ast.stmt) -> bool:
    """Nothing after this statement is ever reached, whatever its conditions are."""
    if isinstance(stmt, ast.If):
        return bool(stmt.body and stmt.orelse) and _leaves(stmt.body[-1]) and _leaves(stmt.orelse[-1])
    if isinstance(stmt, ast.While):
        return isinstance(stmt.test, ast.Constant) and bool(stmt.test.value) and not any(map(_has_break, stmt.body))
    return isinstance(stmt, ast.Return | ast.Break | ast.Continue)


def _has_break(stmt: ast.stmt) -> bool:
    if isinstance(stmt, ast.Break):
        return True
    return isinstance(stmt, ast.If) and any(map(_has_break, [*stmt.body, *stmt.orelse]))


class Statements(Functions):
    """Walks statement lists of the current frame."""

    def body(self, statements: list[ast.stmt]) -> None:
        for i, stmt in enumerate(statements):
            if i and _leaves(statements[i - 1]):
                raise self.error("E0108", "this statement is never reached", stmt)
            if self.frame.left or self.b.block.terminated:
                return  # a compile-time if left: the rest is not part of this stamp
            name = type(stmt).__name__
            method = getattr(self, f"stmt_{name}", None)
            if method is None:
                raise self.error("E0101", f"{_WORDS.get(name, name.lower())} statement has no lowering", stmt, _ADVICE.get(name, ""))
            self.b.span = self.span(stmt)
            method(stmt)

    def stmt_Pass(self, node: ast.Pass) -> None:
        pass

    def stmt_Expr(self, node: ast.Expr) -> None:
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):  # a docstring says nothing here
            self.eval(node.value)

    def stmt_Assert(self, node: ast.Assert) -> None:
        test = self.eval(node.test)
        if is_runtime(test):
            raise self.error("E0405", "assert on a run-time value has no lowering", node, "assert checks compile-time conditions; test run-time ones with kernel.interpret")
        if not self.truth(test, node.test):
            message = self.eval(node.msg) if node.msg else ast.unparse(node.test)
            raise self.error("E0503", f"assertion failed: {message if isinstance(message, str) else describe(message)}", node)

    # assignment
    def stmt_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value, self.span(node))

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        declared = self._local_annotation(node.annotation)
        if not isinstance(node.target, ast.Name):
            raise self.error("E0101", "only names of locals are annotated", node, "assign without an annotation")
        if node.value is None:
            raise self.error("E0101", "an annotated local needs a value", node, "write name: f32 = 0.0, or local_array(...) for arrays")
        self.assign_name(node.target.id, self.value(node.value), self.span(node), declared)

    def _local_annotation(self, node: ast.expr) -> Type:
        shown = node
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value.strip(), mode="eval").body
            except SyntaxError:
                raise self.error("E0302", "annotation of a local is not a type", shown, "write name: f32 = value") from None
            for inner in ast.walk(node):
                ast.copy_location(inner, shown)
        declared = self.eval(node)
        if not isinstance(declared, Type):
            raise self.error("E0302", f"annotation of a local is {describe(declared)}, not a type", shown, "write name: f32 = value")
        return declared

    def assign(self, target: ast.expr, value: Any, span: Span) -> None:
        if isinstance(target, ast.Name):
            self.assign_name(target.id, value, span)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value, span)
        elif isinstance(target, ast.Attribute | ast.Subscript):
            self.assign_part(target, value, span)
        else:
            raise self.error("E0308", "cannot assign to this", target)

    def _unpack(self, target: ast.Tuple | ast.List, value: Any, span: Span) -> None:
        if isinstance(value, Place) and value.is_number:
            value = self.load(value, span)
        parts = self.elements(value)
        if parts is None or any(isinstance(t, ast.Starred) for t in target.elts) or len(parts) != len(target.elts):
            raise self.error("E0105", f"cannot unpack {describe(value)} into {len(target.elts)} names", target, "the right side needs as many values as there are names")
        # read every value before any name or place changes: a, b = b, a
        parts = [self.load(p, span) if isinstance(p, Place) and self._moves(p, target) else p for p in parts]
        for t, v in zip(target.elts, parts, strict=True):
            self.assign(t, v, span)

    @staticmethod
    def _moves(place: Place, target: ast.Tuple | ast.List) -> bool:
        """Whether a place must be read before its neighbours are assigned."""
        into_memory = not all(isinstance(t, ast.Name) for t in target.elts)
        return place.is_number or place.owned or (into_memory and not place.constant)

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        span, kind, target = self.span(node), type(node.op).__name__, node.target
        if isinstance(target, ast.Name):
            load = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            old = self.value(load)
            self.assign_name(target.id, self.operate(kind, old, self.value(node.value), node), span)
            return
        base, now = self.target(target)
        old = self.rvalue(now, span)
        self.put_part(base, now, target, self.operate(kind, old, self.value(node.value), node), span)
        self.release(target)

    # return
    def stmt_Return(self, node: ast.Return) -> None:
        frame, span = self.frame, self.span(node)
        if frame.kind == "inline":
            if self.in_control_flow:
                raise NeedsFunction
            frame.result, frame.returned_at, frame.left = self.kept(node.value) if node.value else None, span, "return"
            return
        value = self.value(node.value) if node.value else None
        if frame.kind == "entry":
            if value is not None:
                raise self.error("E0212", "a kernel returns nothing", node, "write results to an Out buffer")
            self.b.return_()
        else:
            self._return_value(value, node, span)
        if not self.in_control_flow:
            frame.left = "return"

    def _return_value(self, value: Any, node: ast.Return, span: Span) -> None:
        frame, function = self.frame, self.frame.function
        assert function is not None
        want = function.result if frame.typed else None
        if isinstance(value, Items | tuple):
            raise self.error("E0406", f"returns {describe(value)} from inside run-time control flow", node, "return one number, vector or struct, or return once, at the end")
        made = value if value is None or isinstance(value, Node) else literal(self.b, value, want, span) if want else self.typed_default(value, span)
        t = made.type if made is not None else None
        if frame.typed and t != want:
            raise CompileError("E0212", f"returns {t.name if t else 'nothing'} here, {want.name if want else 'nothing'} elsewhere", span, "every return of a function gives the same type")
        function.result, frame.typed = t, True
        self.b.return_(made)
