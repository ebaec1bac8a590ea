"""Base of the passes: copies a module node by node, so that a pass overrides only what it changes.

Passes never write to the nodes they are given; an unchanged leaf node is shared between the old module and the new one.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.nodes import Block, Function, Module, Node, walk


class Rewriter:
    """`env` maps nodes of the old module to what stands for them in the new one; `functions` does so for functions."""

    def __init__(self) -> None:
        self.env: dict[Node, Node] = {}
        self.functions: dict[Function, Function] = {}

    def module(self, module: Module) -> Module:
        """The rewritten module; functions keep their order."""
        for fn in module.functions:
            self.functions[fn] = Function(fn.name, fn.params, fn.result, Block(), fn.span)
        for fn in module.functions:
            self.functions[fn].body = self.body(fn)
        return replace(module, functions=[self.functions[fn] for fn in module.functions])

    def body(self, fn: Function) -> Block:
        """The rewritten body of one function."""
        for p in fn.params:
            self.env[p] = p
        return self.block(fn.body)

    def block(self, block: Block) -> Block:
        """The rewritten block; nodes after the point control cannot pass are dropped."""
        out = Block()
        for node in block.nodes:
            self.node(node, out)
            if out.nodes and diverts(out.nodes[-1]):
                break
        return out

    def node(self, node: Node, out: Block) -> None:
        """Appends what stands for `node` to `out`, and sets env[node]. Overridden by passes."""
        self.copy(node, out)

    def copy(self, node: Node, out: Block) -> Node:
        """Appends a copy (or the node itself where nothing in it changed)."""
        env = self.env
        args = tuple([env[a] for a in node.args])
        attrs = node.attrs
        if node.op == "call":
            target = self.functions[attrs["function"]]
            if target is not attrs["function"]:
                attrs = {**attrs, "function": target}
        if node.blocks:
            made = Node(node.op, node.type, args, attrs, node.span, tuple(self.block(b) for b in node.blocks))
        elif attrs is node.attrs and args == node.args:  # nodes compare by identity
            made = node
        else:
            made = Node(node.op, node.type, args, attrs, node.span)
        out.nodes.append(made)
        self.env[node] = made
        return made


def diverts(node: Node) -> bool:
    """True when control never goes on after `node` in its block."""
    if node.op in ("break", "continue", "return", "unreachable"):
        return True
    if node.op == "if":
        return all(b.nodes and diverts(b.nodes[-1]) for b in node.blocks)
    if node.op == "loop":
        test = node.blocks[0].nodes[-1].args[0]
        return test.op == "const" and bool(test.attrs["value"]) and not _breaks(node.blocks[1])
    return False


def _breaks(block: Block) -> bool:
    """True when a `break` in `block` leaves the loop that `block` belongs to."""
    return any(n.op == "break" or (n.op == "if" and any(_breaks(b) for b in n.blocks)) for n in block.nodes)


def count_nodes(block: Block) -> int:
    """Number of nodes, nested ones included."""
    return sum(1 for _ in walk(block))
