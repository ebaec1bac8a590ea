"""Submission and waiting: one timeline semaphore counts the submits, and every wait is bounded.

Source: Vulkan specification, chapters "Command Buffer Submission" and "Timeline Semaphores".
"""
from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from runtime.vk import _supplement as K
from runtime.vk.binding import ffi, lib, new
from runtime.vk.core import Core
from runtime.vk.errors import VulkanError

# A wait is cut into pieces of this length so that Ctrl-C is noticed.
SLICE_NS = 200_000_000


class Timeline:
    """Submits get the values 1, 2, 3 ... in queue order; `wait(v)` returns when submit v has finished."""

    def __init__(self, core: Core, timeout_s: float):
        self._core = core
        self.timeout_s = timeout_s
        self._semaphores = ffi.new("VkSemaphore[1]")
        self._created = False
        self._completed = 0
        self._in_flight: deque[tuple[int, Any]] = deque()
        self._lock = threading.RLock()
        # Looked up once, and replaceable by tests that fake a lost device.
        self._queue_submit = lib.vkQueueSubmit
        self._wait_semaphores = lib.vkWaitSemaphores
        self._counter_value = lib.vkGetSemaphoreCounterValue
        self._prepare_structs()

    def _create(self) -> None:
        """Make the semaphore, at the first submit: drivers without hardware (RADV's null device) cannot."""
        core = self._core
        kind = new("VkSemaphoreTypeCreateInfo", semaphoreType=K.VK_SEMAPHORE_TYPE_TIMELINE, initialValue=0)
        info = new("VkSemaphoreCreateInfo", pNext=ffi.cast("void *", kind))
        core.check(lib.vkCreateSemaphore(core.handle, info, ffi.NULL, self._semaphores), "vkCreateSemaphore")
        core.own(lib.vkDestroySemaphore, self._semaphores[0])
        self._created = True

    def _prepare_structs(self) -> None:
        self._signal = ffi.new("uint64_t[1]")
        self._timeline_info = new("VkTimelineSemaphoreSubmitInfo", signalSemaphoreValueCount=1,
                                  pSignalSemaphoreValues=self._signal)
        self._submit_info = new("VkSubmitInfo", pNext=ffi.cast("void *", self._timeline_info),
                                signalSemaphoreCount=1, pSignalSemaphores=self._semaphores)
        self._wait_value = ffi.new("uint64_t[1]")
        self._wait_info = new("VkSemaphoreWaitInfo", semaphoreCount=1, pSemaphores=self._semaphores,
                              pValues=self._wait_value)
        self._counter = ffi.new("uint64_t *")
        self._wait_stage = ffi.new("VkPipelineStageFlags[1]", [K.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT])
        self._wait_for = ffi.new("uint64_t[1]")

    def submit(self, buffers, count: int, keep: Any, wait_for: int | None = None) -> int:
        """Submit `count` command buffers (a cffi array). `keep` is held until they finish. Returns their value."""
        core = self._core
        with self._lock:
            if not self._created:
                self._create()
            value = core.submitted + 1
            info, timeline = self._submit_info, self._timeline_info
            info.commandBufferCount, info.pCommandBuffers = count, buffers
            self._signal[0] = value
            if wait_for is None:
                info.waitSemaphoreCount = timeline.waitSemaphoreValueCount = 0
            else:
                if not 0 < wait_for < value:
                    raise VulkanError(f"submit cannot wait for timeline value {wait_for}: the last one is {value - 1}")
                self._wait_for[0] = wait_for
                info.waitSemaphoreCount = timeline.waitSemaphoreValueCount = 1
                info.pWaitSemaphores, info.pWaitDstStageMask = self._semaphores, self._wait_stage
                timeline.pWaitSemaphoreValues = self._wait_for
            result = self._queue_submit(core.queue, 1, info, ffi.NULL)
            if result:
                core.check(result, "vkQueueSubmit")
            core.submitted = value
            core.counters.submits += 1
            self._in_flight.append((value, keep))
        self.poll()
        return value

    def poll(self) -> int:
        """The last finished value, without waiting. Lets go of what finished submits kept alive."""
        if self._created:
            self._core.check(self._counter_value(self._core.handle, self._semaphores[0], self._counter),
                             "vkGetSemaphoreCounterValue")
            self._finished(self._counter[0])
        return self._completed

    def _finished(self, value: int) -> None:
        with self._lock:  # another thread may ask for the memory budget, which polls
            self._completed = max(self._completed, value)
            while self._in_flight and self._in_flight[0][0] <= self._completed:
                self._in_flight.popleft()
            self._core.reap(self._completed)

    def done(self, value: int) -> bool:
        """Whether submit `value` has finished. Never waits."""
        return value <= self._completed or value <= self.poll()

    def wait(self, value: int, timeout_s: float | None = None) -> None:
        """Block until submit `value` has finished.

        Raises VulkanError when the time is over (the device then counts as hung, and every later call raises), and
        DeviceLost when the driver says so.
        """
        core = self._core
        core.alive()
        if value <= self._completed:
            return
        if value > core.submitted:
            raise VulkanError(f"cannot wait for timeline value {value}: the last submitted is {core.submitted}")
        limit = self.timeout_s if timeout_s is None else timeout_s
        if not self.waited(value, limit):
            core.fail(VulkanError(f"device {core.caps.name} did not finish submit {value} within {limit:g} s and counts"
                                  " as hung: split the work, or raise RUNTIME_TIMEOUT_S"))

    def waited(self, value: int, limit_s: float) -> bool:
        """Wait at most limit_s; True when `value` has finished."""
        if value <= self._completed:
            return True
        deadline = time.monotonic() + limit_s
        self._wait_value[0] = value
        while True:
            left = int((deadline - time.monotonic()) * 1e9)
            result = self._wait_semaphores(self._core.handle, self._wait_info, min(max(left, 0), SLICE_NS))
            if result == K.VK_SUCCESS:
                self._finished(value)
                return True
            if result != K.VK_TIMEOUT:
                self._core.check(result, "vkWaitSemaphores")
            if left <= 0:
                return False


def command_buffer_array(handles: Iterable) -> Any:
    """A VkCommandBuffer array for Timeline.submit."""
    return ffi.new("VkCommandBuffer[]", list(handles))
