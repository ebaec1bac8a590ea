"""Buffers on the device, ranges of them, and arrays with a shape on top.

A numpy view of a mapped buffer keeps the memory alive, not the device: after Device.close() it must not be touched.
"""
from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.vk import _supplement as K
from runtime.vk.binding import ffi, handle_int, lib, new
from runtime.vk.errors import VulkanError

if TYPE_CHECKING:
    from runtime.vk.device import Device

USAGE = (K.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | K.VK_BUFFER_USAGE_TRANSFER_DST_BIT | K.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
         | K.VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | K.VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT)


# VkDescriptorBufferInfo: handle, offset, range.
pack_info = struct.Struct("=3Q").pack


class Slice:
    """Bytes [offset, offset + size) of a buffer: what a binding takes."""

    __slots__ = ("buffer", "end", "info", "offset", "size")

    def __init__(self, buffer: Buffer, offset: int, size: int):
        if offset < 0 or size <= 0 or offset + size > buffer.size:
            raise VulkanError(f"range {offset}+{size} is empty or outside the buffer of {buffer.size} bytes")
        self.buffer, self.offset, self.size, self.end = buffer, offset, size, offset + size
        self.info = pack_info(buffer.handle_int, offset, size)

    @property
    def whole(self) -> Slice:
        """The slice itself; Buffer and Array have the same property."""
        return self

    def range(self, offset: int, nbytes: int) -> Slice:
        """A part of this slice; offset counts from its start."""
        if offset < 0 or offset + nbytes > self.size:
            raise VulkanError(f"range {offset}+{nbytes} is outside the slice of {self.size} bytes")
        return Slice(self.buffer, self.offset + offset, nbytes)

    def __repr__(self) -> str:
        return f"Slice({self.offset}+{self.size} of {self.buffer.size})"


class Buffer:
    """A storage, uniform, transfer and indirect buffer.

    size: bytes. mapped: a writable uint8 view of the memory where the host sees it, else None. handle: the VkBuffer.
    Made by Device.buffer. Memory goes back when the last reference is gone and the device has finished with it.
    """

    def __init__(self, device: Device, nbytes: int, host: bool):
        core = device.core
        nbytes = int(nbytes)
        if nbytes <= 0:
            raise VulkanError(f"a buffer needs at least 1 byte, not {nbytes}")
        # Fills work in words, and a 16-byte load of the last element must stay inside.
        padded = -(-nbytes // 16) * 16
        if padded > core.caps.max_buffer_size:
            raise VulkanError(f"buffer of {nbytes} bytes is over maxBufferSize ({core.caps.max_buffer_size} bytes on "
                              f"{core.caps.name}): split it")
        usage = USAGE | (K.VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT if core.caps.has("bufferDeviceAddress") else 0)
        out = ffi.new("VkBuffer *")
        info = new("VkBufferCreateInfo", size=padded, usage=usage, sharingMode=K.VK_SHARING_MODE_EXCLUSIVE)
        core.check(lib.vkCreateBuffer(core.handle, info, ffi.NULL, out), f"vkCreateBuffer of {nbytes} bytes")
        self.device, self.size, self.padded, self.host = device, nbytes, padded, host
        self.handle = out[0]
        self.handle_int = handle_int(out[0])
        self._token = core.own(lib.vkDestroyBuffer, out[0])
        needs = ffi.new("VkMemoryRequirements *")
        lib.vkGetBufferMemoryRequirements(core.handle, self.handle, needs)
        self._allocation = device.memory_pool.allocate(needs.size, needs.alignment, needs.memoryTypeBits, host)
        block = self._allocation.block
        core.check(lib.vkBindBufferMemory(core.handle, self.handle, block.handle, self._allocation.offset),
                   "vkBindBufferMemory")
        self.mapped = self._view() if self._allocation.address else None
        self.whole = Slice(self, 0, nbytes)
        self._address = 0

    def _view(self) -> np.ndarray:
        allocation = self._allocation
        pointer = ffi.cast("uint8_t *", allocation.address)
        # The pointer's destructor holds the allocation: a view that outlives the Buffer still reads valid memory.
        held = ffi.gc(pointer, lambda _pointer, _keep=allocation: None)
        return np.frombuffer(ffi.buffer(held, self.size), np.uint8)

    def range(self, offset: int, nbytes: int) -> Slice:
        """Bytes [offset, offset + nbytes). Raises VulkanError when that is empty or outside."""
        return Slice(self, offset, nbytes)

    @property
    def address(self) -> int:
        """The buffer's device address. Raises MissingFeature without bufferDeviceAddress."""
        if not self._address:
            core = self.device.core
            self.device.require("bufferDeviceAddress", "Buffer.address")
            info = new("VkBufferDeviceAddressInfo", buffer=self.handle)
            self._address = lib.vkGetBufferDeviceAddress(core.handle, info)
        return self._address

    @property
    def freed(self) -> bool:
        """Whether free() has been called."""
        return not self._token

    def free(self) -> None:
        """Let go now instead of when the last reference is gone. The buffer must not be used afterwards."""
        if self._token:
            token, self._token = self._token, 0
            self.mapped = None
            self.device.core.release(token, self._allocation)
            self._allocation = None

    def __del__(self):
        # A constructor that raised has no token or allocation.
        if getattr(self, "_token", 0):
            self.device.core.release(self._token, getattr(self, "_allocation", None))

    def __repr__(self) -> str:
        return f"Buffer({self.size} bytes{', host' if self.host else ''})"


class Array:
    """An array in device memory: shape, dtype, and the buffer bytes from `offset` on. Made by Device.array or empty."""

    __slots__ = ("buffer", "dtype", "nbytes", "offset", "shape", "whole")

    def __init__(self, buffer: Buffer, offset: int, shape: tuple[int, ...], dtype: Any):
        self.buffer, self.offset, self.dtype = buffer, offset, np.dtype(dtype)
        self.shape = tuple(int(n) for n in shape)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.whole = Slice(buffer, offset, self.nbytes)

    @property
    def device(self) -> Device:
        """The device that holds the array."""
        return self.buffer.device

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def range(self, offset: int, nbytes: int) -> Slice:
        """Bytes of the array; offset counts from its start."""
        return self.whole.range(offset, nbytes)

    def numpy(self) -> np.ndarray:
        """A copy of the contents, after all recorded and submitted work has finished."""
        raw = self.device.download(self.buffer, self.offset, self.nbytes)
        return raw.view(self.dtype).reshape(self.shape)

    def write(self, values: np.ndarray) -> None:
        """Replace the contents. values: same number of bytes."""
        values = np.ascontiguousarray(values, self.dtype)
        if values.nbytes != self.nbytes:
            raise VulkanError(f"array of shape {self.shape} cannot take values of shape {values.shape}")
        self.device.upload(self.buffer, self.offset, values)

    def __repr__(self) -> str:
        return f"Array(shape={self.shape}, dtype={self.dtype})"
