"""Timestamps of a command buffer.

Source: Vulkan specification, chapter "Queries". Marks are written at the end of all earlier work; on some drivers that
drains the pipe, so a profile's rows add up to more than the unprofiled time.
"""
from __future__ import annotations

from runtime.vk import _supplement as K
from runtime.vk.binding import ffi, lib, new
from runtime.vk.core import Core
from runtime.vk.errors import VulkanError

POOL_QUERIES = 256


class Timestamps:
    """Labelled marks of one command recorder; query pools grow as needed."""

    def __init__(self, core: Core):
        self._core = core
        self._pools: list = []
        self._tokens: list[int] = []
        self.labels: list[str] = []

    def write(self, command_buffer, label: str) -> int:
        """Record a mark. Returns the number of vkCmd* calls made. Raises VulkanError where the queue has no clock."""
        core = self._core
        if not core.caps.timestamp_valid_bits:
            raise VulkanError(f"device {core.caps.name} has no timestamps on its compute queue: do not ask for timings")
        pool_index, query = divmod(len(self.labels), POOL_QUERIES)
        if pool_index == len(self._pools):
            out = ffi.new("VkQueryPool *")
            info = new("VkQueryPoolCreateInfo", queryType=K.VK_QUERY_TYPE_TIMESTAMP, queryCount=POOL_QUERIES)
            core.check(lib.vkCreateQueryPool(core.handle, info, ffi.NULL, out), "vkCreateQueryPool")
            self._pools.append(out[0])
            self._tokens.append(core.own(lib.vkDestroyQueryPool, out[0]))
        pool, calls = self._pools[pool_index], 1
        if query == 0:
            # Recorded, not done by the host: a resubmitted command buffer must reset its queries itself.
            lib.vkCmdResetQueryPool(command_buffer, pool, 0, POOL_QUERIES)
            calls = 2
        lib.vkCmdWriteTimestamp(command_buffer, K.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, query)
        self.labels.append(label)
        return calls

    def read(self) -> list[tuple[str, float]]:
        """(label, microseconds since the mark before it) of the last run; the first mark has 0.0.

        Raises VulkanError when the command buffer has not run to its end since it was recorded.
        """
        core, ticks = self._core, []
        for index, pool in enumerate(self._pools):
            count = min(len(self.labels) - index * POOL_QUERIES, POOL_QUERIES)
            if count <= 0:
                break
            data = ffi.new("uint64_t[]", count)
            result = lib.vkGetQueryPoolResults(core.handle, pool, 0, count, count * 8, data, 8,
                                               K.VK_QUERY_RESULT_64_BIT)
            if result == K.VK_NOT_READY:
                raise VulkanError("timings are not ready: submit the commands and wait for them first")
            core.check(result, "vkGetQueryPoolResults")
            ticks += list(data)
        mask = (1 << core.caps.timestamp_valid_bits) - 1
        us = core.caps.timestamp_period_ns / 1000.0
        before = [ticks[0], *ticks] if ticks else []
        return [(label, ((now - then) & mask) * us)
                for label, now, then in zip(self.labels, ticks, before, strict=False)]

    def reset(self) -> None:
        """Forget the marks; the pools stay."""
        self.labels.clear()

    def release(self) -> None:
        """Destroy the pools once the device has finished with them."""
        for token in self._tokens:
            self._core.release(token)
        self._tokens.clear()
        self._pools.clear()
        self.labels.clear()
