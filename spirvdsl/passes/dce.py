"""Dead code: pure nodes and plain loads nobody uses, locals nobody reads (with the stores to them), and ifs left empty.

Loops stay even when they compute nothing: whether they end is part of what they mean.
"""

from __future__ import annotations

from ..ir.nodes import Block, Function, Module, Node, walk
from ..ir.ops import OPS
from .rewrite import Rewriter


def dce(module: Module) -> Module:
    """A module without dead code. Effects and results are unchanged."""
    return _Sweeper().module(module)


class _Sweeper(Rewriter):
    def body(self, fn: Function) -> Block:
        self.live = _live_nodes(fn)
        return super().body(fn)

    def node(self, node: Node, out: Block) -> None:
        if node in self.live:
            self.copy(node, out)


def root(ref: Node) -> Node:
    """The local or resource a place belongs to."""
    while ref.op in ("index", "member"):
        ref = ref.args[0]
    return ref


def _droppable(node: Node) -> bool:
    if node.op in ("load", "matrix_load"):
        return not node.attrs.get("volatile")
    return OPS[node.op].pure or node.op == "local"


def _local_store(node: Node) -> Node | None:
    """The local a store writes to, or None."""
    if node.op != "store" or node.attrs.get("volatile"):
        return None
    target = root(node.args[0])
    return target if target.op == "local" else None


def _live_nodes(fn: Function) -> set[Node]:
    """Nodes that must stay: a worklist from the effects backwards, a local's stores joining when a read of it is live."""
    parent: dict[Node, Node] = {}
    stores: dict[Node, list[Node]] = {}
    work: list[Node] = []
    for node in walk(fn.body):
        for block in node.blocks:
            for inner in block.nodes:
                parent[inner] = node
        target = _local_store(node)
        if target is not None:
            stores.setdefault(target, []).append(node)
        elif not _droppable(node) and node.op != "if":
            work.append(node)
    live: set[Node] = set()
    while work:
        node = work.pop()
        if node in live:
            continue
        live.add(node)
        work.extend(node.args)
        if node in parent:
            work.append(parent[node])
        if node.op in ("load", "atomic") and (target := root(node.args[0])).op == "local":
            work.extend(stores.pop(target, ()))
    return live
