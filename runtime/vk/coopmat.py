"""The cooperative-matrix shapes that a device lists.

Source: VK_KHR_cooperative_matrix (VkCooperativeMatrixPropertiesKHR), VK_NV_cooperative_matrix2
(VkCooperativeMatrixFlexibleDimensionsPropertiesNV).
"""
from __future__ import annotations

from dataclasses import dataclass

from runtime.vk import _supplement as K
from runtime.vk.binding import check, enumerate_all, ffi, instance_function

COMPONENT_TYPES = {
    K.VK_COMPONENT_TYPE_FLOAT16_KHR: "f16", K.VK_COMPONENT_TYPE_FLOAT32_KHR: "f32",
    K.VK_COMPONENT_TYPE_FLOAT64_KHR: "f64", K.VK_COMPONENT_TYPE_SINT8_KHR: "i8", K.VK_COMPONENT_TYPE_SINT16_KHR: "i16",
    K.VK_COMPONENT_TYPE_SINT32_KHR: "i32", K.VK_COMPONENT_TYPE_SINT64_KHR: "i64", K.VK_COMPONENT_TYPE_UINT8_KHR: "u8",
    K.VK_COMPONENT_TYPE_UINT16_KHR: "u16", K.VK_COMPONENT_TYPE_UINT32_KHR: "u32",
    K.VK_COMPONENT_TYPE_UINT64_KHR: "u64", K.VK_COMPONENT_TYPE_BFLOAT16_KHR: "bf16",
    K.VK_COMPONENT_TYPE_FLOAT8_E4M3_EXT: "f8e4m3", K.VK_COMPONENT_TYPE_FLOAT8_E5M2_EXT: "f8e5m2",
}
SCOPES = {K.VK_SCOPE_DEVICE_KHR: "device", K.VK_SCOPE_WORKGROUP_KHR: "workgroup", K.VK_SCOPE_SUBGROUP_KHR: "subgroup",
          K.VK_SCOPE_QUEUE_FAMILY_KHR: "queue_family"}


@dataclass(frozen=True)
class CoopShape:
    """result[m,n] = a[m,k] * b[k,n] + c[m,n]. Types: f16 f32 f64 bf16 i8..i64 u8..u64 ..., scope: subgroup ..."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    result: str
    scope: str
    saturating: bool = False


@dataclass(frozen=True)
class CoopFlexible:
    """NV flexible dimensions: any multiple of the granularities. invocations: workgroup size, 0 for subgroup scope."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    result: str
    scope: str
    saturating: bool
    invocations: int


def _types(item) -> tuple[str, str, str, str]:
    return tuple(COMPONENT_TYPES.get(t, f"type{t}") for t in (item.AType, item.BType, item.CType, item.ResultType))


def query_shapes(instance, physical) -> tuple[CoopShape, ...]:
    """The shapes of VK_KHR_cooperative_matrix, in the driver's order."""
    function = instance_function(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
    items = enumerate_all(function, "VkCooperativeMatrixPropertiesKHR", physical,
                          what="vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
    return tuple(CoopShape(i.MSize, i.NSize, i.KSize, *_types(i), SCOPES.get(i.scope, f"scope{i.scope}"),
                           bool(i.saturatingAccumulation)) for i in items)


def query_flexible(instance, physical) -> tuple[CoopFlexible, ...]:
    """The granularities of VK_NV_cooperative_matrix2's flexible dimensions."""
    name = "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV"
    function = instance_function(instance, name)
    # This function belongs to the supplement's FFI, which has its own VkPhysicalDevice type.
    device = K.ffi.cast("VkPhysicalDevice", K.ffi.cast("void *", int(ffi.cast("uintptr_t", physical))))
    count = K.ffi.new("uint32_t *")
    check(function(device, count, K.ffi.NULL), name)
    items = K.ffi.new("VkCooperativeMatrixFlexibleDimensionsPropertiesNV[]", max(count[0], 1))
    for i in range(count[0]):
        items[i].sType = K.STRUCTURE_TYPES["VkCooperativeMatrixFlexibleDimensionsPropertiesNV"]
    check(function(device, count, items), name)
    return tuple(CoopFlexible(i.MGranularity, i.NGranularity, i.KGranularity, *_types(i),
                              SCOPES.get(i.scope, f"scope{i.scope}"), bool(i.saturatingAccumulation),
                              i.workgroupInvocations) for i in (items[j] for j in range(count[0])))
