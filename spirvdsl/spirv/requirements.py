"""What finished instructions need: the lowest version, the capabilities, the extensions.

The grammar answers for opcodes and enumerants. The rules below answer for what it cannot say because it depends on types:
64-bit types, 8- and 16-bit arithmetic against mere storage (SPIR-V 2.16.1 "16-bit storage"; a value that is only loaded,
stored and width-converted needs no Int8/Int16/Float16), atomics by width, packed dot operands, subgroup barriers.
Where an extension can bring a thing, it does, and the version stays low; otherwise the version rises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from .grammar import ENUMS, OPS, Entry, enumerants
from .words import Decoded

LOWEST = 13
_STORAGE = {v.value: n for n, v in ENUMS["StorageClass"].items()}
_SCOPE_SUBGROUP = ENUMS["Scope"]["Subgroup"].value
_CAPS = ENUMS["Capability"]

# (storage class, width) -> capability that lets such a variable hold components of that width
_INTERFACE_CAPS = {
    ("StorageBuffer", 8): "StorageBuffer8BitAccess",
    ("StorageBuffer", 16): "StorageBuffer16BitAccess",
    ("Uniform", 8): "UniformAndStorageBuffer8BitAccess",
    ("Uniform", 16): "UniformAndStorageBuffer16BitAccess",
    ("WorkgroupBlock", 8): "WorkgroupMemoryExplicitLayout8BitAccessKHR",
    ("WorkgroupBlock", 16): "WorkgroupMemoryExplicitLayout16BitAccessKHR",
    ("PushConstant", 8): "StoragePushConstant8",
    ("PushConstant", 16): "StoragePushConstant16",
}
_ARITHMETIC_CAPS = {("i", 8): "Int8", ("i", 16): "Int16", ("f", 16): "Float16"}
_WIDE_CAPS = {("i", 64): "Int64", ("f", 64): "Float64"}
# results of these, and uses by these, need the storage capability alone
_STORAGE_ONLY_RESULTS = ("OpLoad", "OpFConvert", "OpSConvert", "OpUConvert", "OpCopyObject")
_STORAGE_ONLY_USES = (*_STORAGE_ONLY_RESULTS, "OpStore", "OpDecorate", "OpName")
DOTS = ("OpSDot", "OpUDot", "OpSUDot", "OpSDotAccSat", "OpUDotAccSat", "OpSUDotAccSat")


@dataclass
class Requirements:
    """version: 13 .. 16. capabilities are sorted by number, extensions by name."""

    version: int
    capabilities: tuple[str, ...]
    extensions: tuple[str, ...]


class ModuleTypes:
    """Looks up types by id in a list of instructions."""

    def __init__(self, code: Sequence[Decoded]):
        self.by_id = {d.result_id: d for d in code if d.result_id is not None}
        self._parts: dict[int, tuple[tuple[str, int], ...]] = {}

    def of(self, value_id: int) -> Decoded | None:
        """The type instruction of a value, or None for what has no type (labels, types)."""
        inst = self.by_id.get(value_id)
        return self.by_id.get(inst.type_id) if inst is not None and inst.type_id else None

    def has_small(self) -> bool:
        """True when some type is an 8- or 16-bit number."""
        return any(d.op in ("OpTypeInt", "OpTypeFloat") and d.values()[0] < 32 for d in self.by_id.values())

    def parts(self, type_id: int) -> tuple[tuple[str, int], ...]:
        """(kind, width) of every numeric component of a type, pointers not followed; kind is i, f or bf."""
        if type_id not in self._parts:
            self._parts[type_id] = tuple(dict.fromkeys(self._find(self.by_id[type_id])))
        return self._parts[type_id]

    def _find(self, inst: Decoded) -> Iterator[tuple[str, int]]:
        values = inst.values()
        if inst.op == "OpTypeInt":
            yield "i", values[0]
        elif inst.op == "OpTypeFloat":
            yield "f" if len(values) == 1 else "bf", values[0]
        elif inst.op in ("OpTypeVector", "OpTypeArray", "OpTypeRuntimeArray", "OpTypeCooperativeMatrixKHR"):
            yield from self.parts(values[0])
        elif inst.op == "OpTypeStruct":
            for member in values:
                yield from self.parts(member)


@dataclass
class _Closure:
    version: int = LOWEST
    caps: dict[str, None] = field(default_factory=dict)  # required by name, in order of discovery
    held: dict[str, None] = field(default_factory=dict)  # caps and all that they imply
    any_of: list[tuple[str, ...]] = field(default_factory=list)
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)

    def need(self, cap: str) -> None:
        if cap not in self.caps:
            self.caps[cap] = None
            self._hold(cap)

    def _hold(self, cap: str) -> None:
        if cap not in self.held:
            self.held[cap] = None
            for implied in _CAPS[cap].caps:
                self._hold(implied)

    def use(self, kind: str, entry: Entry) -> None:
        """An opcode or enumerant occurs in the module."""
        if (kind, entry.name) in self.entries:
            return
        self.entries[kind, entry.name] = entry
        if len(entry.caps) == 1:
            self.need(entry.caps[0])
        elif entry.caps:
            self.any_of.append(entry.caps)

    def settle(self) -> Requirements:
        """Choose among alternatives, then the version, then the extensions still needed at that version."""
        for caps in self.any_of:
            if not any(c in self.held for c in caps):
                self.need(_preferred(caps))
        used = [*self.entries.values(), *(_CAPS[c] for c in self.caps)]
        for entry in used:
            if entry.version > self.version and not entry.exts:
                self.version = entry.version
        exts: dict[str, None] = {}
        for entry in used:
            late = entry.version == 0 or entry.version > self.version
            if late and entry.exts and not any(e in exts for e in entry.exts):
                exts[entry.exts[0]] = None
        caps = sorted(self.caps, key=lambda c: _CAPS[c].value)
        return Requirements(self.version, tuple(caps), tuple(sorted(exts)))


def _preferred(caps: Sequence[str]) -> str:
    """The first alternative that Vulkan compute can have: neither OpenCL's nor a vendor's."""
    plain = [c for c in caps if c not in ("Kernel", "Addresses") and c in _CAPS and not c.endswith(("NV", "AMD", "KHR", "EXT"))]
    return plain[0] if plain else next(c for c in caps if c in _CAPS and c != "Kernel")


def requirements(code: Sequence[Decoded], at_least: int = LOWEST) -> Requirements:
    """Lowest version from `at_least` on, capabilities and extensions of a module's instructions (its own declarations aside)."""
    closure, types = _Closure(at_least), ModuleTypes(code)
    small = types.has_small()
    closure.need("Shader")
    for inst in code:
        closure.use("op", inst.entry)
        if inst.entry.flat is None:
            for kind, value in inst.operands:
                if kind in ENUMS and kind != "Capability":
                    for entry in enumerants(kind, value):
                        closure.use(kind, entry)
        rule = _TYPED_CAPS.get(inst.op)
        if rule is not None:
            for cap in rule(inst, types):
                closure.need(cap)
        if small:
            for cap in _small_arithmetic(inst, types):
                closure.need(cap)
        if inst.op in _TYPED_VERSION:
            closure.version = max(closure.version, _TYPED_VERSION[inst.op](inst, types))
    return closure.settle()


def held_capabilities(declared: Sequence[str]) -> tuple[str, ...]:
    """Declared capabilities and everything they imply, in a stable order."""
    closure = _Closure()
    for cap in declared:
        closure.need(cap)
    return tuple(closure.held)


def _number_caps(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    for part in types.parts(inst.result_id):
        if part in _WIDE_CAPS:
            yield _WIDE_CAPS[part]


def _signature_caps(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    for type_id in inst.values():
        yield from _arithmetic(types, type_id)


def _matrix_caps(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    """SPV_KHR_cooperative_matrix with Shader wants the Vulkan memory model, and components are computed with."""
    yield "VulkanMemoryModel"
    yield from _arithmetic(types, inst.result_id)


def _barrier_caps(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    if types.by_id[inst.values()[0]].values()[0] == (_SCOPE_SUBGROUP,):
        yield "GroupNonUniform"


def _explicit(inst: Decoded, types: ModuleTypes) -> bool:
    """Whether a variable is a block of workgroup memory; without explicit layout workgroup memory is no struct here."""
    return _STORAGE[inst.first("StorageClass")] == "Workgroup" and types.by_id[types.by_id[inst.type_id].values()[1]].op == "OpTypeStruct"


def _variable_caps(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    storage = _STORAGE[inst.first("StorageClass")]
    pointee = types.by_id[inst.type_id].values()[1]
    if _explicit(inst, types):
        storage = "WorkgroupBlock"
        yield "WorkgroupMemoryExplicitLayoutKHR"
    for kind, width in types.parts(pointee):
        if (storage, width) in _INTERFACE_CAPS:
            yield _INTERFACE_CAPS[storage, width]
        elif (kind, width) in _ARITHMETIC_CAPS:
            yield _ARITHMETIC_CAPS[kind, width]


def _arithmetic(types: ModuleTypes, type_id: int) -> Iterator[str]:
    for part in types.parts(type_id):
        if part in _ARITHMETIC_CAPS:
            yield _ARITHMETIC_CAPS[part]


def _small_arithmetic(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    """Int8, Int16, Float16 for any use of such a value beyond load, store and width conversion."""
    if inst.type_id is not None and inst.op not in _STORAGE_ONLY_RESULTS:
        yield from _arithmetic(types, inst.type_id)
    if inst.op in _STORAGE_ONLY_USES:
        return
    for value in inst.ids():
        used = types.by_id.get(value)
        if used is not None and used.type_id is not None:
            yield from _arithmetic(types, used.type_id)


def _atomic_caps(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    type_id = inst.type_id if inst.type_id else types.of(inst.values()[-1]).result_id
    for kind, width in types.parts(type_id):
        if (kind, width) == ("i", 64):
            yield "Int64Atomics"
        if inst.op == "OpAtomicFAddEXT":
            yield f"AtomicFloat{width}AddEXT"


def _dot_caps(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    operand = types.of(inst.values()[0])
    if operand.op == "OpTypeInt":
        yield "DotProductInput4x8BitPacked"
        return
    component, lanes = operand.values()
    yield "DotProductInput4x8Bit" if types.parts(component) == (("i", 8),) and lanes == 4 else "DotProductInputAll"


# instructions whose capabilities depend on types; what a rule may look at is the instruction and the module's types
_TYPED_CAPS: dict[str, Callable[[Decoded, ModuleTypes], Iterator[str]]] = {
    "OpTypeInt": _number_caps,
    "OpTypeFloat": _number_caps,
    "OpTypeFunction": _signature_caps,
    "OpVariable": _variable_caps,
    "OpTypeCooperativeMatrixKHR": _matrix_caps,
    "OpControlBarrier": _barrier_caps,
    **dict.fromkeys(DOTS, _dot_caps),
    **dict.fromkeys((op for op in OPS if op.startswith("OpAtomic")), _atomic_caps),
}


def _select_version(inst: Decoded, types: ModuleTypes) -> int:
    """1.4 lets OpSelect choose whole composites, and vectors by one scalar condition."""
    result = types.by_id[inst.type_id].op
    scalar_condition = types.of(inst.values()[0]).op == "OpTypeBool"
    return 14 if result in ("OpTypeStruct", "OpTypeArray") or (result == "OpTypeVector" and scalar_condition) else LOWEST


def _broadcast_version(inst: Decoded, types: ModuleTypes) -> int:
    """1.5 lets the lane of a broadcast be no constant."""
    lane = types.by_id[inst.values()[2]].op
    return LOWEST if lane.startswith(("OpConstant", "OpSpecConstant")) else 15


def _variable_version(inst: Decoded, types: ModuleTypes) -> int:
    """SPV_KHR_workgroup_memory_explicit_layout wants 1.4."""
    return 14 if _explicit(inst, types) else LOWEST


_TYPED_VERSION: dict[str, Callable[[Decoded, ModuleTypes], int]] = {
    "OpSelect": _select_version,
    "OpVariable": _variable_version,
    "OpGroupNonUniformBroadcast": _broadcast_version,
    "OpGroupNonUniformQuadBroadcast": _broadcast_version,
}
