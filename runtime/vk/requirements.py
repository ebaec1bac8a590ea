"""What a kernel needs against what a device has: every difference is named before the driver sees the module.

Several drivers do not enforce their own limits (lavapipe runs 81,920 groups and 320 MiB bindings; NVIDIA accepts more
workgroup memory than it has and loses the device), so each limit is checked here.
"""
from __future__ import annotations

import math
from collections.abc import Mapping

from runtime.vk.buffer import Slice
from runtime.vk.caps import Capabilities
from runtime.vk.errors import MissingFeature, VulkanError

ACCESSES = ("in", "out", "inout")
KINDS = ("storage", "uniform")


def refuse(caps: Capabilities, kernel: str, needs: str, remedy: str) -> None:
    """Raise MissingFeature in the common form."""
    raise MissingFeature(f"kernel {kernel} needs {needs} on {caps.name}: {remedy}")


def check_kernel(caps: Capabilities, kernel: str, reflection) -> None:
    """Raise MissingFeature for the first need of a compiled kernel's Reflection that the device does not meet."""
    lacking = [name for name in reflection.features if name not in caps.features]
    if lacking:
        refuse(caps, kernel, f"{', '.join(lacking)}, which the device does not have", "use another arm or device")
    version = tuple(int(part) for part in reflection.spirv_version.split("."))
    if version > caps.spirv_version:
        refuse(caps, kernel, f"SPIR-V {reflection.spirv_version}, over the device's "
                             f"{caps.spirv_version[0]}.{caps.spirv_version[1]}", "update the driver")
    _check_workgroup(caps, kernel, reflection)
    _check_matrices(caps, kernel, reflection)
    _check_interface(caps, kernel, reflection)


def _check_workgroup(caps: Capabilities, kernel: str, reflection) -> None:
    size = reflection.workgroup_size
    for axis, (have, limit) in enumerate(zip(size, caps.max_workgroup_size, strict=True)):
        if not 0 < have <= limit:
            refuse(caps, kernel, f"workgroup size {have} in dimension {axis}, over maxComputeWorkGroupSize {limit}",
                   "use a smaller workgroup")
    invocations = math.prod(size)
    if invocations > caps.max_workgroup_invocations:
        refuse(caps, kernel, f"{invocations} invocations a workgroup, over maxComputeWorkGroupInvocations "
                             f"{caps.max_workgroup_invocations}", "use a smaller workgroup")
    if reflection.workgroup_bytes > caps.max_workgroup_bytes:
        refuse(caps, kernel, f"{reflection.workgroup_bytes} bytes of workgroup memory, over "
                             f"maxComputeSharedMemorySize {caps.max_workgroup_bytes}", "use a smaller tile")
    lanes = reflection.subgroup_size
    if lanes is None:
        return
    if not caps.required_subgroup_size and lanes != caps.subgroup_size:
        refuse(caps, kernel, f"subgroup size {lanes}, but the device has {caps.subgroup_size} and no "
                             "subgroupSizeControl", "use a stamp for that size")
    if not caps.min_subgroup_size <= lanes <= caps.max_subgroup_size or lanes & (lanes - 1):
        refuse(caps, kernel, f"subgroup size {lanes}, outside {caps.min_subgroup_size}..{caps.max_subgroup_size}",
               "use a stamp for a size the device has")
    if invocations > lanes * caps.max_compute_subgroups:
        refuse(caps, kernel, f"{-(-invocations // lanes)} subgroups a workgroup, over maxComputeWorkgroupSubgroups "
                             f"{caps.max_compute_subgroups}", "use a smaller workgroup")


def _check_matrices(caps: Capabilities, kernel: str, reflection) -> None:
    """Cooperative matrices: products and types are on the device's list, subgroups are whole (Vulkan's RuntimeSpirv rules)."""
    listed = "it lists " + (", ".join(dict.fromkeys(f"{s.m}x{s.n}x{s.k} {s.a}*{s.b}+{s.c}" for s in caps.coop_matrices)) or "none")
    for p in reflection.products:
        if not any(_same_product(p, s) for s in caps.coop_matrices):
            refuse(caps, kernel, f"the matrix product {p.m}x{p.n}x{p.k} {p.a}*{p.b}+{p.c}->{p.result}"
                                 f"{' saturating' if p.saturating else ''} per {p.scope}, which the device does not list",
                   f"use a stamp for a shape the device has ({listed})")
    for m in reflection.matrices:
        if not any((m.component, m.rows, m.cols, m.scope) in _operands(m.use, s) for s in caps.coop_matrices):
            refuse(caps, kernel, f"a {m.use} of {m.rows}x{m.cols} {m.component} per {m.scope}, which no shape of the "
                                 "device has", f"use a stamp for a shape the device has ({listed})")
    lanes = reflection.subgroup_size or caps.subgroup_size
    if reflection.matrices and reflection.workgroup_size[0] % lanes:
        refuse(caps, kernel, f"whole subgroups for its matrices, and its {reflection.workgroup_size[0]} lanes in x are no "
                             f"multiple of {lanes}", "use a workgroup size that is")


def _same_product(p, shape) -> bool:
    return all(getattr(p, name) == getattr(shape, name) for name in ("m", "n", "k", "a", "b", "c", "result", "scope", "saturating"))


def _operands(use: str, s) -> tuple[tuple[str, int, int, str], ...]:
    """(component, rows, columns, scope) of the matrices of one use in a listed shape."""
    return {"MatrixA": ((s.a, s.m, s.k, s.scope),), "MatrixB": ((s.b, s.k, s.n, s.scope),),
            "MatrixAcc": ((s.c, s.m, s.n, s.scope), (s.result, s.m, s.n, s.scope))}[use]


def _check_interface(caps: Capabilities, kernel: str, reflection) -> None:
    if reflection.push_bytes > caps.max_push_bytes:
        refuse(caps, kernel, f"{reflection.push_bytes} bytes of push constants, over maxPushConstantsSize "
                             f"{caps.max_push_bytes}", "pass a buffer instead")
    kinds = [b.kind for b in reflection.bindings]
    for kind, limit in (("storage", caps.max_storage_bindings), ("uniform", caps.max_uniform_bindings)):
        if kinds.count(kind) > limit:
            refuse(caps, kernel, f"{kinds.count(kind)} {kind} buffers, over the device's {limit}", "use fewer bindings")
    for b in reflection.bindings:
        if b.set != 0 or b.kind not in KINDS or b.access not in ACCESSES:
            raise VulkanError(f"kernel {kernel}: binding {b.name} (set {b.set}, kind {b.kind}, access {b.access}) is "
                              "not supported: bindings are storage or uniform buffers of set 0, in, out or inout")
    numbers = [b.binding for b in reflection.bindings]
    if len(set(numbers)) != len(numbers):
        raise VulkanError(f"kernel {kernel}: two bindings share a number in {numbers}: number them apart")


def check_spec(kernel: str, reflection, spec: Mapping[str, object]) -> None:
    """Raise VulkanError for a value given to a specialisation constant that the kernel does not have."""
    known = [c.name for c in reflection.spec_constants]
    for name in spec:
        if name not in known:
            raise VulkanError(f"kernel {kernel} has no specialisation constant {name!r}: it has [{', '.join(known)}]")


def check_binding(caps: Capabilities, kernel: str, binding, piece: Slice) -> None:
    """Raise VulkanError when a range breaks the alignment or size rules of its binding."""
    storage = binding.kind == "storage"
    align = caps.min_storage_buffer_offset_alignment if storage else caps.min_uniform_buffer_offset_alignment
    limit = caps.max_storage_buffer_range if storage else caps.max_uniform_buffer_range
    if piece.offset % align:
        raise VulkanError(f"kernel {kernel}, binding {binding.name}: offset {piece.offset} is no multiple of the "
                          f"device's {binding.kind} buffer alignment {align}: place the range at a multiple of it")
    if piece.size > limit:
        name = "maxStorageBufferRange" if storage else "maxUniformBufferRange"
        raise VulkanError(f"kernel {kernel}, binding {binding.name}: {piece.size} bytes are over {name} {limit} of "
                          f"{caps.name}: bind it in shards")


def check_groups(caps: Capabilities, kernel: str, groups: tuple[int, int, int]) -> None:
    """Raise VulkanError for a grid that is no triple of counts within maxComputeWorkGroupCount."""
    if len(groups) != 3 or any(not isinstance(g, int) for g in groups):
        raise VulkanError(f"kernel {kernel}: groups must be three ints, not {groups!r}")
    for axis, (count, limit) in enumerate(zip(groups, caps.max_workgroup_count, strict=True)):
        if not 0 <= count <= limit:
            raise VulkanError(f"kernel {kernel}: {count} workgroups in dimension {axis} are not in 0..{limit} "
                              "(maxComputeWorkGroupCount): use another dimension or loop in the kernel")
