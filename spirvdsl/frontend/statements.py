"""Statements: assignment, control flow, return. One method per ast class; what has none is refused (E0101)."""

from __future__ import annotations

import ast
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Block, Node, Span
from ..lang.types import Scalar, Struct, Type, Vector, bool_, i32, u32
from .expressions import Expressions
from .frame import NeedsFunction
from .source import stored_in
from .typing import coerce, default_type, literal
from .values import UNASSIGNED, Items, Place, Variable, is_runtime

_ADVICE = {"With": "there is no context manager on a device", "Try": "kernels cannot raise", "Raise": "kernels cannot raise", "Delete": "locals end with their block",
           "Import": "import at module level", "ImportFrom": "import at module level", "Global": "kernels capture constants only", "Nonlocal": "kernels capture constants only",
           "FunctionDef": "define functions at module level", "ClassDef": "define structs at module level", "Match": "write if / elif", "AsyncFor": "kernels are synchronous"}


class Statements(Expressions):
    """Walks statement lists of the current frame."""

    def body(self, statements: list[ast.stmt]) -> None:
        for i, stmt in enumerate(statements):
            after_leave = i > 0 and isinstance(statements[i - 1], ast.Return | ast.Break | ast.Continue)
            if self.frame.returned and not after_leave:
                return  # a compile-time if returned: the rest is not part of this stamp
            if after_leave or self.b.block.terminated:
                raise self.error("E0108", "this statement is never reached", stmt, "remove it")
            method = getattr(self, f"stmt_{type(stmt).__name__}", None)
            if method is None:
                name = type(stmt).__name__
                raise self.error("E0101", f"{name.lower()} statement has no lowering", stmt, _ADVICE.get(name, "see docs/language.md for what a kernel may contain"))
            self.b.span = self.span(stmt)
            method(stmt)

    def stmt_Pass(self, node: ast.Pass) -> None:
        pass

    def stmt_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return  # docstring
        self.eval(node.value)

    def stmt_Assert(self, node: ast.Assert) -> None:
        test = self.eval(node.test)
        if is_runtime(test):
            raise self.error("E0101", "assert on a run-time value has no lowering", node, "assert checks compile-time conditions; test run-time ones with kernel.interpret")
        if not test:
            message = self.eval(node.msg) if node.msg else ast.unparse(node.test)
            raise self.error("E0503", f"assertion failed: {message}", node)

    # assignment
    def stmt_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value, self.span(node))

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        declared = self.eval(node.annotation)
        if not isinstance(declared, Type):
            raise self.error("E0302", "annotation of a local is not a type", node.annotation, "write name: f32 = value")
        if node.value is None or not isinstance(node.target, ast.Name):
            raise self.error("E0101", "an annotated local needs a value", node, "write name: f32 = 0.0, or local_array(...) for arrays")
        self.assign_name(node.target.id, self.rvalue(self.eval(node.value), self.span(node)), self.span(node), declared)

    def assign(self, target: ast.expr, value: Any, span: Span) -> None:
        if isinstance(target, ast.Name):
            self.assign_name(target.id, value, span)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value.cells if isinstance(value, Items) else value
            if not isinstance(parts, tuple | list) or len(parts) != len(target.elts):
                raise CompileError("E0105", f"cannot unpack into {len(target.elts)} names", span, "the right side needs as many values")
            # read every value before any name changes: a, b = b, a
            parts = [self.load(p, span) if isinstance(p, Place) and isinstance(p.type, Scalar | Vector) else p for p in parts]
            for t, v in zip(target.elts, parts, strict=True):
                self.assign(t, v, span)
        elif isinstance(target, ast.Attribute | ast.Subscript):
            self.assign_part(target, value, span)
        else:
            raise self.error("E0308", "cannot assign to this", target)

    def assign_part(self, target: ast.Attribute | ast.Subscript, value: Any, span: Span) -> None:
        """x[i] = value, v.x = value, s.field = value."""
        base = self.eval(target.value)
        if isinstance(base, Items):
            self.assign_item(base, target, value, span)
            return
        if isinstance(base, Node) and isinstance(target.value, ast.Name):
            self._rebind_part(target.value.id, base, target, value, span)
            return
        place = self.part(base, target)
        if not isinstance(place, Place):
            raise self.error("E0308", "cannot assign to this", target, "only elements of buffers, arrays, vectors and structs can be assigned")
        self.store(place, value, span)

    def _rebind_part(self, name: str, base: Node, target: ast.Attribute | ast.Subscript, value: Any, span: Span) -> None:
        """v.x = value on an immutable value: the name is bound to a changed copy."""
        at = self.component(base, target)
        if not isinstance(at, int):  # run-time lane: through memory
            var = self.make_variable(name, base, span)
            self.frame.env[name] = var
            self.store(self.part(var.place, target), value, span)
            return
        elem = base.type.fields[at].type if isinstance(base.type, Struct) else base.type.elem
        new = coerce(self.b, self.rvalue(value, span), elem, f"{name}.{getattr(target, 'attr', at)}", span)
        self.assign_name(name, self.b.node("insert", base.type, (base, new), index=at), span)

    def assign_item(self, items: Items, target: ast.Attribute | ast.Subscript, value: Any, span: Span) -> None:
        """tiles[i] = value: run-time cells are local variables, so that loops may change them."""
        at = self.static_index(items.cells, target)
        cell = items.cells[at]
        if isinstance(cell, Variable):
            self.b.store(cell.place.ref, coerce(self.b, self.rvalue(value, span), cell.place.type, f"element {at}", span, "E0204"))
        elif self.frame.regions:
            raise self.error("E0213", "a compile-time list element cannot change under run-time control flow", target, "give it a run-time value, e.g. f32(0)")
        else:
            items.cells[at] = self.cell(self.rvalue(value, span), span)

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        span, kind = self.span(node), type(node.op).__name__
        if isinstance(node.target, ast.Name):
            load = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
            self.assign_name(node.target.id, self.operate(kind, self.eval(load), self.eval(node.value), node), span)
            return
        base = self.eval(node.target.value)
        if isinstance(base, Items):
            at = self.static_index(base.cells, node.target)
            cell = base.cells[at]
            old = cell.place if isinstance(cell, Variable) else cell
            self.assign_item(base, node.target, self.operate(kind, old, self.eval(node.value), node), span)
            return
        place = self.part(base, node.target)
        if isinstance(base, Node) and isinstance(node.target.value, ast.Name):
            self._rebind_part(node.target.value.id, base, node.target, self.operate(kind, place, self.eval(node.value), node), span)
            return
        if not isinstance(place, Place):
            raise self.error("E0308", "cannot assign to this", node.target)
        self.store(place, self.operate(kind, place, self.eval(node.value), node), span)

    # control flow
    def stmt_If(self, node: ast.If) -> None:
        test = self.condition(node.test)
        if not isinstance(test, Node):
            self.body(node.body if test else node.orelse)
            return
        frame, span = self.frame, self.span(node)
        self.materialise(stored_in([*node.body, *node.orelse]), span)
        then, orelse = self.b.if_(test)
        before = dict(frame.env)
        with self.region(then):
            self.body(node.body)
        after_then, frame.env = frame.env, dict(before)
        with self.region(orelse):
            self.body(node.orelse)
        frame.env = self._merge(before, [(then, after_then), (orelse, frame.env)], span)
        if then.terminated and orelse.terminated:
            self.b.node("unreachable", None)

    def _merge(self, before: dict[str, Any], branches: list[tuple[Block, dict[str, Any]]], span: Span) -> dict[str, Any]:
        """Names after an if: those bound before it, and new ones that every branch which goes on has bound."""
        out, live = dict(before), [(block, env) for block, env in branches if not block.terminated]
        for name in {n: None for _, env in branches for n in env if before.get(n, UNASSIGNED) is UNASSIGNED}:
            values = [env.get(name, UNASSIGNED) for _, env in live]
            if not values or any(v is UNASSIGNED for v in values):
                out[name] = UNASSIGNED
            elif all(v is values[0] or (not is_runtime(v) and type(v) is type(values[0]) and v == values[0]) for v in values) and not isinstance(values[0], Node):
                out[name] = values[0]
            else:
                out[name] = self._join(name, [block for block, _ in live], values, span)
        return out

    def _join(self, name: str, blocks: list[Block], values: list[Any], span: Span) -> Any:
        """One variable for the values a name has at the ends of several blocks; UNASSIGNED when they have no common type."""
        values = [v.place if isinstance(v, Variable) else v for v in values]
        types = [v.type for v in values if isinstance(v, Node | Place)]
        if any(not isinstance(v, Node | Place | bool | int | float) for v in values) or any(t != types[0] for t in types):
            return UNASSIGNED
        t = types[0] if types else default_type(next((v for v in values if isinstance(v, float)), values[0]), span)
        var = self.variable(name, t, span)
        for block, value in zip(blocks, values, strict=True):
            with self.b.at(block):
                self.b.store(var.place.ref, coerce(self.b, self.rvalue(value, span), t, name, span))
        return var

    def stmt_While(self, node: ast.While) -> None:
        if node.orelse:
            raise self.error("E0101", "while ... else has no lowering", node.orelse[0], "set a flag before break")
        self.materialise(stored_in(node.body), self.span(node))
        cond, body, _ = self.b.loop()
        with self.region(cond):
            test = self.condition(node.test)
            self.b.yield_(test if isinstance(test, Node) else self.b.const(bool_, bool(test)))
        self._loop_body(body, node.body)

    def _loop_body(self, block: Block, statements: list[ast.stmt]) -> None:
        frame = self.frame
        before = dict(frame.env)
        frame.loops.append("runtime")
        with self.region(block):
            self.body(statements)
        frame.loops.pop()
        new = [n for n in frame.env if n not in before]
        frame.env = before
        for name in new:
            frame.env[name] = UNASSIGNED  # the loop may run no time at all

    def stmt_For(self, node: ast.For) -> None:
        if node.orelse:
            raise self.error("E0101", "for ... else has no lowering", node.orelse[0], "set a flag before break")
        bounds = self.range_call(node.iter)
        if bounds is None:
            self._unrolled(node, self.static_items(node.iter))
        else:
            self._range_loop(node, *bounds)

    def _unrolled(self, node: ast.For, items: list[Any]) -> None:
        """static_range and compile-time sequences: the body once per item, the index a Python value (so lists of tiles,
        template conditions and constants work); done here and not on IR because those need the value while walking."""
        self.budget(len(items), node)
        self.frame.loops.append("static")
        for item in items:
            self._bind_index(node.target, item)
            self.body(node.body)
            if self.b.block.terminated:
                raise self.error("E0406", "control leaves an unrolled loop", node, "use range() for loops that break or return")
        self.frame.loops.pop()

    def _bind_index(self, target: ast.expr, item: Any) -> None:
        """The index of an unrolled loop is always a compile-time binding, whatever the name was before."""
        if isinstance(target, ast.Name):
            self.frame.env[target.id] = item
        else:
            self.assign(target, item, self.span(target))

    def _range_loop(self, node: ast.For, args: list[Any], hint: str | None, count: int | None) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.error("E0404", "the target of a range loop is one name", node.target)
        span = self.span(node)
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (args[0], args[1], args[2] if len(args) == 3 else 1)
        t = self._range_type(node, [start, stop, step])
        if not isinstance(step, Node) and (not isinstance(step, int) or step == 0 or (step < 0 and t == u32)):
            raise self.error("E0404", f"range step {step!r}", node.iter, "a step is a non-zero int, negative only on i32 ranges")
        if isinstance(step, Node) and t != u32:
            raise self.error("E0404", "a run-time range step must be u32", node.iter, "its sign must be known")
        low, high, by = (literal(self.b, v, t, span) if not isinstance(v, Node) else v for v in (start, stop, step))
        self.materialise([n for n in stored_in(node.body) if n != node.target.id], span)
        counter = self.b.local(t, node.target.id)
        self.b.store(counter, low)
        cond, body, after = self.b.loop(hint, count)
        with self.region(cond):
            down = not isinstance(step, Node) and step < 0
            self.b.yield_(self.b.binary("gt" if down else "lt", self.b.load(counter), high))
        with self.region(body):
            self.frame.env[node.target.id] = self.b.load(counter)
        if node.target.id in stored_in(node.body):
            raise self.error("E0404", f"loop variable {node.target.id} is assigned in the loop", node.target, "Python would forget the change; use another name")
        self._loop_body(body, node.body)
        with self.region(after):
            self.b.span = span
            self.b.store(counter, self.b.binary("add", self.b.load(counter), by))
        self.frame.env[node.target.id] = UNASSIGNED

    def _range_type(self, node: ast.For, args: list[Any]) -> Scalar:
        """The type of a loop counter: that of its run-time bounds; u32 for literals (indices are unsigned), i32 if one is negative."""
        types = [a.type for a in args if isinstance(a, Node)]
        for t in types:
            if t not in (u32, i32):
                raise self.error("E0404", f"range bound is {t.name}", node.iter, "bounds are u32 or i32")
            if t != types[0]:
                raise self.error("E0404", "range bounds mix u32 and i32", node.iter, "convert one of them")
        for a in args:
            if not isinstance(a, Node) and (isinstance(a, bool) or not isinstance(a, int)):
                raise self.error("E0404", f"range bound {a!r} is not an int", node.iter)
        if types:
            return types[0]
        return i32 if any(a < 0 for a in args) else u32

    def stmt_Break(self, node: ast.Break) -> None:
        self._leave(node, "break")

    def stmt_Continue(self, node: ast.Continue) -> None:
        self._leave(node, "continue")

    def _leave(self, node: ast.stmt, op: str) -> None:
        loops = self.frame.loops
        if not loops:
            raise self.error("E0403", f"{op} outside a loop", node)
        if loops[-1] == "static":
            raise self.error("E0406", f"{op} inside an unrolled loop", node, "use range(), or a compile-time if")
        self.b.node(op, None)

    def stmt_Return(self, node: ast.Return) -> None:
        frame, span = self.frame, self.span(node)
        if frame.kind == "inline":
            if frame.regions:
                raise NeedsFunction
            frame.result = self.eval(node.value) if node.value else None
            frame.returned = True
            return
        value = self.rvalue(self.eval(node.value), span) if node.value else None
        if frame.kind == "entry":
            if value is not None:
                raise self.error("E0212", "a kernel returns nothing", node, "write results to an Out buffer")
            self.b.return_()
        else:
            self._return_value(value, node, span)
        if not frame.regions:
            frame.returned = True

    def _return_value(self, value: Any, node: ast.Return, span: Span) -> None:
        function = self.frame.function
        assert function is not None
        if value is None:
            value_node, t = None, None
        elif isinstance(value, Node):
            value_node, t = value, value.type
        else:
            want = function.result if self.frame.result == "typed" and function.result else None
            value_node = literal(self.b, value, want, span) if want else self.typed_default(value, span)
            t = value_node.type
        if self.frame.result == "typed" and t != function.result:
            raise self.error("E0212", f"returns {t.name if t else 'nothing'} here and {function.result.name if function.result else 'nothing'} elsewhere", node)
        function.result, self.frame.result = t, "typed"
        self.b.return_(value_node)
