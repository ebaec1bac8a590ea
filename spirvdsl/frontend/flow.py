"""Control flow: if, while, for, break, continue, and what names are where paths meet."""

from __future__ import annotations

import ast
from typing import Any

from ..ir.nodes import Block, Node, Span
from ..lang.types import RuntimeArray, Scalar, bool_, i32, u32
from .source import stored_in
from .statements import Statements
from .typing import coerce, common_literal_type, literal
from .values import UNASSIGNED, Items, Place, Unassigned, Variable, describe, holds_runtime

Branch = tuple[Block, dict[str, Any]]
Outer = tuple[dict[str, Any], set[str], set[str], set[str]]
_ABSENT = object()


class Flow(Statements):
    """Mixed into the walker. Run-time control flow becomes structured regions, compile-time control flow is followed here."""

    def stmt_If(self, node: ast.If) -> None:
        test = self.condition(node.test)
        if not isinstance(test, Node):
            self.body(node.body if test else node.orelse)
            return
        frame, span = self.frame, self.span(node)
        self.materialise(stored_in([*node.body, *node.orelse]), span)
        before, sure, branches, surely = dict(frame.env), set(frame.sure), [], []
        for block, statements in zip(self.b.if_(test), (node.body, node.orelse), strict=True):
            frame.env, frame.sure = dict(before), set(sure)
            with self.ctx.region(block):
                self.body(statements)
            branches.append((block, frame.env))
            surely += [] if block.terminated else [frame.sure]
        frame.sure = set.intersection(*surely) if surely else sure
        frame.env = self._merge(before, [b for b in branches if not b[0].terminated], span)
        if all(block.terminated for block, _ in branches):
            self.b.node("unreachable", None)

    # names where paths meet
    def _merge(self, before: dict[str, Any], live: list[Branch], span: Span) -> dict[str, Any]:
        """Names after an if: what they are at the ends of the branches that go on."""
        if not live:
            return before
        out = dict(before)
        for name in {n: None for _, env in live for n in env}:
            values = [env.get(name, UNASSIGNED) for _, env in live]
            if any(v is not before.get(name, _ABSENT) for v in values):
                known = any(v is values[0] for v in before.values())
                same = all(v is values[0] for v in values) and (known or self._outlives(values[0]))
                out[name] = values[0] if same else self._join(name, [block for block, _ in live], values, span)
        return out

    def _join(self, name: str, blocks: list[Block], values: list[Any], span: Span) -> Any:
        """What a name is after several blocks at whose ends it has these values; Unassigned when they have nothing in common."""
        unassigned = [v for v in values if isinstance(v, Unassigned)]
        if unassigned:
            return next((v for v in unassigned if v.why), UNASSIGNED)
        first = values[0]
        if all(isinstance(v, tuple) and len(v) == len(first) for v in values) and any(map(holds_runtime, values)):
            parts = [self._join(f"{name}[{i}]", blocks, list(part), span) for i, part in enumerate(zip(*values, strict=True))]
            bad = next((p for p in parts if isinstance(p, Unassigned)), None)
            return bad or tuple(p.place if isinstance(p, Variable) else p for p in parts)
        values = [v.place if isinstance(v, Variable) else v for v in values]
        if all(self._numeric(v) for v in values):
            return self._join_numbers(name, blocks, values, span)
        if not any(holds_runtime(v) or isinstance(v, Items) for v in values) and self._same(values):
            return first
        kinds = list(dict.fromkeys(describe(v) for v in values))
        return Unassigned(f"is {' on one path and '.join(kinds)}{' on another' if len(kinds) > 1 else ' of one path only'}")

    @staticmethod
    def _same(values: list[Any]) -> bool:
        try:
            return all(type(v) is type(values[0]) and bool(v == values[0]) for v in values)
        except Exception:  # noqa: BLE001 an object of the author's that does not compare is not the same
            return False

    @staticmethod
    def _numeric(value: Any) -> bool:
        """Something a variable can hold: a reference to memory is none."""
        if isinstance(value, Place):
            return value.is_number or value.owned or (value.constant and not isinstance(value.type, RuntimeArray))
        return isinstance(value, Node | bool | int | float)

    def _join_numbers(self, name: str, blocks: list[Block], values: list[Any], span: Span) -> Any:
        types = [v.type for v in values if isinstance(v, Node | Place)]
        if not types and all(type(v) is type(values[0]) and repr(v) == repr(values[0]) for v in values):
            return values[0]
        if any(t != types[0] for t in types):
            return Unassigned(f"is {types[0].name} on one path and {next(t for t in types if t != types[0]).name} on another")
        t = types[0] if types else common_literal_type(values, span)
        var = self.variable(name, t, span)
        for block, value in zip(blocks, values, strict=True):
            with self.b.at(block):
                self.b.store(var.place.ref, coerce(self.b, self.rvalue(value, span), t, name, span))
        return var

    def _outlives(self, value: Any) -> bool:
        """Whether a value made in a block can be used after it."""
        if isinstance(value, Place):
            return value.resource is None and value.ref.op == "local"  # declared at the top of the function
        if isinstance(value, Variable):
            return True
        if isinstance(value, Items | tuple):
            return all(map(self._outlives, value.cells if isinstance(value, Items) else value))
        return not isinstance(value, Node)

    # loops
    def stmt_While(self, node: ast.While) -> None:
        if node.orelse:
            raise self.error("E0101", "while ... else has no lowering", node.orelse[0], "set a flag before break")
        self.materialise(stored_in(node.body), self.span(node))
        outer = self._enter_loop()
        cond, body, _ = self.b.loop()
        with self.ctx.region(cond):
            test = self.condition(node.test)
            self.b.yield_(test if isinstance(test, Node) else self.b.const(bool_, test))
        self._loop_body(body, node, outer)
        if test is True and not _breaks(body):
            self.b.node("unreachable", None)

    def _enter_loop(self) -> Outer:
        frame = self.frame
        outer = dict(frame.env), frame.read, frame.written, frame.sure
        frame.read, frame.written, frame.sure = set(), set(), set()
        return outer

    def _loop_body(self, block: Block, node: ast.While | ast.For, outer: Outer) -> None:
        """Walks the body of a run-time loop. Afterwards names are what they were before it: variables have changed in place, new
        names may have been given no value at all, and other values cannot be carried from one iteration to the next."""
        frame = self.frame
        frame.loops.append((True, self.ctx.depth + 1))
        with self.ctx.region(block):
            self.body(node.body)
        frame.loops.pop()
        env, read, written, sure = outer
        for name in sorted(frame.written):
            old = env.get(name, UNASSIGNED)
            if isinstance(old, Unassigned) or (isinstance(old, Variable) and frame.env.get(name) is old):
                continue
            if name in frame.read:
                what = describe(old.place if isinstance(old, Variable) else old)
                raise self.error("E0204", f"{name} is {what}, it cannot change from one iteration of a run-time loop to the next", node,
                                 "give it a run-time value before the loop, e.g. f32(0), or use static_range")
            env[name] = Unassigned("has changed in a run-time loop before")
        for name in frame.env:
            env.setdefault(name, UNASSIGNED)  # the loop may run no time at all
        frame.env, frame.read, frame.written, frame.sure = env, read | (frame.read - sure), written | frame.written, sure

    def stmt_For(self, node: ast.For) -> None:
        if node.orelse:
            raise self.error("E0101", "for ... else has no lowering", node.orelse[0], "set a flag before break")
        if self.is_range(node.iter):
            self._range_loop(node, *self.range_bounds(node.iter))
        else:
            self._unrolled(node, self.static_items(node.iter))

    def _unrolled(self, node: ast.For, items: list[Any]) -> None:
        """static_range and compile-time sequences: the body once per item, the index a Python value (so lists of tiles,
        template conditions and constants work); done here and not on IR because those need the value while walking."""
        self.budget(len(items), node)
        frame = self.frame
        held = {n: v for n in stored_in([node.target]) if isinstance(v := frame.env.get(n), Variable)}
        frame.loops.append((False, self.ctx.depth))
        iteration = frame.iteration
        for item in self.iterations(items):
            self.bind_fresh(node.target, item)
            self.body(node.body)
            left, frame.left = frame.left, frame.left if frame.left == "return" else ""
            if left in ("break", "return") or self.b.block.terminated:
                break
        frame.iteration = iteration  # a break leaves it where it was
        frame.loops.pop()
        for name, var in held.items():  # run-time code around knows the name as a variable
            if items and not isinstance(frame.env[name], Variable) and not self.b.block.terminated:
                value, frame.env[name] = frame.env[name], var
                if self._numeric(value):
                    self.assign_name(name, value, self.span(node.target))
                else:
                    frame.env[name] = Unassigned(f"is {describe(value)} after an unrolled loop")

    def _range_loop(self, node: ast.For, args: list[Any], hint: str | None, count: int | None) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.error("E0404", "the target of a range loop is one name", node.target, "unpack inside the loop")
        name, span = node.target.id, self.span(node)
        if name in stored_in(node.body):
            raise self.error("E0404", f"loop variable {name} is assigned in the loop", node.target, "Python would forget the change; use another name")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (args[0], args[1], args[2] if len(args) == 3 else 1)
        t = self._range_type(node, [start, stop, step])
        if not isinstance(step, Node) and (step == 0 or (step < 0 and t == u32)):
            raise self.error("E0404", f"range step {step!r}", node.iter, "a step is a non-zero int, negative only on i32 ranges")
        if isinstance(step, Node) and t != u32:
            raise self.error("E0404", "a run-time range step must be u32", node.iter, "its sign must be known")
        low, high, by = (literal(self.b, v, t, span) if not isinstance(v, Node) else v for v in (start, stop, step))
        self.materialise(stored_in(node.body), span)
        counter = self.b.local(t, name)
        self.b.store(counter, low)
        outer = self._enter_loop()
        cond, body, after = self.b.loop(hint, count)
        with self.ctx.region(cond):
            down = not isinstance(step, Node) and step < 0
            self.b.yield_(self.b.binary("gt" if down else "lt", self.b.load(counter), high))
        with self.ctx.region(body):
            self.frame.bind(name, self.b.load(counter))
        outer[0][name] = UNASSIGNED
        self._loop_body(body, node, outer)
        with self.ctx.region(after):
            self.b.span = span
            self.b.store(counter, self.b.binary("add", self.b.load(counter), by))

    def _range_type(self, node: ast.For, args: list[Any]) -> Scalar:
        """The type of a loop counter: that of its run-time bounds; u32 for literals (indices are unsigned), i32 if one is negative."""
        types = [a.type for a in args if isinstance(a, Node)]
        for t in types:
            if t not in (u32, i32):
                raise self.error("E0404", f"range bound is {t.name if t else 'nothing'}", node.iter, "bounds are u32 or i32")
            if t != types[0]:
                raise self.error("E0404", "range bounds mix u32 and i32", node.iter, "convert one of them")
        for a in args:
            if not isinstance(a, Node) and (isinstance(a, bool) or not isinstance(a, int)):
                raise self.error("E0404", f"range bound {describe(a)} is not an int", node.iter, "bounds are u32, i32 or compile-time ints")
        if types:
            return types[0]
        return i32 if any(a < 0 for a in args) else u32

    def stmt_Break(self, node: ast.Break) -> None:
        self._leave(node, "break")

    def stmt_Continue(self, node: ast.Continue) -> None:
        self._leave(node, "continue")

    def _leave(self, node: ast.stmt, op: str) -> None:
        frame = self.frame
        runtime, depth = frame.loops[-1]  # Python itself refuses a break outside a loop
        if runtime:
            self.b.node(op, None)
        elif self.ctx.depth == depth:
            frame.left = op
        else:
            raise self.error("E0406", f"{op} under a run-time condition inside an unrolled loop", node, "use range(), or a compile-time condition")


def _breaks(block: Block) -> bool:
    """Whether a break in this block leaves the loop whose body it is."""
    return any(n.op == "break" or (n.op == "if" and any(map(_breaks, n.blocks))) for n in block.nodes)
