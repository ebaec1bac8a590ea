"""Device memory: buffers are placed in blocks of one memory type; a large buffer gets a block of its own.

Source: Vulkan specification, chapter "Memory Allocation"; VK_EXT_memory_budget.
"""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.vk import _supplement as K
from runtime.vk.binding import ffi, lib, new
from runtime.vk.core import Core
from runtime.vk.errors import VulkanError
from runtime.vk.freelist import FreeList

BLOCK_BYTES = 64 << 20
# A buffer above this share of a block gets its own memory.
LARGE_BYTES = 16 << 20
# Every placement starts at a multiple of this, whatever the driver asks, so that vector loads of any width are aligned.
ALIGNMENT = 256
# lavapipe 26.1 loads one loop stride past the end of an array through device addresses; GPUs do not.
CPU_TAIL_BYTES = 1 << 20

DEVICE_LOCAL = K.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
HOST = K.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | K.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
CACHED = K.VK_MEMORY_PROPERTY_HOST_CACHED_BIT
# Memory kinds that a plain buffer must not get.
SPECIAL = K.VK_MEMORY_PROPERTY_PROTECTED_BIT | K.VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT


@dataclass(frozen=True)
class MemoryBudget:
    """The device-local heap in bytes. budget: what this process may use now; used: what it uses."""

    size: int
    budget: int
    used: int


def choose_type(flags: Sequence[int], allowed_bits: int, required: int, preferred: int, avoided: int) -> int | None:
    """Index of the first memory type with all required flags and the best of preferred minus avoided; or None."""
    best, best_score = None, None
    for i, have in enumerate(flags):
        if not allowed_bits >> i & 1 or have & required != required or have & SPECIAL:
            continue
        score = (have & preferred).bit_count() - (have & avoided).bit_count()
        if best_score is None or score > best_score:
            best, best_score = i, score
    return best


class Block:
    """One VkDeviceMemory. address: where it is mapped, 0 when it is not."""

    def __init__(self, core: Core, type_index: int, size: int, usable: int, mapped: bool):
        self.type_index = type_index
        self.free = FreeList(usable)
        flags = new("VkMemoryAllocateFlagsInfo", flags=K.VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT)
        info = new("VkMemoryAllocateInfo", allocationSize=size, memoryTypeIndex=type_index)
        if core.caps.has("bufferDeviceAddress"):
            info.pNext = ffi.cast("void *", flags)
        out = ffi.new("VkDeviceMemory *")
        core.check(lib.vkAllocateMemory(core.handle, info, ffi.NULL, out), f"allocating {size} bytes of device memory")
        self.handle = out[0]
        self.token = core.own(lib.vkFreeMemory, self.handle)
        self.address = 0
        if mapped:
            pointer = ffi.new("void **")
            core.check(lib.vkMapMemory(core.handle, self.handle, 0, K.VK_WHOLE_SIZE, 0, pointer), "vkMapMemory")
            self.address = int(ffi.cast("uintptr_t", pointer[0]))


class Allocation:
    """A range of a block. Goes back when the last reference is gone (a mapped view counts as one)."""

    __slots__ = ("_returned", "address", "block", "offset", "size")

    def __init__(self, block: Block, offset: int, size: int, returned: deque):
        self.block, self.offset, self.size = block, offset, size
        self.address = block.address + offset if block.address else 0
        self._returned = returned

    def __del__(self):
        # A finaliser may interrupt allocate(); the range is taken back at the next allocation.
        self._returned.append((self.block, self.offset, self.size))


class Memory:
    """Places buffers in memory. force_staging: device buffers are never mapped, as on a discrete card."""

    def __init__(self, core: Core, force_staging: bool):
        self._core = core
        properties = ffi.new("VkPhysicalDeviceMemoryProperties *")
        lib.vkGetPhysicalDeviceMemoryProperties(core.physical.handle, properties)
        self._flags = [properties.memoryTypes[i].propertyFlags for i in range(properties.memoryTypeCount)]
        self._heap_of = [properties.memoryTypes[i].heapIndex for i in range(properties.memoryTypeCount)]
        self._heap_sizes = [properties.memoryHeaps[i].size for i in range(properties.memoryHeapCount)]
        local = [i for i in range(properties.memoryHeapCount)
                 if properties.memoryHeaps[i].flags & K.VK_MEMORY_HEAP_DEVICE_LOCAL_BIT]
        # None: RADV's null device, which compiles without hardware, has no memory at all.
        self._local_heap = max(local, key=lambda i: self._heap_sizes[i], default=None)
        self._map_device = core.caps.unified_memory and not force_staging
        self._blocks: list[Block] = []
        self._returned: deque[tuple[Block, int, int]] = deque()
        self._lock = threading.Lock()
        self.used = 0  # bytes of VkDeviceMemory in the device-local heap

    def allocate(self, size: int, alignment: int, type_bits: int, host: bool) -> Allocation:
        """Memory for a buffer. host: mapped and coherent. Raises VulkanError when it cannot be had."""
        type_index = self._choose(type_bits, host)
        mapped = host or (self._map_device and self._flags[type_index] & HOST == HOST)
        alignment = max(alignment, ALIGNMENT)
        with self._lock:
            self._take_back()
            if size <= LARGE_BYTES:
                for block in self._blocks:
                    if block.type_index == type_index and bool(block.address) == mapped and block.free.size > 0:
                        offset = block.free.take(size, alignment)
                        if offset is not None:
                            return Allocation(block, offset, size, self._returned)
            block = self._new_block(size, type_index, mapped)
            return Allocation(block, block.free.take(size, alignment), size, self._returned)

    def _choose(self, type_bits: int, host: bool) -> int:
        if host:
            found = choose_type(self._flags, type_bits, HOST, CACHED, DEVICE_LOCAL)
        elif self._map_device:
            found = choose_type(self._flags, type_bits, DEVICE_LOCAL, HOST, 0)
        else:
            found = choose_type(self._flags, type_bits, DEVICE_LOCAL, 0, HOST)
        if found is None:
            raise VulkanError(f"device {self._core.caps.name} has no {'host-visible' if host else 'device-local'} "
                              "memory type for buffers: update its driver")
        return found

    def _new_block(self, size: int, type_index: int, mapped: bool) -> Block:
        caps = self._core.caps
        heap = self._heap_of[type_index]
        tail = CPU_TAIL_BYTES if caps.is_cpu else 0
        limit = min(caps.max_memory_allocation_size, self._heap_sizes[heap])
        if size + tail > limit:
            raise VulkanError(f"buffer of {size} bytes is over the device's maxMemoryAllocationSize or heap "
                              f"({limit - tail} bytes on {caps.name}): split it")
        usable = size if size > LARGE_BYTES else min(BLOCK_BYTES, limit - tail)
        block = Block(self._core, type_index, usable + tail, usable, mapped)
        self._blocks.append(block)
        if heap == self._local_heap:
            self.used += usable + tail
        return block

    def _take_back(self) -> None:
        while self._returned:
            block, offset, size = self._returned.popleft()
            block.free.give(offset, size)
            if block.free.empty and (block.free.size > BLOCK_BYTES or self._other_empty(block)):
                self._free_block(block)

    def _other_empty(self, block: Block) -> bool:
        return block.free.size < BLOCK_BYTES or any(
            b is not block and b.free.empty and b.type_index == block.type_index for b in self._blocks)

    def _free_block(self, block: Block) -> None:
        self._blocks.remove(block)
        if self._heap_of[block.type_index] == self._local_heap:
            self.used -= block.free.size + (CPU_TAIL_BYTES if self._core.caps.is_cpu else 0)
        self._core.destroy(block.token)

    def collect(self) -> None:
        """Give memory of dropped buffers back to the driver."""
        with self._lock:
            self._take_back()

    def budget(self) -> MemoryBudget:
        """State of the largest device-local heap; without VK_EXT_memory_budget the budget is the heap's size."""
        self.collect()
        if self._local_heap is None:
            return MemoryBudget(0, 0, 0)
        size = self._heap_sizes[self._local_heap]
        if "VK_EXT_memory_budget" not in self._core.caps.extensions:
            return MemoryBudget(size, size, self.used)
        head, budget = new("VkPhysicalDeviceMemoryProperties2"), new("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
        head.pNext = ffi.cast("void *", budget)
        lib.vkGetPhysicalDeviceMemoryProperties2(self._core.physical.handle, head)
        return MemoryBudget(size, budget.heapBudget[self._local_heap], budget.heapUsage[self._local_heap])
