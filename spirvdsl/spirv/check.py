"""Own checks, for what spirv-val 2025.5 lets pass. Each works on the finished words alone, so a test can mutate them.

- capabilities, extensions and version: the needs are computed again from the words and must all be declared
  (spirv-val misses a packed dot without DotProductInput4x8BitPacked, and enumerants newer than the header's version);
- a packed dot product carries its format literal;
- a product of integer matrices says which components are signed: without it a driver takes bytes as unsigned;
- the addressing model is Logical exactly when no physical storage buffer pointer exists;
- storage buffers are decorated Restrict or Aliased, not both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..diagnostics import CompileError
from ..ir.nodes import Span
from .grammar import ENUM_BY_VALUE, ENUMS
from .requirements import DOTS, ModuleTypes, held_capabilities, requirements
from .validate import nearest_span
from .words import Decoded

Finding = tuple[int, str]  # ordinal of the instruction, message


def first_finding(code: Sequence[Decoded], version: int) -> Finding | None:
    """The first fault in a module's instructions, or None. version: 13 .. 16, from the header."""
    return next((finding for rule in CHECKS for finding in rule(code, version)), None)


def check(code: Sequence[Decoded], version: int, spans: Sequence[Span | None] = ()) -> None:
    """Raise CompileError E0803 at the source line of the first fault."""
    finding = first_finding(code, version)
    if finding is not None:
        ordinal, message = finding
        raise CompileError("E0803", message, nearest_span(spans, ordinal), help="this is a fault of the compiler, please report it")


def _declarations(code: Sequence[Decoded], version: int) -> Iterator[Finding]:
    """Everything needed is declared."""
    needs = requirements(code)
    declared = [ENUM_BY_VALUE["Capability"][d.values()[0]].name for d in code if d.op == "OpCapability"]
    held, extensions = held_capabilities(declared), [d.values()[0] for d in code if d.op == "OpExtension"]
    for cap in needs.capabilities:
        if cap not in held:
            yield 0, f"the module needs capability {cap} and does not declare it"
    if version < needs.version:
        yield 0, f"the module needs SPIR-V {needs.version / 10} and its header says {version / 10}"
    elif version > needs.version:
        needs = requirements(code, at_least=version)
    for name in needs.extensions:
        if name not in extensions:
            yield 0, f"the module needs extension {name} and does not declare it"


def _packed_dots(code: Sequence[Decoded], version: int) -> Iterator[Finding]:
    """A dot product of two scalar integers has its packed format literal."""
    types = ModuleTypes(code)
    for ordinal, inst in enumerate(code):
        if inst.op in DOTS:
            if types.of(inst.values()[0]).op == "OpTypeInt" and inst.first("PackedVectorFormat") is None:
                yield ordinal, f"{inst.op} of packed operands lacks its format literal"


def _matrix_signs(code: Sequence[Decoded], version: int) -> Iterator[Finding]:
    """The signedness operands of a matrix product are those of its component types."""
    types, flags = ModuleTypes(code), [v.value for n, v in ENUMS["CooperativeMatrixOperands"].items() if n.endswith("SignedComponentsKHR")]
    for ordinal, inst in enumerate(code):
        if inst.op != "OpCooperativeMatrixMulAddKHR":
            continue
        a, b, c, *given = inst.values()
        parts = (types.by_id[t.values()[0]] for t in (types.of(a), types.of(b), types.of(c), types.by_id[inst.type_id]))
        signed = sum(flag for flag, t in zip(sorted(flags), parts, strict=True) if t.op == "OpTypeInt" and t.values()[1])
        if signed != (given[0] & sum(flags) if given else 0):
            yield ordinal, "the signedness operands of a matrix product are not those of its components"


def _addressing(code: Sequence[Decoded], version: int) -> Iterator[Finding]:
    """PhysicalStorageBuffer64 goes with pointers of that storage class."""
    physical = ENUMS["StorageClass"]["PhysicalStorageBuffer"].value
    logical = ENUMS["AddressingModel"]["Logical"].value
    uses = any(d.op == "OpTypePointer" and d.first("StorageClass") == physical for d in code)
    for ordinal, inst in enumerate(code):
        if inst.op == "OpMemoryModel" and (inst.values()[0] == logical) == uses:
            yield ordinal, "physical storage buffer pointers and addressing model PhysicalStorageBuffer64 go together"


def _aliasing(code: Sequence[Decoded], version: int) -> Iterator[Finding]:
    """Every storage buffer variable says whether it may alias."""
    storage = ENUMS["StorageClass"]["StorageBuffer"].value
    numbers = [ENUMS["Decoration"][n].value for n in ("Restrict", "Aliased")]
    marked: dict[int, int] = {}
    for inst in code:
        if inst.op == "OpDecorate" and inst.values()[1] in numbers:
            marked[inst.values()[0]] = marked.get(inst.values()[0], 0) + 1
    for ordinal, inst in enumerate(code):
        if inst.op == "OpVariable" and inst.first("StorageClass") == storage and marked.get(inst.result_id) != 1:
            yield ordinal, "a storage buffer needs exactly one of Restrict and Aliased"


CHECKS: tuple[Callable[[Sequence[Decoded], int], Iterator[Finding]], ...] = (
    _declarations, _packed_dots, _matrix_signs, _addressing, _aliasing,
)  # fmt: skip
