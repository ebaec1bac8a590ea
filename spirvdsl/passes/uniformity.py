"""Which lanes agree: barriers, subgroup and matrix operations must be reached by all lanes they join, or none (E0705).

What a device does when only some lanes arrive is undefined (SPIR-V 2.16, "dynamically uniform"; Vulkan, "tangled
instructions"): most hang or mix up lanes, and spirv-val does not look. This check walks the structured IR once, in order,
with an abstract value for every node and variable: `Even`, the widest groups of lanes within which it is the same.
Memory is trusted: a load from an address that lanes agree on gives them one value. Counting loops and ifs meet again after
their end; a return or break that only some lanes take leaves the rest apart until the end of the function or loop.
"""

from __future__ import annotations

import linecache
import math
from dataclasses import dataclass, field
from typing import NamedTuple

from ..diagnostics import CompileError
from ..ir.nodes import Block, Function, Module, Node, Span, walk
from ..lang.coopmat import CoopMatrix
from ..lang.types import Ref
from .dce import root
from .rewrite import diverts


class Even(NamedTuple):
    """Lanes that agree: every aligned run of `block` lanes of the workgroup (inf: all of it), and every subgroup.

    why: what makes the value differ, for the message.
    """

    block: float
    subgroup: bool
    why: str = ""


EVERYWHERE = Even(math.inf, True)


def meet(*values: Even) -> Even:
    """The groups within which all of the values are the same."""
    block, subgroup = min(v.block for v in values), all(v.subgroup for v in values)
    return Even(block, subgroup, next((v.why for v in values if (v.block, v.subgroup) == (block, subgroup)), ""))


def check_uniformity(module: Module) -> None:
    """Raises CompileError E0705 at the first operation that lanes may reach apart."""
    if any(_needs(n) or n.op in _AGREED for fn in module.functions for n in walk(fn.body)):
        _Check(module).run()


@dataclass
class _Flow:
    """Where control is: who is here together, and which condition is to blame; names of variables with their values.

    left: those who have returned are missing from here on. broken: the same for the innermost loop; skipped: until its next turn.
    """

    here: Even
    cause: Span | None = None
    env: dict[Node, Even] = field(default_factory=dict)
    left: tuple[Even, Span | None] = (EVERYWHERE, None)
    broken: tuple[Even, Span | None] = (EVERYWHERE, None)
    skipped: tuple[Even, Span | None] = (EVERYWHERE, None)

    def apart(self, even: Even, cause: Span | None) -> None:
        """From here on only lanes that agree on `even` are together."""
        met = meet(self.here, even)
        if met[:2] != self.here[:2]:
            self.here, self.cause = met, cause


_SAME_IN_SUBGROUP = ("all", "any", "all_equal", "ballot", "ballot_bit_count", "broadcast", "broadcast_first")
_AGREE = "subgroup_id is the same in a subgroup, local_index // n only if the kernel declares subgroup_size; subgroup_broadcast_first(x) makes x so"
_AGREED = {  # op -> (argument, its name in the message)
    "matrix_load": ((0, "the place of {}()"), (1, "the stride of {}()")), "matrix_store": ((0, "the place of {}()"), (2, "the stride of {}()")),
    "matrix_fill": ((0, "the value that fills a matrix"),), "matrix_scale": ((1, "the factor of a matrix"),),
}  # fmt: skip
_BUILTINS = ("group_id", "num_groups", "subgroup_size", "num_subgroups")


class _Check:
    def __init__(self, module: Module):
        self.module = module
        self.lanes = math.prod(module.workgroup_size)
        self.values: dict[Node, Even] = {}
        self.results: dict[Function, Even] = {}
        self.quiet = 0  # inside a loop that is not settled nothing is reported

    def run(self) -> None:
        self.function(self.module.entry, EVERYWHERE, None, ())

    # functions
    def function(self, fn: Function, here: Even, cause: Span | None, args: tuple[Even, ...]) -> Even:
        """Walks a body for one call. The result: same where its returns and the lanes that take them agree."""
        self.values.update(zip(fn.params, args, strict=True))
        flow = _Flow(here, cause)
        self.results[fn] = EVERYWHERE
        self.block(fn.body, flow, fn)
        return self.results[fn]

    # blocks
    def block(self, block: Block, flow: _Flow, fn: Function) -> None:
        for node in block.nodes:
            if node.op == "if":
                self.if_(node, flow, fn)
            elif node.op == "loop":
                self.loop(node, flow, fn)
            elif node.op == "return":
                value = self.values[node.args[0]] if node.args else EVERYWHERE
                self.results[fn] = meet(self.results[fn], value, flow.here)
                flow.left = meet(flow.left[0], flow.here), flow.cause
            elif node.op == "break":
                flow.broken = meet(flow.broken[0], flow.here), flow.cause
            elif node.op == "continue":
                flow.skipped = meet(flow.skipped[0], flow.here), flow.cause
            else:
                self.node(node, flow, fn)

    def if_(self, node: Node, flow: _Flow, fn: Function) -> None:
        cond = self.values[node.args[0]]
        ends = []
        for block in node.blocks:
            inner = _Flow(flow.here, flow.cause, dict(flow.env), flow.left, flow.broken, flow.skipped)
            inner.apart(cond, node.args[0].span)
            self.block(block, inner, fn)
            ends.append(inner)
        live = [e for e, b in zip(ends, node.blocks, strict=True) if not (b.nodes and diverts(b.nodes[-1]))] or ends
        for local in {k: None for e in live for k in e.env}:
            found = [e.env.get(local, EVERYWHERE) for e in live]
            changed = len(found) > 1 and any(f is not flow.env.get(local) for f in found)
            flow.env[local] = meet(*found, cond) if changed else found[0]
        for name in ("left", "broken", "skipped"):
            sides = [getattr(e, name) for e in ends]
            met = meet(*(s[0] for s in sides))
            setattr(flow, name, next((s for s in sides if s[0][:2] == met[:2]), (met, node.args[0].span)))
            if met[:2] != EVERYWHERE[:2] and _diverts(node):
                flow.apart(*getattr(flow, name))

    def loop(self, node: Node, flow: _Flow, fn: Function) -> None:
        """Turns are walked until nothing changes, then once more to report."""
        test, body, step = node.blocks
        inner = _Flow(flow.here, flow.cause, dict(flow.env), flow.left)
        changed = list(dict.fromkeys(root(n.args[0]) for part in node.blocks for n in walk(part) if n.op == "store"))
        self.quiet += 1
        before = None
        while before != (before := (inner.here[:2], inner.left[0][:2], [inner.env.get(k, EVERYWHERE)[:2] for k in changed])):
            self.turn(test, body, step, inner, fn, changed)
        self.quiet -= 1
        if not self.quiet:
            self.turn(test, body, step, inner, fn, changed)
        for local in changed:  # lanes that leave in different turns take different values with them
            flow.env[local] = meet(inner.env.get(local, EVERYWHERE), inner.here)
        flow.left = inner.left
        if inner.left[0][:2] != EVERYWHERE[:2]:
            flow.apart(*inner.left)

    def turn(self, test: Block, body: Block, step: Block, inner: _Flow, fn: Function, changed: list[Node]) -> None:
        """One turn; afterwards inner.here is who may be together at the beginning of the next."""
        entered = [inner.env.get(local, EVERYWHERE) for local in changed]
        self.block(test, inner, fn)
        condition = test.nodes[-1].args[0]
        inner.apart(self.values[condition], condition.span)
        together, cause = inner.here, inner.cause
        inner.broken = inner.skipped = EVERYWHERE, None
        self.block(body, inner, fn)
        inner.here, inner.cause = together, cause  # a continue ends here
        for gone in (inner.broken, inner.left):
            inner.apart(*gone)
        self.block(step, inner, fn)
        for local, value in zip(changed, entered, strict=True):
            inner.env[local] = meet(inner.env.get(local, EVERYWHERE), value)

    # nodes
    def node(self, node: Node, flow: _Flow, fn: Function) -> None:
        self.reached(node, flow)
        self.agreed(node)
        if node.op == "store":
            self.store(node, flow)
        elif node.op == "call":
            target = node.attrs["function"]
            value = self.function(target, flow.here, flow.cause, tuple(self.values[a] for a in node.args))
            if node.type is not None:
                self.values[node] = value
        elif node.type is not None:
            self.values[node] = self.value(node, flow)

    def store(self, node: Node, flow: _Flow) -> None:
        """A local holds what was stored last; an element of it, what was there too."""
        ref, value = node.args
        target = root(ref)
        if target.op != "local":
            return
        new = meet(self.values[value], self.values[ref])
        whole = ref is target
        flow.env[target] = new if whole else meet(new, flow.env.get(target, EVERYWHERE))

    def value(self, node: Node, flow: _Flow) -> Even:
        special = getattr(self, f"value_{node.op}", None)
        if special is not None:
            return special(node, flow)
        return meet(EVERYWHERE, *(self.values[a] for a in node.args))

    def value_load(self, node: Node, flow: _Flow) -> Even:
        ref = node.args[0]
        if node.attrs.get("volatile"):
            return Even(1, False, "a volatile load")
        target = root(ref)
        return meet(self.values[ref], flow.env.get(target, EVERYWHERE)) if target.op == "local" else self.values[ref]

    def value_index(self, node: Node, flow: _Flow) -> Even:
        if isinstance(node.args[0].type, Ref) and isinstance(node.args[0].type.elem, CoopMatrix):
            return Even(1, False, "an element of a matrix")
        return meet(*(self.values[a] for a in node.args))

    def value_extract(self, node: Node, flow: _Flow) -> Even:
        base = node.args[0]
        if isinstance(base.type, CoopMatrix):
            return Even(1, False, "an element of a matrix")
        if base.op == "builtin" and isinstance(node.attrs["index"], int):
            return self.coordinate(base.attrs["name"], node.attrs["index"])
        return self.values[base]

    def value_builtin(self, node: Node, flow: _Flow) -> Even:
        name = node.attrs["name"]
        if name in _BUILTINS or self.lanes == 1:
            return EVERYWHERE
        if name == "subgroup_id":
            return Even(self.module.subgroup_size or 1, True, name)
        return Even(1, False, name)

    def coordinate(self, name: str, axis: int) -> Even:
        """local_id.y and its like: the same in whole rows of x, everywhere in a dimension of one lane."""
        size = self.module.workgroup_size
        if name not in ("local_id", "global_id"):
            return self.value_builtin(Node("builtin", None, (), {"name": name}, self.module.span), None)
        if size[axis] == 1:
            return EVERYWHERE
        return self.run_of(math.prod(size[:axis]), f"{name}.{'xyz'[axis]}")

    def run_of(self, lanes: int, why: str) -> Even:
        """The same in aligned runs of so many lanes. 128 lanes hold any subgroup."""
        block = lanes & -lanes
        held = self.module.subgroup_size or 128
        return Even(block, block >= held, why)

    def value_div(self, node: Node, flow: _Flow) -> Even:
        return self.quotient(node, lambda n: n)

    def value_shr(self, node: Node, flow: _Flow) -> Even:
        return self.quotient(node, lambda n: 1 << n)

    def quotient(self, node: Node, by) -> Even:
        """local_index // 32 is the same in runs of 32 lanes; so is subgroup_lane // 8 in runs of 8, by subgroups of a power of two."""
        a, b = node.args
        plain = meet(self.values[a], self.values[b])
        if b.op != "const" or not isinstance(b.attrs["value"], int) or b.attrs["value"] < 1:
            return plain
        n = by(b.attrs["value"])
        start = self.counts_from(a)
        if start and (start == math.inf or start % n == 0) or (_place(a) == "subgroup_lane" and n & (n - 1) == 0):
            return self.run_of(n, f"{_place(a) or 'local_index'} // {n}")
        return plain

    def counts_from(self, node: Node) -> float:
        """Power of two p such that a node counts the lanes of the workgroup from a multiple of p: inf from 0; 0: it does not."""
        what, size = _place(node), self.module.workgroup_size
        if what == "local_index" or (what == "local_id.x" and self.lanes == size[0]):
            return math.inf
        if what == "global_id.x" and self.lanes == size[0]:
            return size[0] & -size[0]
        if node.op == "add":
            for lane, base in (node.args, node.args[::-1]):
                start = self.counts_from(lane)
                if start and self.values[base].block == math.inf:
                    return min(start, _factor(base))
        return 0

    def bound(self, node: Node, more: int) -> Even:
        """local_index < 32 is the same in aligned runs of 32 lanes."""
        a, b = node.args
        start = self.counts_from(a)
        if not start or b.op != "const" or not isinstance(b.attrs["value"], int) or b.attrs["value"] + more < 1:
            return meet(self.values[a], self.values[b])
        limit = b.attrs["value"] + more
        return self.run_of(int(min(limit & -limit, start)), _place(a) or "local_index")

    def value_lt(self, node: Node, flow: _Flow) -> Even:
        return self.bound(node, 0)

    def value_le(self, node: Node, flow: _Flow) -> Even:
        return self.bound(node, 1)

    value_ge, value_gt = value_lt, value_le

    def value_subgroup(self, node: Node, flow: _Flow) -> Even:
        fn, cluster = node.attrs["fn"], node.attrs.get("cluster")
        if node.attrs.get("mode") == "reduce" and cluster is not None:
            return Even(cluster, False, f"subgroup_{fn}() of a cluster")
        if fn in _SAME_IN_SUBGROUP or node.attrs.get("mode") == "reduce":
            if fn in ("broadcast", "broadcast_first") and self.values[node.args[0]].block == math.inf:
                return EVERYWHERE
            return Even(self.module.subgroup_size or 1, True, f"subgroup_{fn}()")
        return Even(1, False, f"subgroup_{fn}()")

    def value_atomic(self, node: Node, flow: _Flow) -> Even:
        return Even(1, False, f"atomic_{node.attrs['fn']}()")

    def value_matrix_load(self, node: Node, flow: _Flow) -> Even:
        return Even(self.module.subgroup_size or 1, True, "a matrix")

    # reports
    def agreed(self, node: Node) -> None:
        """The lanes of a subgroup name one place, one stride, one scalar for a matrix."""
        for at, what in _AGREED.get(node.op, ()):
            even = self.values[node.args[at]]
            if not self.quiet and not even.subgroup:
                raise CompileError("E0705", f"{what.format(node.op)} differs between the lanes of a subgroup: it depends on {even.why}", node.span, _AGREE)

    def reached(self, node: Node, flow: _Flow) -> None:
        """Everyone whom this operation joins is here, or nobody."""
        need = _needs(node)
        if not need or self.quiet or flow.here.block == math.inf:
            return
        what, group = need
        if group == "workgroup":
            if flow.here.block >= self.lanes:
                return
        elif flow.here.subgroup or (isinstance(group, int) and flow.here.block >= group):
            return
        named = group if isinstance(group, str) else f"cluster of {group} lanes"
        help = _AGREE if group == "subgroup" and flow.here.block > 1 else f"let all lanes of the {named} get there, and guard what they read and write instead"
        raise CompileError(
            "E0705", f"{what} where only some lanes of a {named} may be: {_text(flow.cause)} depends on {flow.here.why}", node.span, help, _note(flow.cause))


def _needs(node: Node) -> tuple[str, str | int] | None:
    """(name in messages, who must arrive together) of an operation that joins lanes."""
    at = node.attrs
    if node.op == "barrier":
        return ("barrier()", "workgroup") if at["scope"] == "workgroup" else ("subgroup_barrier()", "subgroup")
    if node.op == "subgroup" and at["fn"] != "elect":
        mode = f"{at['mode']}_" if at.get("mode", "reduce") != "reduce" else ""
        mask = node.args[1].attrs.get("value") if at["fn"] == "shuffle_xor" else None  # known: lanes stay in runs of a power of two
        return f"subgroup_{mode}{at['fn']}()", at.get("cluster") or (1 << mask.bit_length() if mask is not None else "subgroup")
    if node.op in ("matrix_load", "matrix_store", "matrix_muladd"):
        return f"{node.op}()", "subgroup"
    return None


def _place(node: Node) -> str:
    """local_index, local_id.x ...: which coordinate of its lane a node is, or ""."""
    if node.op == "builtin":
        return node.attrs["name"]
    if node.op == "extract" and node.args[0].op == "builtin" and isinstance(node.attrs["index"], int):
        return f"{node.args[0].attrs['name']}.{'xyz'[node.attrs['index']]}"
    return ""


def _factor(node: Node) -> int:
    """A power of two that an integer is a multiple of, whatever wraps."""
    if node.op == "const" and isinstance(node.attrs["value"], int):
        return node.attrs["value"] & -node.attrs["value"] or 1 << 32
    if node.op == "mul":
        return _factor(node.args[0]) * _factor(node.args[1])
    if node.op == "add":
        return min(_factor(node.args[0]), _factor(node.args[1]))
    if node.op == "shl" and node.args[1].op == "const":
        return _factor(node.args[0]) << node.args[1].attrs["value"]
    return 1


def _diverts(node: Node) -> bool:
    """Whether control leaves one of the branches of an if for good."""
    return any(n.op in ("return", "break", "continue", "unreachable") or _diverts(n) for b in node.blocks for n in b.nodes)


def _text(span: Span | None) -> str:
    """The author's condition."""
    if span is None:
        return "a condition"
    line = linecache.getline(span.file, span.line).rstrip()
    text = line[span.col : span.end_col] if span.end_line in (0, span.line) and span.end_col > span.col else line[span.col :]
    return f"'{text.strip()}'" if text.strip() else "a condition"


def _note(span: Span | None) -> tuple[str, ...]:
    return (f"the condition is at {span.file}:{span.line}:{span.col + 1}",) if span is not None else ()
