"""Descriptor layouts, shared by the pipelines that have the same bindings and push-constant size.

A descriptor set is written by one vkUpdateDescriptorSetWithTemplate call from the joined Slice.info of its bindings.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.vk import _supplement as K
from runtime.vk.binding import ffi, lib, new
from runtime.vk.core import Core

DESCRIPTOR_TYPES = {"storage": K.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, "uniform": K.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER}
# VkDescriptorBufferInfo: buffer, offset, range, 8 bytes each.
INFO_BYTES = 24


@dataclass(frozen=True, eq=False)
class Layout:
    """set_layout and template are None where a kernel has no bindings. Compared and hashed by identity."""

    kinds: tuple[str, ...]
    numbers: tuple[int, ...]
    push_bytes: int
    set_layout: Any
    template: Any
    pipeline_layout: Any
    storage: int
    uniform: int


class Layouts:
    """Cache of Layout by (binding numbers, kinds, push bytes)."""

    def __init__(self, core: Core):
        self._core = core
        self._known: dict[tuple, Layout] = {}

    def get(self, numbers: tuple[int, ...], kinds: tuple[str, ...], push_bytes: int) -> Layout:
        """The layout of these bindings, made on first use."""
        key = (numbers, kinds, push_bytes)
        if key not in self._known:
            self._known[key] = self._create(numbers, kinds, push_bytes)
        return self._known[key]

    def _create(self, numbers: tuple[int, ...], kinds: tuple[str, ...], push_bytes: int) -> Layout:
        set_layout = self._set_layout(numbers, kinds) if numbers else None
        core = self._core
        info = new("VkPipelineLayoutCreateInfo")
        if set_layout is not None:
            set_layouts = ffi.new("VkDescriptorSetLayout[1]", [set_layout])
            info.setLayoutCount, info.pSetLayouts = 1, set_layouts
        if push_bytes:
            ranges = ffi.new("VkPushConstantRange[1]", [{
                "stageFlags": K.VK_SHADER_STAGE_COMPUTE_BIT, "offset": 0, "size": -(-push_bytes // 4) * 4}])
            info.pushConstantRangeCount, info.pPushConstantRanges = 1, ranges
        out = ffi.new("VkPipelineLayout *")
        core.check(lib.vkCreatePipelineLayout(core.handle, info, ffi.NULL, out), "vkCreatePipelineLayout")
        core.own(lib.vkDestroyPipelineLayout, out[0])
        template = self._template(numbers, kinds, set_layout, out[0]) if numbers else None
        return Layout(kinds, numbers, push_bytes, set_layout, template, out[0], kinds.count("storage"),
                      kinds.count("uniform"))

    def _set_layout(self, numbers: tuple[int, ...], kinds: tuple[str, ...]):
        core = self._core
        bindings = ffi.new("VkDescriptorSetLayoutBinding[]", [{
            "binding": number, "descriptorType": DESCRIPTOR_TYPES[kind], "descriptorCount": 1,
            "stageFlags": K.VK_SHADER_STAGE_COMPUTE_BIT} for number, kind in zip(numbers, kinds, strict=True)])
        out = ffi.new("VkDescriptorSetLayout *")
        info = new("VkDescriptorSetLayoutCreateInfo", bindingCount=len(numbers), pBindings=bindings)
        core.check(lib.vkCreateDescriptorSetLayout(core.handle, info, ffi.NULL, out), "vkCreateDescriptorSetLayout")
        core.own(lib.vkDestroyDescriptorSetLayout, out[0])
        return out[0]

    def _template(self, numbers: tuple[int, ...], kinds: tuple[str, ...], set_layout, pipeline_layout):
        core = self._core
        entries = ffi.new("VkDescriptorUpdateTemplateEntry[]", [{
            "dstBinding": number, "dstArrayElement": 0, "descriptorCount": 1, "descriptorType": DESCRIPTOR_TYPES[kind],
            "offset": i * INFO_BYTES, "stride": INFO_BYTES}
            for i, (number, kind) in enumerate(zip(numbers, kinds, strict=True))])
        out = ffi.new("VkDescriptorUpdateTemplate *")
        info = new("VkDescriptorUpdateTemplateCreateInfo", descriptorUpdateEntryCount=len(numbers),
                   pDescriptorUpdateEntries=entries, descriptorSetLayout=set_layout,
                   templateType=K.VK_DESCRIPTOR_UPDATE_TEMPLATE_TYPE_DESCRIPTOR_SET,
                   pipelineBindPoint=K.VK_PIPELINE_BIND_POINT_COMPUTE, pipelineLayout=pipeline_layout)
        core.check(lib.vkCreateDescriptorUpdateTemplate(core.handle, info, ffi.NULL, out),
                   "vkCreateDescriptorUpdateTemplate")
        core.own(lib.vkDestroyDescriptorUpdateTemplate, out[0])
        return out[0]


class DescriptorPools:
    """Descriptor sets of one command recorder. Pools grow as needed; `reset` takes all sets back at once."""

    def __init__(self, core: Core):
        self._core = core
        self._pools: list[tuple[Any, int, int]] = []  # (pool, sets, descriptors of each kind)
        self._tokens: list[int] = []
        self._next = 0
        self._sets = self._storage = self._uniform = 0
        self._out = ffi.new("VkDescriptorSet[1]")
        self._layout = ffi.new("VkDescriptorSetLayout[1]")
        self._info = new("VkDescriptorSetAllocateInfo", descriptorSetCount=1, pSetLayouts=self._layout)

    def allocate(self, layout: Layout):
        """A new descriptor set for the layout."""
        if not self._sets or layout.storage > self._storage or layout.uniform > self._uniform:
            self._open_pool(layout)
        self._sets -= 1
        self._storage -= layout.storage
        self._uniform -= layout.uniform
        self._layout[0] = layout.set_layout
        result = lib.vkAllocateDescriptorSets(self._core.handle, self._info, self._out)
        if result:
            self._core.check(result, "vkAllocateDescriptorSets")
        return self._out[0]

    def _open_pool(self, layout: Layout) -> None:
        if self._next == len(self._pools):
            sets = min(64 << 2 * len(self._pools), 4096)
            descriptors = max(sets * 8, layout.storage, layout.uniform)
            sizes = ffi.new("VkDescriptorPoolSize[2]", [
                {"type": DESCRIPTOR_TYPES[kind], "descriptorCount": descriptors} for kind in ("storage", "uniform")])
            out = ffi.new("VkDescriptorPool *")
            info = new("VkDescriptorPoolCreateInfo", maxSets=sets, poolSizeCount=2, pPoolSizes=sizes)
            self._core.check(lib.vkCreateDescriptorPool(self._core.handle, info, ffi.NULL, out),
                             "vkCreateDescriptorPool")
            self._tokens.append(self._core.own(lib.vkDestroyDescriptorPool, out[0]))
            self._pools.append((out[0], sets, descriptors))
        pool, self._sets, descriptors = self._pools[self._next]
        self._storage = self._uniform = descriptors
        self._info.descriptorPool = pool
        self._next += 1
        if layout.storage > descriptors or layout.uniform > descriptors:
            self._open_pool(layout)

    def reset(self) -> None:
        """Free all sets; the pools stay. The device must have finished with them."""
        for pool, _sets, _descriptors in self._pools[:self._next]:
            self._core.check(lib.vkResetDescriptorPool(self._core.handle, pool, 0), "vkResetDescriptorPool")
        self._next = self._sets = self._storage = self._uniform = 0

    def release(self) -> None:
        """Destroy the pools once the device has finished with them."""
        for token in self._tokens:
            self._core.release(token)
        self._tokens.clear()
        self._pools.clear()
        self._next = self._sets = 0
