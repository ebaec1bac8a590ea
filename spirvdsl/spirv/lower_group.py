"""Barriers, atomics and subgroup operations.

Semantics words are those of SPIR-V 3.32: AcquireRelease 8, UniformMemory 0x40, WorkgroupMemory 0x100; workgroup memory alone
gives 264. Atomics are relaxed.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.nodes import Node
from ..lang.types import scalar_of
from .context import FunctionLowering, internal, lowers
from .grammar import ENUMS
from .lower_memory import place_of, pointer

SCOPES = {"device": 1, "workgroup": 2, "subgroup": 3}
_QUEUE_FAMILY = 5
_SEMANTICS = ENUMS["MemorySemantics"]
_MEMORY = {"workgroup": _SEMANTICS["WorkgroupMemory"].value, "storage": _SEMANTICS["UniformMemory"].value}


def _semantics(f: FunctionLowering, classes: tuple[str, ...]) -> int:
    """Under the Vulkan memory model buffers are made available and visible here; workgroup memory is at each access."""
    bits = 0
    for name in classes:
        bits |= _MEMORY[name]
    if "storage" in classes and f.module.memory_model == "Vulkan":
        bits |= _SEMANTICS["MakeAvailable"].value | _SEMANTICS["MakeVisible"].value
    return bits | _SEMANTICS["AcquireRelease"].value if bits else 0


def _scope(f: FunctionLowering, name: str) -> int:
    """Id of a scope. The Vulkan memory model has the queue family, all that one queue runs; Device would be another feature."""
    vulkan = f.module.memory_model == "Vulkan"
    return f.pool.u32(_QUEUE_FAMILY if vulkan and name == "device" else SCOPES[name])


@lowers("barrier")
def _barrier(f: FunctionLowering, node: Node) -> None:
    scope = _scope(f, node.attrs["scope"])
    f.effect("OpControlBarrier", scope, scope, f.pool.u32(_semantics(f, node.attrs["memory"])))


@lowers("memory_barrier")
def _memory_barrier(f: FunctionLowering, node: Node) -> None:
    semantics = _semantics(f, node.attrs["memory"])
    if semantics:
        f.effect("OpMemoryBarrier", _scope(f, node.attrs["scope"]), f.pool.u32(semantics))


# fn -> instruction for i, u, f components
ATOMICS: dict[str, dict[str, str]] = {
    "add": {"i": "OpAtomicIAdd", "u": "OpAtomicIAdd", "f": "OpAtomicFAddEXT"},
    "sub": {"i": "OpAtomicISub", "u": "OpAtomicISub"},
    "min": {"i": "OpAtomicSMin", "u": "OpAtomicUMin"},
    "max": {"i": "OpAtomicSMax", "u": "OpAtomicUMax"},
    "and": {"i": "OpAtomicAnd", "u": "OpAtomicAnd"},
    "or": {"i": "OpAtomicOr", "u": "OpAtomicOr"},
    "xor": {"i": "OpAtomicXor", "u": "OpAtomicXor"},
    "exchange": {"i": "OpAtomicExchange", "u": "OpAtomicExchange", "f": "OpAtomicExchange"},
    "compare_exchange": {"i": "OpAtomicCompareExchange", "u": "OpAtomicCompareExchange"},
    "load": {"i": "OpAtomicLoad", "u": "OpAtomicLoad", "f": "OpAtomicLoad"},
    "store": {"i": "OpAtomicStore", "u": "OpAtomicStore", "f": "OpAtomicStore"},
}


@lowers("atomic")
def _atomic(f: FunctionLowering, node: Node) -> int | None:
    fn, place = node.attrs["fn"], place_of(f, node.args[0])
    op = ATOMICS[fn].get(scalar_of(place.type).kind)
    if op is None:
        raise internal(f"atomic {fn} has no instruction for {place.type}", node.span)
    if place.resource is not None and fn != "load":
        f.parent.written[place.resource] = None
    args = [f.value(a) for a in node.args[1:]]
    target, scope, relaxed = pointer(f, place), _scope(f, node.attrs["scope"]), f.pool.u32(0)
    if fn == "store":
        f.effect(op, target, scope, relaxed, *args)
        return None
    semantics = (relaxed, relaxed) if fn == "compare_exchange" else (relaxed,)
    return f.emit_t(op, place.type, target, scope, *semantics, *args)


# subgroup arithmetic: fn -> suffix after OpGroupNonUniform for f, i, u, b components
REDUCTIONS: dict[str, dict[str, str]] = {
    "add": {"f": "FAdd", "i": "IAdd", "u": "IAdd"},
    "mul": {"f": "FMul", "i": "IMul", "u": "IMul"},
    "min": {"f": "FMin", "i": "SMin", "u": "UMin"},
    "max": {"f": "FMax", "i": "SMax", "u": "UMax"},
    "and": {"i": "BitwiseAnd", "u": "BitwiseAnd", "b": "LogicalAnd"},
    "or": {"i": "BitwiseOr", "u": "BitwiseOr", "b": "LogicalOr"},
    "xor": {"i": "BitwiseXor", "u": "BitwiseXor", "b": "LogicalXor"},
}
_MODES = {"reduce": "Reduce", "inclusive": "InclusiveScan", "exclusive": "ExclusiveScan"}

# those whose operands are just the IR's arguments
PLAIN: dict[str, str] = {
    "elect": "Elect", "all": "All", "any": "Any", "all_equal": "AllEqual", "ballot": "Ballot",
    "broadcast_first": "BroadcastFirst", "shuffle": "Shuffle", "shuffle_xor": "ShuffleXor", "shuffle_up": "ShuffleUp",
    "shuffle_down": "ShuffleDown", "inverse_ballot": "InverseBallot", "quad_broadcast": "QuadBroadcast", "rotate": "RotateKHR",
}  # fmt: skip


def _reduction(f: FunctionLowering, node: Node, suffix: str) -> int:
    cluster = node.attrs.get("cluster")
    value = f.value(node.args[0])
    if cluster is None:
        return _group(f, node, suffix, _MODES[node.attrs["mode"]], value)
    if node.attrs["mode"] != "reduce":
        raise internal("a clustered subgroup operation is a reduction", node.span)
    return _group(f, node, suffix, "ClusteredReduce", value, f.pool.u32(cluster))


def _group(f: FunctionLowering, node: Node, suffix: str, *operands) -> int:
    return f.emit_t(f"OpGroupNonUniform{suffix}", node.type, f.pool.u32(SCOPES["subgroup"]), *operands)


def _broadcast(f: FunctionLowering, node: Node) -> int:
    """Before SPIR-V 1.5 the lane of OpGroupNonUniformBroadcast is a constant; another lane is a shuffle."""
    value, lane = (f.value(a) for a in node.args)
    return _group(f, node, "Broadcast" if f.pool.is_constant(lane) else "Shuffle", value, lane)


def _quad_swap(f: FunctionLowering, node: Node) -> int:
    return _group(f, node, "QuadSwap", f.value(node.args[0]), f.pool.u32(node.attrs["direction"]))


def _ballot_bit_count(f: FunctionLowering, node: Node) -> int:
    return _group(f, node, "BallotBitCount", _MODES[node.attrs["mode"]], f.value(node.args[0]))


SPECIAL: dict[str, Callable[[FunctionLowering, Node], int]] = {
    "broadcast": _broadcast,
    "quad_swap": _quad_swap,
    "ballot_bit_count": _ballot_bit_count,
}


@lowers("subgroup")
def _subgroup(f: FunctionLowering, node: Node) -> int:
    fn = node.attrs["fn"]
    if fn in SPECIAL:
        return SPECIAL[fn](f, node)
    if fn in PLAIN:
        return _group(f, node, PLAIN[fn], *(f.value(a) for a in node.args))
    suffix = REDUCTIONS[fn].get(scalar_of(node.args[0].type).kind)
    if suffix is None:
        raise internal(f"subgroup {fn} has no instruction for {node.args[0].type}", node.span)
    return _reduction(f, node, suffix)
