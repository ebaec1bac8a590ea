"""Device features that a module's words need, in the names of Reflection.features.

Vulkan's own spelling (members of VkPhysicalDevice*Features), `subgroup.<class>` for VkSubgroupFeatureFlagBits,
`float_controls.<mode>_f<bits>` for VkPhysicalDeviceFloatControlsProperties. Source: Vulkan 1.3, appendix "Vulkan environment
for SPIR-V", table of capabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..diagnostics import CompileError
from .grammar import ENUM_BY_VALUE
from .requirements import ModuleTypes, held_capabilities
from .words import Decoded

# SPIR-V capability -> feature; "": every Vulkan 1.3 device has it, or the rules below name it
FEATURE_OF: dict[str, str] = {
    "Shader": "", "Matrix": "",
    "Float16": "shaderFloat16", "Float64": "shaderFloat64",
    "Int8": "shaderInt8", "Int16": "shaderInt16", "Int64": "shaderInt64",
    "StorageBuffer16BitAccess": "storageBuffer16BitAccess",
    "UniformAndStorageBuffer16BitAccess": "uniformAndStorageBuffer16BitAccess",
    "StoragePushConstant16": "storagePushConstant16",
    "StorageBuffer8BitAccess": "storageBuffer8BitAccess",
    "UniformAndStorageBuffer8BitAccess": "uniformAndStorageBuffer8BitAccess",
    "StoragePushConstant8": "storagePushConstant8",
    "DotProduct": "shaderIntegerDotProduct", "DotProductInput4x8BitPacked": "shaderIntegerDotProduct",
    "DotProductInput4x8Bit": "shaderIntegerDotProduct", "DotProductInputAll": "shaderIntegerDotProduct",
    "VulkanMemoryModel": "vulkanMemoryModel", "PhysicalStorageBufferAddresses": "bufferDeviceAddress",
    "CooperativeMatrixKHR": "cooperativeMatrix",
    "WorkgroupMemoryExplicitLayoutKHR": "workgroupMemoryExplicitLayout",
    "WorkgroupMemoryExplicitLayout8BitAccessKHR": "workgroupMemoryExplicitLayout8BitAccess",
    "WorkgroupMemoryExplicitLayout16BitAccessKHR": "workgroupMemoryExplicitLayout16BitAccess",
    "GroupNonUniform": "subgroup.basic", "GroupNonUniformVote": "subgroup.vote",
    "GroupNonUniformArithmetic": "subgroup.arithmetic", "GroupNonUniformBallot": "subgroup.ballot",
    "GroupNonUniformShuffle": "subgroup.shuffle", "GroupNonUniformShuffleRelative": "subgroup.shuffle_relative",
    "GroupNonUniformClustered": "subgroup.clustered", "GroupNonUniformQuad": "subgroup.quad",
    "GroupNonUniformRotateKHR": "shaderSubgroupRotate",
    "Int64Atomics": "", "AtomicFloat32AddEXT": "",  # by storage class
    "DenormPreserve": "", "DenormFlushToZero": "", "RoundingModeRTE": "", "SignedZeroInfNanPreserve": "",  # by width
}  # fmt: skip
MODE_FEATURE: dict[str, str] = {
    "DenormPreserve": "denorm_preserve",
    "DenormFlushToZero": "denorm_flush_to_zero",
    "RoundingModeRTE": "rte",
    "SignedZeroInfNanPreserve": "signed_zero_inf_nan_preserve",
}
_INT64_ATOMICS = {"StorageBuffer": "shaderBufferInt64Atomics", "Workgroup": "shaderSharedInt64Atomics"}
_FLOAT_ADD = {"StorageBuffer": "shaderBufferFloat32AtomicAdd", "Workgroup": "shaderSharedFloat32AtomicAdd"}
_FLOAT_ATOMICS = {"StorageBuffer": "shaderBufferFloat32Atomics", "Workgroup": "shaderSharedFloat32Atomics"}


def features(code: Sequence[Decoded]) -> tuple[str, ...]:
    """Sorted, without repeats. CompileError E0803 for a capability that has no row above."""
    types = ModuleTypes(code)
    declared = [ENUM_BY_VALUE["Capability"][d.values()[0]].name for d in code if d.op == "OpCapability"]
    out: dict[str, None] = {}
    for cap in held_capabilities(declared):
        if cap not in FEATURE_OF:
            raise CompileError("E0803", f"capability {cap} has no row in spirvdsl.spirv.features.FEATURE_OF")
        out[FEATURE_OF[cap]] = None
    for inst in code:
        for feature in _of_instruction(inst, types):
            out[feature] = None
    return tuple(sorted(f for f in out if f))


def _of_instruction(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    """Features that follow from operands and not from a capability."""
    if inst.op == "OpExecutionMode":
        _, mode, *operands = inst.values()
        name = ENUM_BY_VALUE["ExecutionMode"][mode].name
        if name in MODE_FEATURE:
            yield f"float_controls.{MODE_FEATURE[name]}_f{operands[0]}"
    elif inst.op.startswith("OpAtomic"):
        yield from _atomic(inst, types)
    elif inst.op.startswith("OpGroupNonUniform"):
        value = types.of(inst.values()[-1]) if inst.type_id is None else types.by_id[inst.type_id]
        if any(width != 32 for _, width in types.parts(value.result_id)):
            yield "shaderSubgroupExtendedTypes"


def _atomic(inst: Decoded, types: ModuleTypes) -> Iterator[str]:
    """64-bit integer and float atomics are features by storage class."""
    pointer = types.of(inst.first("IdRef"))
    storage = ENUM_BY_VALUE["StorageClass"][pointer.first("StorageClass")].name
    part = types.parts(pointer.values()[1])
    if part == (("i", 64),):
        yield _INT64_ATOMICS[storage]
    elif part == (("f", 32),):
        yield (_FLOAT_ADD if inst.op == "OpAtomicFAddEXT" else _FLOAT_ATOMICS)[storage]
