"""Compute pipelines from compiled kernels.

Source: Vulkan specification, chapter "Pipelines"; VK_KHR_pipeline_executable_properties for the statistics.
"""
from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from runtime.vk import _supplement as K
from runtime.vk.binding import ffi, lib, new
from runtime.vk.core import Core
from runtime.vk.diskcache import DiskCache
from runtime.vk.layout import Layout, Layouts
from runtime.vk.packing import PushPacker, pack_constant
from runtime.vk.requirements import check_kernel, check_spec
from runtime.vk.statistics import read_statistics

READ, WRITE = 1, 2
MODES = {"in": READ, "out": WRITE, "inout": READ | WRITE}


class Pipeline:
    """A kernel ready to run. name, compiled, spec; modes: access of each binding; push: its PushPacker."""

    def __init__(self, factory: Pipelines, compiled, spec: dict[str, Any], layout: Layout, handle, token: int):
        reflection = compiled.reflection
        self._factory, self.core = factory, factory.core
        self._token = token
        self.compiled, self.spec, self.layout, self.handle = compiled, spec, layout, handle
        self.name = compiled.name
        self.bindings = reflection.bindings
        self.modes = tuple(MODES[b.access] for b in reflection.bindings)
        self.push = PushPacker(compiled.name, reflection.push, reflection.push_bytes)

    def statistics(self) -> dict[str, int | float | bool]:
        """The driver's figures (registers, spill_bytes, code_bytes ..., and its own names); {} where it gives none.

        The pipeline is compiled once more for it, because asking for statistics may change how a driver caches.
        """
        return self._factory.statistics(self)

    def cache_data(self) -> bytes:
        """What vkGetPipelineCacheData holds for this pipeline (the machine code, on NVIDIA)."""
        return self._factory.cache_data(self)

    def __del__(self):
        self.core.release(self._token)

    def __repr__(self) -> str:
        return f"Pipeline({self.name})"


class Pipelines:
    """Makes pipelines, each once per (kernel, specialisation), with a cache on disk."""

    def __init__(self, core: Core, disk: DiskCache):
        self.core, self.disk = core, disk
        self._layouts = Layouts(core)
        self._known: dict[tuple, Pipeline] = {}

    def get(self, compiled, spec: Mapping[str, Any] | None = None) -> Pipeline:
        """The pipeline; MissingFeature names what the device lacks, before the driver sees the module."""
        spec = dict(spec or {})
        key = (compiled.hash, compiled.reflection, tuple(sorted(spec.items())))
        pipe = self._known.get(key)
        if pipe is None:
            check_kernel(self.core.caps, compiled.name, compiled.reflection)
            check_spec(compiled.name, compiled.reflection, spec)
            pipe = self._known[key] = self._make(compiled, spec)
        return pipe

    def _make(self, compiled, spec: dict[str, Any]) -> Pipeline:
        reflection = compiled.reflection
        layout = self._layouts.get(tuple(b.binding for b in reflection.bindings),
                                   tuple(b.kind for b in reflection.bindings), reflection.push_bytes)
        key = self.key(compiled, spec)
        stored = self.disk.load(key)
        cache = self._create_cache(stored)
        try:
            handle = self._create(compiled, spec, layout, cache, 0)
            if not stored:
                self.disk.store(key, self._cache_bytes(cache))
        finally:
            lib.vkDestroyPipelineCache(self.core.handle, cache, ffi.NULL)
        token = self.core.own(lib.vkDestroyPipeline, handle)
        return Pipeline(self, compiled, spec, layout, handle, token)

    @staticmethod
    def key(compiled, spec: Mapping[str, Any]) -> str:
        """Name of the pipeline in the disk cache."""
        r = compiled.reflection
        text = f"{r.entry}:{r.subgroup_size}:{r.push_bytes}:{sorted(spec.items())}:{r.bindings}"
        return hashlib.sha256(compiled.spirv + text.encode()).hexdigest()[:40]

    def _create_cache(self, data: bytes):
        out = ffi.new("VkPipelineCache *")
        info = new("VkPipelineCacheCreateInfo", initialDataSize=len(data))
        held = ffi.from_buffer(data)
        if data:
            info.pInitialData = ffi.cast("void *", held)
        self.core.check(lib.vkCreatePipelineCache(self.core.handle, info, ffi.NULL, out), "vkCreatePipelineCache")
        return out[0]

    def _cache_bytes(self, cache) -> bytes:
        size = ffi.new("size_t *")
        self.core.check(lib.vkGetPipelineCacheData(self.core.handle, cache, size, ffi.NULL), "vkGetPipelineCacheData")
        data = ffi.new("uint8_t[]", max(size[0], 1))
        self.core.check(lib.vkGetPipelineCacheData(self.core.handle, cache, size, data), "vkGetPipelineCacheData")
        return bytes(ffi.buffer(data, size[0]))

    def _create(self, compiled, spec: Mapping[str, Any], layout: Layout, cache, flags: int):
        core, reflection = self.core, compiled.reflection
        words = ffi.from_buffer("uint32_t[]", bytes(compiled.spirv))
        module = ffi.new("VkShaderModule *")
        info = new("VkShaderModuleCreateInfo", codeSize=len(compiled.spirv), pCode=words)
        core.check(lib.vkCreateShaderModule(core.handle, info, ffi.NULL, module),
                   f"vkCreateShaderModule of kernel {compiled.name}")
        try:
            entry = ffi.new("char[]", reflection.entry.encode())
            stage = {"sType": K.STRUCTURE_TYPES["VkPipelineShaderStageCreateInfo"],
                     "stage": K.VK_SHADER_STAGE_COMPUTE_BIT, "module": module[0], "pName": entry}
            if reflection.subgroup_size is not None and core.caps.required_subgroup_size:
                required = new("VkPipelineShaderStageRequiredSubgroupSizeCreateInfo",
                               requiredSubgroupSize=reflection.subgroup_size)
                stage["pNext"] = ffi.cast("void *", required)
                whole = reflection.workgroup_size[0] % reflection.subgroup_size == 0
                if whole and core.caps.has("computeFullSubgroups"):
                    stage["flags"] = K.VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
            specialisation = Specialisation(compiled, spec)
            stage["pSpecializationInfo"] = specialisation.info
            create = new("VkComputePipelineCreateInfo", flags=flags, stage=stage, layout=layout.pipeline_layout)
            out = ffi.new("VkPipeline *")
            core.check(lib.vkCreateComputePipelines(core.handle, cache, 1, create, ffi.NULL, out),
                       f"compiling kernel {compiled.name}")
            return out[0]
        finally:
            lib.vkDestroyShaderModule(core.handle, module[0], ffi.NULL)

    def statistics(self, pipe: Pipeline) -> dict[str, int | float | bool]:
        """See Pipeline.statistics."""
        if not self.core.caps.has("pipelineExecutableInfo"):
            return {}
        handle = self._create(pipe.compiled, pipe.spec, pipe.layout, ffi.NULL,
                              K.VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR)
        try:
            return read_statistics(self.core, handle)
        finally:
            lib.vkDestroyPipeline(self.core.handle, handle, ffi.NULL)

    def cache_data(self, pipe: Pipeline) -> bytes:
        """See Pipeline.cache_data."""
        stored = self.disk.load(self.key(pipe.compiled, pipe.spec))
        if stored:
            return stored
        cache = self._create_cache(b"")
        try:
            handle = self._create(pipe.compiled, pipe.spec, pipe.layout, cache, 0)
            lib.vkDestroyPipeline(self.core.handle, handle, ffi.NULL)
            return self._cache_bytes(cache)
        finally:
            lib.vkDestroyPipelineCache(self.core.handle, cache, ffi.NULL)


class Specialisation:
    """VkSpecializationInfo of the values given; the module's defaults serve for the rest."""

    def __init__(self, compiled, spec: Mapping[str, Any]):
        chosen = [c for c in compiled.reflection.spec_constants if c.name in spec]
        self.info = ffi.NULL
        if not chosen:
            return
        data, entries = b"", []
        for constant in chosen:
            raw = pack_constant(compiled.name, constant.name, constant.type, spec[constant.name])
            entries.append({"constantID": constant.id, "offset": len(data), "size": len(raw)})
            data += raw
        self._data = ffi.new("uint8_t[]", data)
        self._entries = ffi.new("VkSpecializationMapEntry[]", entries)
        self.info = ffi.new("VkSpecializationInfo *", {
            "mapEntryCount": len(entries), "pMapEntries": self._entries, "dataSize": len(data),
            "pData": ffi.cast("void *", self._data)})
