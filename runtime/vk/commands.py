"""Recording: dispatches, copies, fills and timestamps, with the barriers that their ranges ask for.

Everything passed to Vulkan per command is prebuilt or reused, so that recording a dispatch costs a few microseconds.
A recorded Commands may be submitted any number of times; each submit ends with a barrier that makes its results
visible to the host and to whatever is submitted after it.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.vk import _supplement as K
from runtime.vk import hazards
from runtime.vk.binding import ffi, lib, new
from runtime.vk.buffer import Array, Buffer, Slice
from runtime.vk.errors import VulkanError
from runtime.vk.layout import DescriptorPools
from runtime.vk.pipeline import Pipeline
from runtime.vk.requirements import check_binding, check_groups
from runtime.vk.timing import Timestamps

if TYPE_CHECKING:
    from runtime.vk.device import Device

BIND_POINT = K.VK_PIPELINE_BIND_POINT_COMPUTE
COMPUTE_STAGE = K.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
DEVICE_STAGES = COMPUTE_STAGE | K.VK_PIPELINE_STAGE_TRANSFER_BIT | K.VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT
SHADER_ACCESS = K.VK_ACCESS_SHADER_READ_BIT | K.VK_ACCESS_SHADER_WRITE_BIT | K.VK_ACCESS_UNIFORM_READ_BIT
DEVICE_ACCESS = (SHADER_ACCESS | K.VK_ACCESS_TRANSFER_READ_BIT | K.VK_ACCESS_TRANSFER_WRITE_BIT
                 | K.VK_ACCESS_INDIRECT_COMMAND_READ_BIT)
DEVICE_WRITES = K.VK_ACCESS_SHADER_WRITE_BIT | K.VK_ACCESS_TRANSFER_WRITE_BIT


def _memory_barrier(source: int, target: int):
    return new("VkMemoryBarrier", srcAccessMask=source, dstAccessMask=target)


# (source stages, target stages, VkMemoryBarrier) by the kinds of hazards.py, and the one that ends a command buffer.
BARRIERS = {
    hazards.COMPUTE_ONLY: (COMPUTE_STAGE, COMPUTE_STAGE,
                           _memory_barrier(K.VK_ACCESS_SHADER_WRITE_BIT, SHADER_ACCESS)),
    hazards.FULL: (DEVICE_STAGES, DEVICE_STAGES, _memory_barrier(DEVICE_WRITES, DEVICE_ACCESS)),
}
FINAL_BARRIER = (DEVICE_STAGES, DEVICE_STAGES | K.VK_PIPELINE_STAGE_HOST_BIT,
                 _memory_barrier(DEVICE_WRITES, DEVICE_ACCESS | K.VK_ACCESS_HOST_READ_BIT))

Bindable = Slice | Buffer | Array


class Commands:
    """A command buffer being recorded, or recorded. Made by Device.commands; not for two threads at once.

    dispatches, barriers: how many were recorded. profile: a timestamp follows every command.
    """

    def __init__(self, device: Device, reusable: bool, profile: bool):
        self.device, self.reusable, self.profile = device, reusable, profile
        core = self._core = device.core
        self._counters = core.counters
        info = new("VkCommandPoolCreateInfo", queueFamilyIndex=core.caps.queue_family)
        out = ffi.new("VkCommandPool *")
        core.check(lib.vkCreateCommandPool(core.handle, info, ffi.NULL, out), "vkCreateCommandPool")
        self._pool = out[0]
        self._token = core.own(lib.vkDestroyCommandPool, self._pool)
        allocate = new("VkCommandBufferAllocateInfo", commandPool=self._pool, commandBufferCount=1,
                       level=K.VK_COMMAND_BUFFER_LEVEL_PRIMARY)
        self.handles = ffi.new("VkCommandBuffer[1]")
        core.check(lib.vkAllocateCommandBuffers(core.handle, allocate, self.handles), "vkAllocateCommandBuffers")
        self._buffer = self.handles[0]
        self._descriptors = DescriptorPools(core)
        self._timestamps = Timestamps(core)
        self._set_argument = ffi.new("VkDescriptorSet[1]")
        self._copy_region = ffi.new("VkBufferCopy *")
        self._begin()

    # -- life -------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        flags = (K.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT if self.reusable
                 else K.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)
        core = self._core
        core.check(lib.vkBeginCommandBuffer(self._buffer, new("VkCommandBufferBeginInfo", flags=flags)),
                   "vkBeginCommandBuffer")
        self._counters.begin_command_buffer += 1
        self.recording = True
        self.last_submit = 0
        self.dispatches = self.barriers = 0
        self._hazards = hazards.Hazards()
        self._sets_by_layout: dict = {}
        self._sets: dict = {}  # of the layout bound now
        self._kept: dict = {}  # pipelines and buffers, alive as long as the commands
        self._pipeline = self._layout = self._set = self._pushed = None
        if self.profile:
            self.timestamp("begin")

    def reset(self) -> None:
        """Start recording anew. The device must have finished with the earlier recording."""
        core = self._core
        core.alive()
        if not self.device.done(self.last_submit):
            raise VulkanError(f"commands of submit {self.last_submit} are still running: wait for it before reset()")
        core.check(lib.vkResetCommandPool(core.handle, self._pool, 0), "vkResetCommandPool")
        self._descriptors.reset()
        self._timestamps.reset()
        self._begin()

    def end(self) -> None:
        """Close the recording; it can now be submitted."""
        self._need_recording()
        self._emit(FINAL_BARRIER)
        self._core.check(lib.vkEndCommandBuffer(self._buffer), "vkEndCommandBuffer")
        self.recording = False

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, kind, _error, _trace) -> None:
        if kind is None:
            self.end()

    def __del__(self):
        token = getattr(self, "_token", 0)
        if token:
            self._descriptors.release()
            self._timestamps.release()
            self._core.release(token, self._kept)

    def _need_recording(self) -> None:
        self._core.alive()
        if not self.recording:
            raise VulkanError("these commands are closed: record before end(), or call reset() first")

    # -- commands ---------------------------------------------------------------------------------------------------

    def dispatch(self, pipe: Pipeline, bindings: Sequence[Bindable], push: bytes | Mapping | None = None,
                 groups: tuple[int, int, int] = (1, 1, 1), label: str | None = None) -> None:
        """Run a kernel. bindings: in the order of its reflection; push: packed bytes or {member: value}.

        groups: workgroup counts. Raises VulkanError for a limit that would be broken.
        """
        x, y, z = groups
        limit = self._core.caps.max_workgroup_count
        if not (0 <= x <= limit[0] and 0 <= y <= limit[1] and 0 <= z <= limit[2]):
            check_groups(self._core.caps, pipe.name, tuple(groups))
        self._prepare(pipe, bindings, push, None)
        lib.vkCmdDispatch(self._buffer, x, y, z)
        self._counters.cmd_calls += 1
        self.dispatches += 1
        if self.profile:
            self.timestamp(label or pipe.name)

    def dispatch_indirect(self, pipe: Pipeline, bindings: Sequence[Bindable], push: bytes | Mapping | None,
                          args: Bindable, label: str | None = None) -> None:
        """Run a kernel with the workgroup counts that three u32 at `args` hold. The device's limit is not checked."""
        args = args.whole
        if args.size < 12 or args.offset % 4:
            raise VulkanError(f"kernel {pipe.name}: indirect arguments need 12 bytes at a multiple of 4, not {args!r}")
        self._prepare(pipe, bindings, push, args)
        lib.vkCmdDispatchIndirect(self._buffer, args.buffer.handle, args.offset)
        self._counters.cmd_calls += 1
        self.dispatches += 1
        if self.profile:
            self.timestamp(label or pipe.name)

    def copy(self, source: Bindable, target: Bindable, label: str | None = None) -> None:
        """Copy bytes between ranges of equal size that do not overlap."""
        self._need_recording()
        source, target = source.whole, target.whole
        if source.size != target.size:
            raise VulkanError(f"copy of {source.size} bytes into a range of {target.size}: sizes must be equal")
        if source.buffer is target.buffer and source.offset < target.end and target.offset < source.end:
            raise VulkanError(f"copy within one buffer from {source!r} to {target!r} overlaps: use a second buffer")
        self._order((source, target), (hazards.READ, hazards.WRITE), hazards.TRANSFER)
        region = self._copy_region
        region.srcOffset, region.dstOffset, region.size = source.offset, target.offset, source.size
        lib.vkCmdCopyBuffer(self._buffer, source.buffer.handle, target.buffer.handle, 1, region)
        self._counters.cmd_calls += 1
        if self.profile:
            self.timestamp(label or "copy")

    def fill(self, target: Bindable, word: int, label: str | None = None) -> None:
        """Write the 32-bit word over a range. Offset and size: multiples of 4, or up to the end of the buffer."""
        self._need_recording()
        target = target.whole
        size = target.size if target.end < target.buffer.size else -(-target.size // 4) * 4
        if target.offset % 4 or size % 4 or not 0 <= word < 1 << 32:
            raise VulkanError(f"fill of {target!r} with {word:#x}: offset and size must be multiples of 4, the value a "
                              "u32")
        self._order((target,), (hazards.WRITE,), hazards.TRANSFER)
        lib.vkCmdFillBuffer(self._buffer, target.buffer.handle, target.offset, size, word)
        self._counters.cmd_calls += 1
        if self.profile:
            self.timestamp(label or "fill")

    def timestamp(self, label: str) -> None:
        """Mark the moment when all earlier commands have finished; see timings()."""
        self._need_recording()
        self._counters.cmd_calls += self._timestamps.write(self._buffer, label)

    def barrier(self) -> None:
        """Order everything before against everything after, for accesses by device address, which no binding names."""
        self._need_recording()
        self._emit(BARRIERS[hazards.FULL])
        self._hazards.cleared(hazards.FULL)

    def timings(self) -> list[tuple[str, float]]:
        """(label, microseconds since the mark before) of the last run; the first mark is the origin and has 0.0."""
        return self._timestamps.read()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _prepare(self, pipe: Pipeline, bindings: Sequence[Bindable], push: bytes | Mapping | None,
                 args: Slice | None) -> None:
        """Barrier, pipeline, descriptor set and push constants of a dispatch."""
        if not self.recording or self._core.failure is not None:
            self._need_recording()
        slices = [b if b.__class__ is Slice else b.whole for b in bindings]
        if len(slices) != len(pipe.modes):
            names = ", ".join(b.name for b in pipe.bindings)
            raise VulkanError(f"kernel {pipe.name} takes {len(pipe.modes)} bindings [{names}], got {len(slices)}")
        if push.__class__ is not bytes:
            push = pipe.push.from_mapping(push or {}) if push is None or isinstance(push, Mapping) else bytes(push)
        if len(push) != pipe.push.packed_bytes:
            push = self._padded(pipe, push)
        if pipe is not self._pipeline:
            self._bind_pipeline(pipe)
        key = b"".join([s.info for s in slices])
        chosen = self._sets.get(key)
        if chosen is None and key:
            chosen = self._new_set(pipe, slices, key)
        if self.device.paranoid:
            self._emit(BARRIERS[hazards.FULL])
            self._hazards.cleared(hazards.FULL)
            self.barriers += 1
        if args is None:
            self._order(slices, pipe.modes, hazards.COMPUTE)
        else:
            self._order([args, *slices], (hazards.READ, *pipe.modes), hazards.COMPUTE | hazards.INDIRECT)
        layout, calls = self._layout, 0
        if chosen is not self._set:
            self._set_argument[0] = self._set = chosen
            lib.vkCmdBindDescriptorSets(self._buffer, BIND_POINT, layout.pipeline_layout, 0, 1, self._set_argument, 0,
                                        ffi.NULL)
            calls = 1
        if push != self._pushed:
            lib.vkCmdPushConstants(self._buffer, layout.pipeline_layout, K.VK_SHADER_STAGE_COMPUTE_BIT, 0, len(push),
                                   ffi.from_buffer(push))
            self._pushed = push
            calls += 1
        if calls:
            self._counters.cmd_calls += calls

    def _bind_pipeline(self, pipe: Pipeline) -> None:
        if pipe.core is not self._core:
            raise VulkanError(f"kernel {pipe.name} was made for another device than the commands: make it there")
        lib.vkCmdBindPipeline(self._buffer, BIND_POINT, pipe.handle)
        self._counters.cmd_calls += 1
        self._pipeline = pipe
        self._kept[pipe] = None
        layout = pipe.layout
        if layout is not self._layout:
            # Sets and push constants of another layout are lost. No bindings: no set; no push bytes: nothing to push.
            self._layout, self._set, self._pushed = layout, None, b"" if not layout.push_bytes else None
            self._sets = self._sets_by_layout.setdefault(layout, {})

    @staticmethod
    def _padded(pipe: Pipeline, push: bytes) -> bytes:
        if len(push) != pipe.push.push_bytes:
            raise VulkanError(f"kernel {pipe.name} takes {pipe.push.push_bytes} bytes of push constants, got "
                              f"{len(push)}")
        return push.ljust(pipe.push.packed_bytes, b"\0")

    def _new_set(self, pipe: Pipeline, slices: list[Slice], key: bytes):
        """A descriptor set of these ranges, checked; found again by its key for the rest of the recording."""
        for binding, piece in zip(pipe.bindings, slices, strict=True):
            check_binding(self._core.caps, pipe.name, binding, piece)
        self._keep(slices)
        made = self._sets[key] = self._descriptors.allocate(pipe.layout)
        lib.vkUpdateDescriptorSetWithTemplate(self._core.handle, made, pipe.layout.template, ffi.from_buffer(key))
        return made

    def _keep(self, slices: Sequence[Slice]) -> None:
        """Hold the buffers as long as the commands; refuse those that the driver would choke on."""
        for piece in slices:
            if piece.buffer.device is not self.device:
                raise VulkanError(f"{piece!r} belongs to another device than the commands: copy it through the host")
            if piece.buffer.freed:
                raise VulkanError(f"{piece!r} has been freed: make a new buffer")
            self._kept[piece.buffer] = None

    def _order(self, slices: Sequence[Slice], modes: Sequence[int], stage: int) -> None:
        """Set the barrier that the next command needs, if any."""
        if stage != hazards.COMPUTE:
            self._keep(slices)
        kind = self._hazards.enter(slices, modes, stage)
        if kind:
            self._counters.barriers += 1
            self.barriers += 1
            if self._counters.barriers != self.device.dropped_barrier:
                self._emit(BARRIERS[kind])

    def _emit(self, barrier: tuple) -> None:
        source, target, memory = barrier
        lib.vkCmdPipelineBarrier(self._buffer, source, target, 0, 1, memory, 0, ffi.NULL, 0, ffi.NULL)
        self._counters.cmd_calls += 1
