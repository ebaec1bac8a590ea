"""The intermediate representation: typed nodes in structured regions (no control-flow graph, no phi).

A `Node` is one operation. Nodes that yield a value are used by later nodes as arguments; a value defined in a block is
visible in that block after its definition and in the blocks nested there. Mutable state lives in places (`local`,
workgroup and buffer resources), read by `load` and written by `store`. The table of operations is ops.py.
Everything here is what SPIR-V lowering, the interpreter and the printer agree on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..lang.types import Array, RuntimeArray, Scalar, Struct, Type


@dataclass(frozen=True)
class Span:
    """A stretch of the author's source. line is 1-based, columns are 0-based; `parent` is the call site of inlined code."""

    file: str
    line: int
    col: int
    end_line: int = 0
    end_col: int = 0
    parent: Span | None = None


@dataclass(eq=False, slots=True)
class Node:
    """One operation: name (key of OPS), result type (None: no result), argument nodes, literal attributes, nested blocks."""

    op: str
    type: Type | None
    args: tuple[Node, ...]
    attrs: dict
    span: Span
    blocks: tuple[Block, ...] = ()


@dataclass(eq=False, slots=True)
class Block:
    """A straight run of nodes. Control transfer (break, continue, return, yield) may only be the last node."""

    nodes: list[Node] = field(default_factory=list)

    @property
    def terminated(self) -> bool:
        """True when control cannot fall out of the end of this block."""
        return bool(self.nodes) and self.nodes[-1].op in ("break", "continue", "return", "unreachable")


@dataclass(eq=False)
class Resource:
    """A module-scope variable an entry binds or declares.

    kind: storage (RuntimeArray), uniform (Struct), push (Struct), workgroup (Array, Scalar or Vector).
    views: of workgroup memory, the array whose bytes this one shares, from its beginning on.
    access: in | out | inout as the author declared it. `written`/`read` are what the code really does (set by the
    frontend); a storage resource with written == False is decorated NonWritable, with read == False NonReadable is NOT added.
    """

    name: str
    kind: str
    type: RuntimeArray | Struct | Array | Scalar | Type
    span: Span
    access: str = "inout"
    set: int = 0
    binding: int = 0
    written: bool = False
    read: bool = False
    views: Resource | None = None


@dataclass(eq=False)
class SpecConst:
    """A specialisation constant (32-bit int, f32 or bool) with its default."""

    name: str
    id: int
    type: Scalar
    default: int | float | bool
    span: Span


@dataclass(frozen=True)
class FloatControls:
    """Float behaviour of a whole kernel; the tuples name float widths in bits (SPIR-V execution modes of the same names).

    no_contraction decorates every float add, sub, mul, div, rem, neg and dot with NoContraction.
    """

    no_contraction: bool = False
    denorm_preserve: tuple[int, ...] = ()
    denorm_flush: tuple[int, ...] = ()
    round_to_nearest_even: tuple[int, ...] = ()
    signed_zero_inf_nan_preserve: tuple[int, ...] = ()


@dataclass(eq=False)
class Function:
    """params are nodes of op `param`; result None is void; a non-void body ends in `return` with one argument on every path."""

    name: str
    params: list[Node]
    result: Type | None
    body: Block
    span: Span


@dataclass(eq=False)
class Module:
    """One kernel. functions holds the entry first, then every function still called (callees after callers is not required)."""

    name: str
    functions: list[Function]
    resources: list[Resource]
    spec_consts: list[SpecConst]
    workgroup_size: tuple[int, int, int]
    span: Span
    subgroup_size: int | None = None
    float_controls: FloatControls = FloatControls()

    @property
    def entry(self) -> Function:
        return self.functions[0]


def walk(block: Block) -> Iterator[Node]:
    """Every node of a block and of the blocks nested in it, in textual order."""
    for node in block.nodes:
        yield node
        for inner in node.blocks:
            yield from walk(inner)
