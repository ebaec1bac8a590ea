"""The logical device: VkDevice and its queue, ownership of Vulkan objects, the failure state, and call counters."""
from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from typing import Any

from runtime.vk.binding import chain, check, ffi, lib, new
from runtime.vk.caps import Capabilities, choose_queue_family, read_capabilities
from runtime.vk.errors import DeviceLost, VulkanError
from runtime.vk.features import enabling_chain
from runtime.vk.instance import Instance, PhysicalDevice


@dataclass
class Counters:
    """Calls since the device was made: vkBeginCommandBuffer, vkCmd*, vkQueueSubmit, and barriers derived."""

    begin_command_buffer: int = 0
    cmd_calls: int = 0
    submits: int = 0
    barriers: int = 0


class Core:
    """VkDevice with one compute queue.

    Children (buffers, pools, pipelines ...) are registered with `own`; `release` destroys one when the work submitted
    so far has finished, and is safe from a finaliser in any thread. `close` destroys what is left.
    """

    def __init__(self, instance: Instance, physical: PhysicalDevice):
        self.instance = instance
        self.physical = physical
        self.caps: Capabilities = read_capabilities(
            instance.handle, physical.handle, choose_queue_family(physical.handle))
        self.counters = Counters()
        self.failure: VulkanError | None = None
        self.closed = False
        self.submitted = 0  # last timeline value handed to the queue; written by Timeline
        self.handle = self._create_device()
        queue = ffi.new("VkQueue *")
        lib.vkGetDeviceQueue(self.handle, self.caps.queue_family, 0, queue)
        self.queue = queue[0]
        self._children: dict[int, tuple[Any, Any]] = {}
        self._tokens = itertools.count(1)
        self._released: deque[tuple[int, int, Any]] = deque()

    def _create_device(self):
        caps = self.caps
        structs, extensions = enabling_chain(caps.api_version[:2], caps.extensions, caps.features)
        following = chain(structs)
        priority = ffi.new("float[]", [1.0])
        queue = new("VkDeviceQueueCreateInfo", queueFamilyIndex=caps.queue_family, queueCount=1,
                    pQueuePriorities=priority)
        names = [ffi.new("char[]", name.encode()) for name in extensions]
        name_array = ffi.new("char *[]", names)
        info = new("VkDeviceCreateInfo", pNext=following, queueCreateInfoCount=1, pQueueCreateInfos=queue,
                   enabledExtensionCount=len(names), ppEnabledExtensionNames=name_array)
        handle = ffi.new("VkDevice *")
        check(lib.vkCreateDevice(self.physical.handle, info, ffi.NULL, handle),
              f"vkCreateDevice on {caps.name}")
        return handle[0]

    # -- failure ----------------------------------------------------------------------------------------------------

    def alive(self) -> None:
        """Raise when the device has failed or is closed. First line of every public operation."""
        if self.failure is not None:
            raise type(self.failure)(str(self.failure))
        if self.closed:
            raise VulkanError(f"device {self.caps.name} is closed: create a new Device")

    def fail(self, error: VulkanError) -> None:
        """Remember the error, so that every later call raises it at once, and raise it."""
        self.failure = self.failure or error
        raise error

    def check(self, result: int, what: str) -> None:
        """Like binding.check; a lost device is remembered."""
        if result < 0:
            try:
                check(result, f"{what} on {self.caps.name}")
            except DeviceLost as error:
                self.fail(error)

    # -- ownership --------------------------------------------------------------------------------------------------

    def own(self, destroy, handle) -> int:
        """Register a child; destroy(device, handle, NULL) ends it. Returns its token."""
        token = next(self._tokens)
        self._children[token] = (destroy, handle)
        return token

    def destroy(self, token: int) -> None:
        """Destroy a child now. The caller knows that the device no longer uses it."""
        child = self._children.pop(token, None)
        if child is not None:
            child[0](self.handle, child[1], ffi.NULL)

    def release(self, token: int, keep: Any = None) -> None:
        """Destroy a child once everything submitted so far has finished; `keep` is held until then."""
        # deque.append is atomic: finalisers may run in any thread, or in the middle of reap().
        self._released.append((self.submitted, token, keep))

    def reap(self, completed: int) -> None:
        """Destroy the released children that the device has finished with. Called by the thread that submits."""
        while self._released and self._released[0][0] <= completed:
            _, token, _keep = self._released.popleft()
            self.destroy(token)

    def close(self, idle: bool) -> None:
        """Destroy the children, newest first, and the device. With idle False (work still running) leak them."""
        self.closed = True
        if idle:
            self._released.clear()
            for token in sorted(self._children, reverse=True):
                self.destroy(token)
            lib.vkDestroyDevice(self.handle, ffi.NULL)
