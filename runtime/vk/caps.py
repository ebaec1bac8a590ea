"""What a device can do: one frozen record, read once from Vulkan's properties and features.

Source: Vulkan specification, chapters "Physical Device Enumeration", "Features" and "Limits".
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.vk import _supplement as K
from runtime.vk.binding import chain, enumerate_all, ffi, lib, new, text
from runtime.vk.coopmat import CoopFlexible, CoopShape, query_flexible, query_shapes
from runtime.vk.features import (
    CORE_FEATURES,
    FLOAT_CONTROLS,
    SPIRV_VERSIONS,
    SUBGROUP_OPERATIONS,
    known_structs,
)

DEVICE_TYPES = {
    K.VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: "discrete",
    K.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: "integrated",
    K.VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: "virtual",
    K.VK_PHYSICAL_DEVICE_TYPE_CPU: "cpu",
}
INDEPENDENCE = {
    K.VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY: "32_bit_only",
    K.VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL: "all",
    K.VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE: "none",
}


@dataclass(frozen=True)
class Capabilities:
    """One device. Sizes in bytes; uuid is deviceUUID, cache_uuid is pipelineCacheUUID, both hex.

    features: names as in Reflection.features (Vulkan's names, `subgroup.<class>`, `float_controls.<mode>_f<bits>`).
    compute_units: streaming multiprocessors or compute units where the driver tells, else None.
    denorm_independence, rounding_independence: "all", "32_bit_only" or "none" (may widths differ in one module?).
    timestamp_valid_bits: 0 means the queue has no timestamps.
    """

    name: str
    type: str
    vendor_id: int
    device_id: int
    driver: str
    driver_info: str
    driver_version: int
    api_version: tuple[int, int, int]
    uuid: str
    driver_uuid: str
    cache_uuid: str
    extensions: frozenset[str]
    features: frozenset[str]
    spirv_version: tuple[int, int]
    subgroup_size: int
    min_subgroup_size: int
    max_subgroup_size: int
    max_compute_subgroups: int
    required_subgroup_size: bool
    subgroup_ops: frozenset[str]
    denorm_independence: str
    rounding_independence: str
    max_storage_buffer_range: int
    max_uniform_buffer_range: int
    max_memory_allocation_size: int
    max_buffer_size: int
    max_workgroup_bytes: int
    max_workgroup_invocations: int
    max_workgroup_size: tuple[int, int, int]
    max_workgroup_count: tuple[int, int, int]
    max_push_bytes: int
    max_storage_bindings: int
    max_uniform_bindings: int
    min_storage_buffer_offset_alignment: int
    min_uniform_buffer_offset_alignment: int
    timestamp_period_ns: float
    timestamp_valid_bits: int
    int_dot_accelerated: bool
    coop_matrices: tuple[CoopShape, ...]
    coop_flexible: tuple[CoopFlexible, ...]
    coop_workgroup_max_invocations: int
    coop_workgroup_reserved_bytes: int
    compute_units: int | None
    queue_family: int

    @property
    def is_cpu(self) -> bool:
        """True for a software driver such as lavapipe."""
        return self.type == "cpu"

    @property
    def unified_memory(self) -> bool:
        """True where device memory is host memory, so that staging would be a useless copy."""
        return self.type in ("integrated", "cpu")

    def has(self, feature: str) -> bool:
        """Whether the device has the feature of this name."""
        return feature in self.features


def list_extensions(physical) -> frozenset[str]:
    """Names of the device extensions that the driver lists."""
    items = enumerate_all(lib.vkEnumerateDeviceExtensionProperties, "VkExtensionProperties", physical, ffi.NULL,
                          what="vkEnumerateDeviceExtensionProperties")
    return frozenset(text(item.extensionName) for item in items)


def query_features(physical, version: tuple[int, int], extensions: frozenset[str]) -> set[str]:
    """Names of the device's features, of those that features.py knows."""
    rows = known_structs(version, extensions)
    structs = [new("VkPhysicalDeviceFeatures2")] + [new(row.struct) for row in rows]
    chain(structs)
    lib.vkGetPhysicalDeviceFeatures2(physical, structs[0])
    found = {name for name in CORE_FEATURES if getattr(structs[0].features, name)}
    for row, struct in zip(rows, structs[1:], strict=True):
        found.update(m for m in row.members if getattr(struct, m))
    return found


def choose_queue_family(physical) -> tuple[int, int] | None:
    """(family index, valid timestamp bits) of the queue to use; None when the device cannot compute.

    A family without graphics is preferred: on drivers that have one, a long dispatch does not disturb the desktop.
    """
    count = ffi.new("uint32_t *")
    lib.vkGetPhysicalDeviceQueueFamilyProperties(physical, count, ffi.NULL)
    families = ffi.new("VkQueueFamilyProperties[]", count[0])
    lib.vkGetPhysicalDeviceQueueFamilyProperties(physical, count, families)
    able = [i for i in range(count[0]) if families[i].queueFlags & K.VK_QUEUE_COMPUTE_BIT and families[i].queueCount]
    if not able:
        return None
    best = min(able, key=lambda i: (not families[i].timestampValidBits,
                                    bool(families[i].queueFlags & K.VK_QUEUE_GRAPHICS_BIT), i))
    return best, families[best].timestampValidBits


def query_properties(physical, extensions: frozenset[str]) -> dict[str, Any]:
    """Property structs by name. The head is VkPhysicalDeviceProperties2."""
    names = ["VkPhysicalDeviceProperties2", "VkPhysicalDeviceVulkan11Properties", "VkPhysicalDeviceVulkan12Properties",
             "VkPhysicalDeviceVulkan13Properties"]
    for extension, struct in (("VK_NV_cooperative_matrix2", "VkPhysicalDeviceCooperativeMatrix2PropertiesNV"),
                              ("VK_NV_shader_sm_builtins", "VkPhysicalDeviceShaderSMBuiltinsPropertiesNV"),
                              ("VK_AMD_shader_core_properties", "VkPhysicalDeviceShaderCorePropertiesAMD")):
        if extension in extensions:
            names.append(struct)
    structs = {name: new(name) for name in names}
    chain(list(structs.values()))
    lib.vkGetPhysicalDeviceProperties2(physical, structs[names[0]])
    return structs


def compute_units(properties: dict[str, Any]) -> int | None:
    """Streaming multiprocessors (NVIDIA) or compute units (AMD)."""
    nv = properties.get("VkPhysicalDeviceShaderSMBuiltinsPropertiesNV")
    if nv is not None:
        return nv.shaderSMCount
    amd = properties.get("VkPhysicalDeviceShaderCorePropertiesAMD")
    if amd is not None:
        return amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray
    return None


def _derived_features(p11, p12) -> tuple[frozenset[str], set[str]]:
    """(subgroup classes in compute shaders, `subgroup.*` and `float_controls.*` names)."""
    in_compute = p11.subgroupSupportedStages & K.VK_SHADER_STAGE_COMPUTE_BIT
    ops = frozenset(n for bit, n in SUBGROUP_OPERATIONS if in_compute and p11.subgroupSupportedOperations & bit)
    names = {f"subgroup.{op}" for op in ops}
    for prefix, name in FLOAT_CONTROLS:
        names.update(f"float_controls.{name}_f{bits}" for bits in (16, 32, 64) if getattr(p12, f"{prefix}{bits}"))
    return ops, names


def read_capabilities(instance, physical, queue: tuple[int, int]) -> Capabilities:
    """Capabilities of a device of Vulkan 1.3 or later. queue: (family index, valid timestamp bits)."""
    extensions = list_extensions(physical)
    properties = query_properties(physical, extensions)
    head, p11, p12, p13 = (properties[f"VkPhysicalDevice{n}"] for n in (
        "Properties2", "Vulkan11Properties", "Vulkan12Properties", "Vulkan13Properties"))
    core, limits = head.properties, head.properties.limits
    version = unpack_version(core.apiVersion)
    features = query_features(physical, version[:2], extensions)
    ops, derived = _derived_features(p11, p12)
    coop2 = properties.get("VkPhysicalDeviceCooperativeMatrix2PropertiesNV")
    return Capabilities(
        name=text(core.deviceName), type=DEVICE_TYPES.get(core.deviceType, "other"), vendor_id=core.vendorID,
        device_id=core.deviceID, driver=text(p12.driverName), driver_info=text(p12.driverInfo),
        driver_version=core.driverVersion, api_version=version, uuid=bytes(p11.deviceUUID).hex(),
        driver_uuid=bytes(p11.driverUUID).hex(), cache_uuid=bytes(core.pipelineCacheUUID).hex(),
        extensions=extensions, features=frozenset(features | derived),
        spirv_version=SPIRV_VERSIONS.get(version[:2], (1, 6)),
        subgroup_size=p11.subgroupSize, min_subgroup_size=p13.minSubgroupSize, max_subgroup_size=p13.maxSubgroupSize,
        max_compute_subgroups=p13.maxComputeWorkgroupSubgroups,
        required_subgroup_size=bool(p13.requiredSubgroupSizeStages & K.VK_SHADER_STAGE_COMPUTE_BIT
                                    and "subgroupSizeControl" in features),
        subgroup_ops=ops,
        denorm_independence=INDEPENDENCE.get(p12.denormBehaviorIndependence, "none"),
        rounding_independence=INDEPENDENCE.get(p12.roundingModeIndependence, "none"),
        max_storage_buffer_range=limits.maxStorageBufferRange, max_uniform_buffer_range=limits.maxUniformBufferRange,
        max_memory_allocation_size=p11.maxMemoryAllocationSize, max_buffer_size=p13.maxBufferSize,
        max_workgroup_bytes=limits.maxComputeSharedMemorySize,
        max_workgroup_invocations=limits.maxComputeWorkGroupInvocations,
        max_workgroup_size=tuple(limits.maxComputeWorkGroupSize),
        max_workgroup_count=tuple(limits.maxComputeWorkGroupCount), max_push_bytes=limits.maxPushConstantsSize,
        max_storage_bindings=min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers),
        max_uniform_bindings=min(limits.maxPerStageDescriptorUniformBuffers, limits.maxDescriptorSetUniformBuffers),
        min_storage_buffer_offset_alignment=limits.minStorageBufferOffsetAlignment,
        min_uniform_buffer_offset_alignment=limits.minUniformBufferOffsetAlignment,
        timestamp_period_ns=limits.timestampPeriod, timestamp_valid_bits=queue[1],
        int_dot_accelerated=bool(p13.integerDotProduct4x8BitPackedSignedAccelerated),
        coop_matrices=query_shapes(instance, physical) if "cooperativeMatrix" in features else (),
        coop_flexible=(query_flexible(instance, physical)
                       if "cooperativeMatrixFlexibleDimensions" in features else ()),
        coop_workgroup_max_invocations=coop2.cooperativeMatrixWorkgroupScopeMaxWorkgroupSize if coop2 else 0,
        coop_workgroup_reserved_bytes=coop2.cooperativeMatrixWorkgroupScopeReservedSharedMemory if coop2 else 0,
        compute_units=compute_units(properties), queue_family=queue[0])


def unpack_version(packed: int) -> tuple[int, int, int]:
    """(major, minor, patch) of a packed Vulkan version (the variant bits are dropped)."""
    return (packed >> 22) & 0x7F, (packed >> 12) & 0x3FF, packed & 0xFFF
