"""Inlining of calls whose function returns only at its end (tail form).

A guard (`if c: return x`, then more code) is tail form too: the code that follows moves into the other branch. Functions
that return from inside a loop, or from an if that may also fall through, stay calls.
"""

from __future__ import annotations

from dataclasses import replace

from ..diagnostics import CompileError
from ..ir.nodes import Block, Function, Module, Node, Span, walk
from ..lang.types import Ref
from .rewrite import Rewriter, count_nodes, diverts

BUDGET = 200_000  # nodes of one kernel after inlining; SPIR-V bounds ids at 4,194,303 and drivers give up far earlier


def inline(module: Module, budget: int = BUDGET) -> Module:
    """The module with tail-form functions inlined at every call, and functions no longer called dropped.

    Raises CompileError E0408 when the kernel would exceed `budget` nodes, E0109 for recursion.
    """
    return _Inliner(budget).module(module)


class _Inliner(Rewriter):
    def __init__(self, budget: int) -> None:
        super().__init__()
        self.budget = budget
        self.size = 0
        self.tails: dict[Function, Block | None] = {}  # old function -> its new body in tail form

    def module(self, module: Module) -> Module:
        for fn in _callees_first(module.entry):
            made = Function(fn.name, fn.params, fn.result, Block(), fn.span)
            made.body = self.body(fn)
            self.functions[fn] = made
            self.tails[fn] = tail_form(made)
        entry = self.functions[module.entry]
        called = _callees_first(entry)
        kept = [entry] + [self.functions[f] for f in module.functions[1:] if self.functions.get(f) in called]
        return replace(module, functions=kept)

    def node(self, node: Node, out: Block) -> None:
        tail = self.tails[node.attrs["function"]] if node.op == "call" else None
        if tail is None:
            self.copy(node, out)
            return
        callee = self.functions[node.attrs["function"]]
        self.size += count_nodes(tail)
        if self.size > self.budget:
            raise CompileError("E0408", f"inlining {callee.name}() makes the kernel larger than {self.budget} nodes",
                               node.span, "call it in a loop instead of unrolled code, or make the function smaller")
        args = [self.env[a] for a in node.args]
        result = _Paste(callee, args, node.span).into(out, tail)
        if result is not None:
            self.env[node] = result


class _Paste(Rewriter):
    """Copies a tail-form body into a caller: params become arguments, returns become the call's value."""

    def __init__(self, callee: Function, args: list[Node], site: Span):
        super().__init__()
        self.callee, self.site = callee, site
        self.env = dict(zip(callee.params, args, strict=True))
        self.spans: dict[Span, Span] = {}
        self.result: Node | None = None  # the local that holds the value, where several returns do

    def into(self, out: Block, tail: Block) -> Node | None:
        """Appends to `out`; the node that is the call's value, None for void."""
        returns = [n for n in walk(tail) if n.op == "return"]
        direct = len(returns) == 1 and tail.nodes[-1] is returns[0]
        if self.callee.result is not None and not direct:
            self.result = Node("local", Ref(self.callee.result, "function"), (), {"name": f"{self.callee.name}.result"}, self.site)
            out.nodes.append(self.result)
        for node in tail.nodes:
            self.node(node, out)
        if self.callee.result is None:
            return None
        if self.result is None:
            return self.env[returns[0].args[0]]
        value = Node("load", self.callee.result, (self.result,), {}, self.site)
        out.nodes.append(value)
        return value

    def node(self, node: Node, out: Block) -> None:
        span = self.span(node.span)
        args = tuple(self.env[a] for a in node.args)
        if node.op == "return":
            if self.result is not None:
                out.nodes.append(Node("store", None, (self.result, *args), {}, span))
            return
        made = Node(node.op, node.type, args, node.attrs, span, tuple(self.block(b) for b in node.blocks))
        out.nodes.append(made)
        self.env[node] = made

    def span(self, span: Span) -> Span:
        """`span` as seen from the call site."""
        made = self.spans.get(span)
        if made is None:
            made = self.spans[span] = under(span, self.site)
        return made


def under(span: Span, site: Span) -> Span:
    """`span` with `site` as its outermost call site."""
    return replace(span, parent=site if span.parent is None else under(span.parent, site))


def tail_form(fn: Function) -> Block | None:
    """The body with returns in tail position only, or None where that cannot be had without copying code."""
    if any(n.op == "unreachable" for n in walk(fn.body)):
        return None
    return _tail(fn.body.nodes, fn.result is not None)


def _tail(nodes: list[Node], valued: bool) -> Block | None:
    out: list[Node] = []
    for i, node in enumerate(nodes):
        if node.op == "return":
            return Block([*out, node])
        if not _returns(node):
            out.append(node)
            continue
        if node.op != "if":
            return None
        then, other = (b.nodes for b in node.blocks)
        rest = nodes[i + 1 :]
        if then and diverts(then[-1]):
            other = other if other and diverts(other[-1]) else other + rest
        elif other and diverts(other[-1]):
            then = then + rest
        elif rest:
            return None
        blocks = _tail(then, valued), _tail(other, valued)
        if None in blocks:
            return None
        return Block([*out, Node("if", None, node.args, node.attrs, node.span, blocks)])
    return None if valued else Block(out)


def _returns(node: Node) -> bool:
    return any(n.op == "return" for b in node.blocks for n in walk(b))


def _callees_first(entry: Function) -> list[Function]:
    """`entry` and all it calls, callees before callers."""
    order: list[Function] = []
    open_: list[Function] = []

    def visit(fn: Function, site: Span) -> None:
        if fn in open_:
            raise CompileError("E0109", f"{fn.name}() calls itself", site, "SPIR-V has no recursion; write a loop")
        if fn in order:
            return
        open_.append(fn)
        for node in walk(fn.body):
            if node.op == "call":
                visit(node.attrs["function"], node.span)
        open_.pop()
        order.append(fn)

    visit(entry, entry.span)
    return order
