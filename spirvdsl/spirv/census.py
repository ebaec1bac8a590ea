"""Census of emitted SPIR-V: which opcodes, and which operand values that an opcode count cannot see.

A test holds the declared sets equal to what the kernel catalogue and the compiler's own cases emit, in both directions: an
instruction nobody declared fails, and so does one that is declared and never emitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..compiled import CompiledKernel
from .grammar import GLSL_BY_NUMBER, enumerants
from .words import Decoded, version_of, version_text, walk

# operand kinds whose values are counted
KINDS = (
    "Capability", "MemoryAccess", "LoopControl", "SelectionControl", "FunctionControl", "PackedVectorFormat", "Decoration", "BuiltIn",
    "StorageClass", "ExecutionMode", "GroupOperation", "AddressingModel", "MemoryModel", "CooperativeMatrixOperands",
    "CooperativeMatrixReduce", "TensorAddressingOperands", "FPEncoding",
)  # fmt: skip


@dataclass
class Census:
    """Name -> number of occurrences. operands are "Kind.Value"; extensions and GLSL.std.450 numbers have tables of their own."""

    kernels: int = 0
    opcodes: dict[str, int] = field(default_factory=dict)
    operands: dict[str, int] = field(default_factory=dict)
    glsl: dict[str, int] = field(default_factory=dict)
    extensions: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def add(self, spirv: bytes) -> None:
        """Count a module."""
        self.kernels += 1
        _count(self.versions, version_text(version_of(spirv)))
        for inst in walk(spirv):
            self._add_instruction(inst)

    def _add_instruction(self, inst: Decoded) -> None:
        _count(self.opcodes, inst.op)
        for kind, value in inst.operands:
            if kind in KINDS:
                for entry in enumerants(kind, value):
                    _count(self.operands, f"{kind}.{entry.name}")
            elif kind == "LiteralExtInstInteger":
                _count(self.glsl, GLSL_BY_NUMBER[value])
        if inst.op == "OpExtension":
            _count(self.extensions, inst.values()[0])
        elif inst.op in _MASKED and not any(kind == _MASKED[inst.op] for kind, _ in inst.operands):
            _count(self.operands, f"{_MASKED[inst.op]}.None")

    def tables(self) -> dict[str, dict[str, int]]:
        """Every table by title, rows sorted by name."""
        titles = ("versions", "extensions", "opcodes", "operands", "glsl")
        return {title: dict(sorted(getattr(self, title).items())) for title in titles}


_MASKED = {"OpLoad": "MemoryAccess", "OpStore": "MemoryAccess"}  # an absent mask is a mask of none


def _count(table: dict[str, int], name: str) -> None:
    table[name] = table.get(name, 0) + 1


def census(kernels: Iterable[CompiledKernel]) -> Census:
    """The sum over kernels."""
    out = Census()
    for kernel in kernels:
        out.add(kernel.spirv)
    return out
