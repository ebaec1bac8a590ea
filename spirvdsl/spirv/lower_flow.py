"""Structured control flow: selections, loops, calls and returns (SPIR-V 2.11).

Every construct writes its own merge block. A merge block that nothing reaches ends in OpUnreachable, and what the IR holds
after it is not written. Loops have a header (OpLoopMerge alone), condition, body, continue and merge part.
"""

from __future__ import annotations

from ..ir.nodes import Block, Node
from .context import LOWERINGS, FunctionLowering, internal, lowers


def lower_block(f: FunctionLowering, block: Block) -> None:
    """Write a block's nodes; f.open tells afterwards whether control falls out of its end."""
    for node in block.nodes:
        f.span = node.span
        made = LOWERINGS[node.op](f, node) if node.op in LOWERINGS else _fetched(node)
        if made is not None:
            f.values[node] = made
        if not f.open:
            return


def _fetched(node: Node) -> None:
    """Constants and builtins are written at their first use."""
    if node.op not in ("const", "undef", "spec_const", "builtin", "param"):
        raise internal(f"operation '{node.op}' has no lowering", node.span)


@lowers("if")
def _if(f: FunctionLowering, node: Node) -> None:
    then, otherwise = node.blocks
    cond = f.value(node.args[0])
    merge, then_label = f.module.new_id(), f.module.new_id()
    else_label = f.module.new_id() if otherwise.nodes else merge
    f.effect("OpSelectionMerge", merge, "None")
    f.terminate("OpBranchConditional", cond, then_label, else_label)
    reached = not otherwise.nodes
    for label, block in ((then_label, then), (else_label, otherwise)):
        if label != merge:
            f.label(label)
            lower_block(f, block)
            reached |= f.open
            branch(f, merge)
    f.span = node.span
    f.label(merge)
    if not reached:
        f.terminate("OpUnreachable")


def branch(f: FunctionLowering, target: int) -> None:
    """Go to `target` unless the block has ended already."""
    if f.open:
        f.terminate("OpBranch", target)


@lowers("loop")
def _loop(f: FunctionLowering, node: Node) -> None:
    cond, body, step = node.blocks
    header, test, inner, advance, merge = (f.module.new_id() for _ in range(5))
    span = node.span
    branch(f, header)
    f.label(header)
    f.effect("OpLoopMerge", merge, advance, *_control(node))
    f.terminate("OpBranch", test)
    f.label(test)
    lower_block(f, cond)
    result = _yielded(cond, node)
    _leave_or_enter(f, result, inner, merge)
    f.loops.append((merge, advance))
    f.label(inner)
    lower_block(f, body)
    branch(f, advance)
    f.loops.pop()
    f.label(advance)
    lower_block(f, step)
    f.span = span
    branch(f, header)
    f.label(merge)


def _leave_or_enter(f: FunctionLowering, result: Node, inner: int, merge: int) -> None:
    if result.op == "const" and result.attrs["value"] is True:
        f.terminate("OpBranch", inner)
    else:
        f.terminate("OpBranchConditional", f.value(result), inner, merge)


def _yielded(cond: Block, node: Node) -> Node:
    if not cond.nodes or cond.nodes[-1].op != "yield":
        raise internal("a loop's condition does not end in yield", node.span)
    return cond.nodes[-1].args[0]


def _control(node: Node) -> tuple:
    """LoopControl operands; a count makes a partial unroll (SPIR-V 1.4)."""
    hint, count = node.attrs.get("hint"), node.attrs.get("hint_count")
    if hint == "dont_unroll":
        return ("DontUnroll",)
    if hint == "unroll":
        return ("PartialCount", count) if count else ("Unroll",)
    return ("None",)


@lowers("yield")
def _yield(f: FunctionLowering, node: Node) -> None:
    """The loop reads the condition itself."""


@lowers("break")
def _break(f: FunctionLowering, node: Node) -> None:
    branch(f, f.loops[-1][0])


@lowers("continue")
def _continue(f: FunctionLowering, node: Node) -> None:
    branch(f, f.loops[-1][1])


@lowers("return")
def _return(f: FunctionLowering, node: Node) -> None:
    if node.args:
        f.terminate("OpReturnValue", f.value(node.args[0]))
    else:
        f.terminate("OpReturn")


@lowers("unreachable")
def _unreachable(f: FunctionLowering, node: Node) -> None:
    f.terminate("OpUnreachable")


@lowers("call")
def _call(f: FunctionLowering, node: Node) -> int | None:
    fn = node.attrs["function"]
    result = f.pool.void() if fn.result is None else f.pool.type(fn.result)
    made = f.emit("OpFunctionCall", result, f.parent.function(fn), *(f.value(a) for a in node.args))
    return None if fn.result is None else made
