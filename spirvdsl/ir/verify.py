"""Checks a module against the rules of ops.py: operations, arity, types, scopes, control flow. A failure is our own fault.

Run after the frontend and after passes; the rules of each op's types are verify_types.py.
"""

from __future__ import annotations

from ..diagnostics import CompileError
from ..lang.types import Ref, bool_
from .nodes import Block, Function, Module, Node, walk
from .ops import OPS
from .verify_types import problem_of

_TERMINATORS = ("break", "continue", "return", "unreachable", "yield")


def verify(module: Module) -> None:
    """Raises CompileError E0901 naming the first node that breaks a rule, and where it came from."""
    if not module.functions:
        raise CompileError("E0901", f"IR: kernel {module.name} has no functions", module.span)
    if module.entry.params or module.entry.result is not None:
        raise CompileError("E0901", f"IR: entry {module.entry.name} takes parameters or returns a value", module.entry.span)
    for fn in module.functions:
        _Checker(module, fn).run()


class _Checker:
    def __init__(self, module: Module, fn: Function):
        self.module, self.fn = module, fn
        self.visible: set[Node] = set(fn.params)

    def fail(self, node: Node | None, why: str) -> None:
        what = f"node {node.op}{f' -> {node.type}' if node.type else ''} in {self.fn.name}(): " if node else f"{self.fn.name}(): "
        raise CompileError("E0901", f"IR: {what}{why}", node.span if node else self.fn.span)

    def run(self) -> None:
        for i, p in enumerate(self.fn.params):
            if p.op != "param" or p.attrs.get("index") != i:
                self.fail(p, f"parameter {i} is not `param` with index={i}")
            if isinstance(p.type, Ref) or p.type is None:
                self.fail(p, "a parameter must be a value, not a place")
        if isinstance(self.fn.result, Ref):
            self.fail(None, "a function must return a value, not a place")
        seen: set[Node] = set(self.fn.params)
        for node in walk(self.fn.body):
            if node in seen:
                self.fail(node, "stands in the function twice")
            seen.add(node)
        self.block(self.fn.body, in_loop=False)
        if self.fn.result is not None and not _always_leaves(self.fn.body):
            self.fail(None, f"a path reaches the end without returning {self.fn.result}")

    def block(self, block: Block, in_loop: bool, cond: bool = False) -> None:
        """Checks a block; what it defines is visible in it and below, not after."""
        added: list[Node] = []
        last = len(block.nodes) - 1
        for i, node in enumerate(block.nodes):
            self.node(node)
            if node.op in _TERMINATORS and i != last:
                self.fail(node, "control transfer is not the last node of its block")
            if node.op in ("break", "continue") and not in_loop:
                self.fail(node, "stands outside a loop's body")
            if node.op == "yield" and not (cond and i == last):
                self.fail(node, "only ends the cond block of a loop")
            if node.op == "return":
                self.return_(node)
            if node.op == "if":
                for inner in node.blocks:
                    self.block(inner, in_loop)
            elif node.op == "loop":
                self.loop(node)
            if node.type is not None:
                self.visible.add(node)
                added.append(node)
        self.visible.difference_update(added)

    def loop(self, node: Node) -> None:
        test, body, step = node.blocks
        if not test.nodes or test.nodes[-1].op != "yield":
            self.fail(node, "the cond block does not end in yield")
        if test.nodes[-1].args[0].type != bool_:
            self.fail(test.nodes[-1], "yields something that is not bool")
        if any(n.op == "return" for part in (test, step) for n in walk(part)):
            self.fail(node, "cond or step returns from the function")
        self.block(test, in_loop=False, cond=True)
        self.block(body, in_loop=True)
        self.block(step, in_loop=False)

    def return_(self, node: Node) -> None:
        given = node.args[0].type if node.args else None
        if given != self.fn.result:
            self.fail(node, f"returns {given or 'nothing'} where the function returns {self.fn.result or 'nothing'}")

    def node(self, node: Node) -> None:
        info = OPS.get(node.op)
        if info is None:
            self.fail(node, "is no operation of the table")
        if node.op == "param":
            self.fail(node, "a parameter stands in a body")
        n = len(node.args)
        if info.arity is not None and not info.arity[0] <= n <= info.arity[1]:
            self.fail(node, f"takes {info.arity[0]} to {info.arity[1]} arguments, has {n}")
        if len(node.blocks) != info.blocks:
            self.fail(node, f"has {len(node.blocks)} blocks, needs {info.blocks}")
        if node.op not in ("call", "atomic") and info.result != (node.type is not None):
            self.fail(node, "yields a value without a type" if info.result else "yields nothing but has a type")
        for i, a in enumerate(node.args):
            if a not in self.visible:
                self.fail(node, f"argument {i} ({a.op}) is not defined before it or not visible here")
            if isinstance(a.type, Ref) and not (i == 0 and node.op in _PLACE_OPS):
                self.fail(node, f"argument {i} is a place; places are only indexed, loaded, stored to and used by atomics")
        if node.op == "resource" and node.attrs.get("resource") not in self.module.resources:
            self.fail(node, "names a resource that is not the module's")
        if node.op == "spec_const" and node.attrs.get("spec") not in self.module.spec_consts:
            self.fail(node, "names a specialisation constant that is not the module's")
        if node.op == "call" and node.attrs.get("function") not in self.module.functions:
            self.fail(node, "calls a function that is not the module's")
        try:
            why = problem_of(node)
        except (KeyError, AttributeError, TypeError, IndexError) as error:
            why = f"attributes or argument types are malformed ({type(error).__name__}: {error})"
        if why:
            self.fail(node, why)


_PLACE_OPS = ("index", "member", "load", "store", "array_length", "atomic", "matrix_load", "matrix_store")


def _always_leaves(block: Block) -> bool:
    """True when no path falls out of the end of a function body."""
    if not block.nodes:
        return False
    node = block.nodes[-1]
    if node.op == "if":
        return all(_always_leaves(b) for b in node.blocks)
    if node.op == "loop":
        test = node.blocks[0].nodes[-1].args[0]
        return test.op == "const" and test.attrs["value"] is True and not _breaks(node.blocks[1])
    return node.op in ("return", "unreachable")


def _breaks(block: Block) -> bool:
    return any(n.op == "break" or (n.op == "if" and any(_breaks(b) for b in n.blocks)) for n in block.nodes)
