"""Table of the Vulkan features that the runtime queries and enables, by their names in vk.xml.

Source: Vulkan specification, chapter "Features". A row is one feature struct: where it comes from (a core version, or
an extension that must be listed) and the members wanted. Everything named here is enabled where the device has it;
nothing else is, so robustBufferAccess stays off.
"""
from __future__ import annotations

from dataclasses import dataclass

from runtime.vk import _supplement as K
from runtime.vk.binding import new


@dataclass(frozen=True)
class FeatureStruct:
    """One struct of the pNext chain. `version` (major, minor) or `extension` says when the device knows it."""

    struct: str
    members: tuple[str, ...]
    version: tuple[int, int] | None = None
    extension: str | None = None


CORE_FEATURES = ("shaderInt64", "shaderInt16", "shaderFloat64")

FEATURE_STRUCTS = (
    FeatureStruct("VkPhysicalDeviceVulkan11Features", (
        "storageBuffer16BitAccess", "uniformAndStorageBuffer16BitAccess", "storagePushConstant16",
        "variablePointersStorageBuffer", "variablePointers"), version=(1, 2)),
    FeatureStruct("VkPhysicalDeviceVulkan12Features", (
        "storageBuffer8BitAccess", "uniformAndStorageBuffer8BitAccess", "storagePushConstant8", "shaderFloat16",
        "shaderInt8", "shaderBufferInt64Atomics", "shaderSharedInt64Atomics", "scalarBlockLayout",
        "uniformBufferStandardLayout", "shaderSubgroupExtendedTypes", "hostQueryReset", "timelineSemaphore",
        "bufferDeviceAddress", "vulkanMemoryModel", "vulkanMemoryModelDeviceScope",
        "vulkanMemoryModelAvailabilityVisibilityChains"), version=(1, 2)),
    FeatureStruct("VkPhysicalDeviceVulkan13Features", (
        "subgroupSizeControl", "computeFullSubgroups", "synchronization2", "shaderIntegerDotProduct", "maintenance4",
        "shaderZeroInitializeWorkgroupMemory"), version=(1, 3)),
    FeatureStruct("VkPhysicalDeviceVulkan14Features", (
        "shaderSubgroupRotate", "shaderSubgroupRotateClustered", "shaderFloatControls2", "shaderExpectAssume"),
        version=(1, 4)),
    FeatureStruct("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", ("cooperativeMatrix",),
                  extension="VK_KHR_cooperative_matrix"),
    FeatureStruct("VkPhysicalDeviceCooperativeMatrix2FeaturesNV", (
        "cooperativeMatrixWorkgroupScope", "cooperativeMatrixFlexibleDimensions", "cooperativeMatrixReductions",
        "cooperativeMatrixConversions", "cooperativeMatrixPerElementOperations", "cooperativeMatrixTensorAddressing",
        "cooperativeMatrixBlockLoads"), extension="VK_NV_cooperative_matrix2"),
    FeatureStruct("VkPhysicalDeviceShaderBfloat16FeaturesKHR", (
        "shaderBFloat16Type", "shaderBFloat16DotProduct", "shaderBFloat16CooperativeMatrix"),
        extension="VK_KHR_shader_bfloat16"),
    FeatureStruct("VkPhysicalDeviceShaderFloat8FeaturesEXT", ("shaderFloat8", "shaderFloat8CooperativeMatrix"),
                  extension="VK_EXT_shader_float8"),
    FeatureStruct("VkPhysicalDeviceShaderReplicatedCompositesFeaturesEXT", ("shaderReplicatedComposites",),
                  extension="VK_EXT_shader_replicated_composites"),
    FeatureStruct("VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR", (
        "workgroupMemoryExplicitLayout", "workgroupMemoryExplicitLayoutScalarBlockLayout",
        "workgroupMemoryExplicitLayout8BitAccess", "workgroupMemoryExplicitLayout16BitAccess"),
        extension="VK_KHR_workgroup_memory_explicit_layout"),
    FeatureStruct("VkPhysicalDeviceShaderAtomicFloatFeaturesEXT", (
        "shaderBufferFloat32Atomics", "shaderBufferFloat32AtomicAdd", "shaderSharedFloat32Atomics",
        "shaderSharedFloat32AtomicAdd"), extension="VK_EXT_shader_atomic_float"),
    FeatureStruct("VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT", (
        "shaderBufferFloat16AtomicAdd", "shaderBufferFloat32AtomicMinMax", "shaderSharedFloat16AtomicAdd",
        "shaderSharedFloat32AtomicMinMax"), extension="VK_EXT_shader_atomic_float2"),
    FeatureStruct("VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR", ("shaderMaximalReconvergence",),
                  extension="VK_KHR_shader_maximal_reconvergence"),
    FeatureStruct("VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR", ("shaderSubgroupUniformControlFlow",),
                  extension="VK_KHR_shader_subgroup_uniform_control_flow"),
    FeatureStruct("VkPhysicalDeviceShaderClockFeaturesKHR", ("shaderSubgroupClock", "shaderDeviceClock"),
                  extension="VK_KHR_shader_clock"),
    FeatureStruct("VkPhysicalDeviceShaderUntypedPointersFeaturesKHR", ("shaderUntypedPointers",),
                  extension="VK_KHR_shader_untyped_pointers"),
    FeatureStruct("VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR", ("pipelineExecutableInfo",),
                  extension="VK_KHR_pipeline_executable_properties"),
)

# Extensions without a feature struct, enabled where listed.
PLAIN_EXTENSIONS = ("VK_EXT_memory_budget",)

# A Device is refused without these (by name, before vkCreateDevice).
REQUIRED_FEATURES = ("timelineSemaphore",)
REQUIRED_VERSION = (1, 3)

# VkSubgroupFeatureFlagBits -> the class name used as `subgroup.<class>`.
SUBGROUP_OPERATIONS = (
    (K.VK_SUBGROUP_FEATURE_BASIC_BIT, "basic"),
    (K.VK_SUBGROUP_FEATURE_VOTE_BIT, "vote"),
    (K.VK_SUBGROUP_FEATURE_ARITHMETIC_BIT, "arithmetic"),
    (K.VK_SUBGROUP_FEATURE_BALLOT_BIT, "ballot"),
    (K.VK_SUBGROUP_FEATURE_SHUFFLE_BIT, "shuffle"),
    (K.VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT, "shuffle_relative"),
    (K.VK_SUBGROUP_FEATURE_CLUSTERED_BIT, "clustered"),
    (K.VK_SUBGROUP_FEATURE_QUAD_BIT, "quad"),
    (K.VK_SUBGROUP_FEATURE_ROTATE_BIT, "rotate"),
    (K.VK_SUBGROUP_FEATURE_ROTATE_CLUSTERED_BIT, "rotate_clustered"),
)

# Member prefix of VkPhysicalDeviceFloatControlsProperties -> name in `float_controls.<name>_f<bits>`.
FLOAT_CONTROLS = (
    ("shaderSignedZeroInfNanPreserveFloat", "signed_zero_inf_nan_preserve"),
    ("shaderDenormPreserveFloat", "denorm_preserve"),
    ("shaderDenormFlushToZeroFloat", "denorm_flush_to_zero"),
    ("shaderRoundingModeRTEFloat", "rte"),
    ("shaderRoundingModeRTZFloat", "rtz"),
)

# Highest SPIR-V version by API version (specification, appendix "Vulkan Environment for SPIR-V").
SPIRV_VERSIONS = {(1, 1): (1, 3), (1, 2): (1, 5), (1, 3): (1, 6), (1, 4): (1, 6)}


def known_names() -> frozenset[str]:
    """Every name that a device's features can contain."""
    names = {m for row in FEATURE_STRUCTS for m in row.members}
    names.update(CORE_FEATURES, (f"subgroup.{name}" for _, name in SUBGROUP_OPERATIONS))
    return frozenset(names | {f"float_controls.{name}_f{bits}" for _, name in FLOAT_CONTROLS for bits in (16, 32, 64)})


def known_structs(version: tuple[int, int], extensions: frozenset[str]) -> list[FeatureStruct]:
    """The rows that a device of this API version and extension list understands."""
    return [row for row in FEATURE_STRUCTS
            if (row.version is not None and version >= row.version) or (row.extension in extensions)]


def enabling_chain(version: tuple[int, int], extensions: frozenset[str], features: frozenset[str]) -> tuple[list, list]:
    """Structs for VkDeviceCreateInfo.pNext (not yet linked) and the extensions to enable, for these features.

    A row whose feature bits are all clear is left out with its extension: a driver may list an extension and still
    refuse it (lavapipe with LP_NATIVE_VECTOR_WIDTH=128 lists cooperative matrices without the feature).
    """
    head = new("VkPhysicalDeviceFeatures2")
    for name in CORE_FEATURES:
        setattr(head.features, name, name in features)
    structs, enabled = [head], []
    for row in known_structs(version, extensions):
        members = [m for m in row.members if m in features]
        if not members:
            continue
        structs.append(new(row.struct, **{m: 1 for m in members}))
        if row.extension:
            enabled.append(row.extension)
    enabled += [name for name in PLAIN_EXTENSIONS if name in extensions]
    return structs, enabled
