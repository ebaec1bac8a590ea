"""When values die, so that generated code can reuse their names and numpy its memory."""

from __future__ import annotations

from ..ir.nodes import Block, Function, Node
from ..lang.types import Ref


def releases(fn: Function) -> dict[Node, list[Node]]:
    """For each node, the values of its own block that nothing uses after it (uses in nested blocks count as the node's).

    A use of a place counts as a use of every index on the way to it, because places are resolved where they are used.
    """
    level: dict[Node, int] = {}
    last: dict[Node, Node] = {}
    chain: list[Node] = []

    def used(value: Node) -> None:
        if value in level:
            last[value] = chain[level[value]]
        if isinstance(value.type, Ref) and value.op in ("index", "member"):
            used(value.args[0])

    def visit(block: Block) -> None:
        depth = len(chain)
        for node in block.nodes:
            chain.append(node)
            for a in node.args:
                used(a)
            for inner in node.blocks:
                visit(inner)
            if node.type is not None:
                level[node] = depth
                last[node] = node
            chain.pop()

    visit(fn.body)
    out: dict[Node, list[Node]] = {}
    for value, node in last.items():
        out.setdefault(node, []).append(value)
    return out


def exits(block: Block) -> bool:
    """True when some lanes may leave the block other than through its end (loops inside keep their own breaks)."""
    for node in block.nodes:
        if node.op in ("break", "continue", "return", "unreachable"):
            return True
        if node.op == "if" and any(exits(b) for b in node.blocks):
            return True
        if node.op == "loop" and returns(node):
            return True
    return False


def returns(node: Node) -> bool:
    """True when a `return` (or `unreachable`) stands inside a node's blocks."""
    return any(n.op in ("return", "unreachable") or returns(n) for b in node.blocks for n in b.nodes)


def continues(block: Block) -> bool:
    """True when a `continue` in the block goes on with the loop whose body it is."""
    return any(n.op == "continue" or (n.op == "if" and any(continues(b) for b in n.blocks)) for n in block.nodes)
