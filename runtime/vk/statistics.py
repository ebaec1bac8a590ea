"""A driver's figures about a compiled pipeline: registers, spills, code size.

Source: VK_KHR_pipeline_executable_properties. Every driver has its own names; NORMALISED maps the known ones.
"""
from __future__ import annotations

from runtime.vk import _supplement as K
from runtime.vk.binding import device_function, ffi, new, text
from runtime.vk.core import Core

# Driver's name -> (our name, mask of the valid bits). NVIDIA adds 2^36 to its spill size.
NORMALISED = {
    "Register Count": ("registers", None),
    "Local Memory Size": ("spill_bytes", 0xFFFFFFFF),
    "Shared Memory Size": ("workgroup_bytes", None),
    "Binary Size": ("code_bytes", None),
    "VGPRs": ("registers", None),
    "Scratch size": ("spill_bytes", None),
    "LDS size": ("workgroup_bytes", None),
    "Code size": ("code_bytes", None),
}
VALUE_FIELDS = {K.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: "b32",
                K.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: "i64",
                K.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: "u64",
                K.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: "f64"}


def read_statistics(core: Core, pipeline) -> dict[str, int | float | bool]:
    """Statistics of a pipeline made with the CAPTURE_STATISTICS flag: the driver's names, and ours beside them."""
    properties = device_function(core.handle, "vkGetPipelineExecutablePropertiesKHR")
    statistics = device_function(core.handle, "vkGetPipelineExecutableStatisticsKHR")
    count = ffi.new("uint32_t *")
    info = new("VkPipelineInfoKHR", pipeline=pipeline)
    core.check(properties(core.handle, info, count, ffi.NULL), "vkGetPipelineExecutablePropertiesKHR")
    found: dict[str, int | float | bool] = {}
    for index in range(count[0]):
        which = new("VkPipelineExecutableInfoKHR", pipeline=pipeline, executableIndex=index)
        number = ffi.new("uint32_t *")
        core.check(statistics(core.handle, which, number, ffi.NULL), "vkGetPipelineExecutableStatisticsKHR")
        items = ffi.new("VkPipelineExecutableStatisticKHR[]", max(number[0], 1))
        for i in range(number[0]):
            items[i].sType = K.STRUCTURE_TYPES["VkPipelineExecutableStatisticKHR"]
        core.check(statistics(core.handle, which, number, items), "vkGetPipelineExecutableStatisticsKHR")
        for i in range(number[0]):
            value = getattr(items[i].value, VALUE_FIELDS[items[i].format])
            found[text(items[i].name)] = bool(value) if VALUE_FIELDS[items[i].format] == "b32" else value
    for theirs, (ours, mask) in NORMALISED.items():
        if theirs in found:
            found[ours] = found[theirs] & mask if mask else found[theirs]
    return found
