"""The raw Vulkan binding: PyPI `vulkan`'s cffi `lib` and `ffi`, plus the generated supplement, behind one door.

The package's Python wrappers are slow and in places wrong, so only its library handle and its C definitions are used;
constants and structure types come from our generated table (`K`), never from the package.
"""
from __future__ import annotations

from typing import Any

from runtime.vk import _supplement as K
from runtime.vk.errors import DeviceLost, VulkanError

try:
    from vulkan._vulkan import ffi, lib
except ImportError as error:
    raise VulkanError(f"PyPI package 'vulkan' cannot be imported ({error}): pip install vulkan") from None
except OSError:
    raise VulkanError("no Vulkan loader (libvulkan.so.1) on this system: install it (Debian: apt-get install "
                      "libvulkan1 mesa-vulkan-drivers)") from None

NULL = ffi.NULL


def check(result: int, what: str) -> None:
    """Raise for a negative VkResult; `what` names the operation in the message."""
    if result >= 0:
        return
    name = K.RESULT_NAMES.get(result, f"VkResult {result}")
    if result == K.VK_ERROR_DEVICE_LOST:
        raise DeviceLost(f"device lost ({name}) in {what}: create a new Device, or restart the program")
    if result in (K.VK_ERROR_OUT_OF_DEVICE_MEMORY, K.VK_ERROR_OUT_OF_HOST_MEMORY):
        raise VulkanError(f"out of memory ({name}) in {what}: free buffers or ask for less")
    raise VulkanError(f"{what} failed: {name}")


def new(name: str, **fields: Any):
    """A new struct `name` with its sType set. Pointers in fields must be kept alive by the caller."""
    owner = K.ffi if name in K.STRUCTS else ffi
    struct = owner.new(name + " *", fields)
    stype = K.STRUCTURE_TYPES.get(name)
    if stype is not None:
        struct.sType = stype
    return struct


def chain(structs: list) -> Any:
    """Link structs through pNext, in order; returns the first as `void *` (NULL when empty)."""
    following = NULL
    for struct in reversed(structs):
        # The supplement's structs belong to another FFI; void pointers cross between the two.
        struct.pNext = following
        following = ffi.cast("void *", struct)
    return following


def enumerate_all(function, item: str, *args: Any, what: str) -> list:
    """The count-then-fill idiom. Repeats when the count changed in between (VK_INCOMPLETE)."""
    owner = K.ffi if item in K.STRUCTS else ffi
    while True:
        count = ffi.new("uint32_t *")
        check(function(*args, count, NULL), what)
        if count[0] == 0:
            return []
        items = owner.new(f"{item}[]", count[0])
        stype = K.STRUCTURE_TYPES.get(item)
        if stype is not None:
            for i in range(count[0]):
                items[i].sType = stype
        result = function(*args, count, items)
        check(result, what)
        if result != K.VK_INCOMPLETE:
            # The array owns the memory of its items: keep it alive beside them.
            return Items(items, count[0])


class Items(list):
    """Elements of a C array, with the array itself kept alive."""

    def __init__(self, array: Any, count: int):
        super().__init__(array[i] for i in range(count))
        self.array = array


def instance_function(instance, name: str):
    """An instance-level function that the loader does not export. Raises when the driver lacks it."""
    return _cast_function(lib.vkGetInstanceProcAddr(instance, name.encode()), name)


def device_function(device, name: str):
    """A function of an enabled device extension. Raises when the driver lacks it."""
    return _cast_function(lib.vkGetDeviceProcAddr(device, name.encode()), name)


def _cast_function(address, name: str):
    if address == NULL:
        raise VulkanError(f"the Vulkan driver does not provide {name}, although it lists its extension: update it")
    try:
        return ffi.cast("PFN_" + name, address)
    except ffi.error:
        return K.ffi.cast("PFN_" + name, K.ffi.cast("void *", int(ffi.cast("uintptr_t", address))))


def text(chars) -> str:
    """A char array of a Vulkan struct as str."""
    return ffi.string(chars).decode("utf-8", "replace")


def handle_int(handle) -> int:
    """A Vulkan handle as an integer (0 for VK_NULL_HANDLE)."""
    return int(ffi.cast("uintptr_t", handle))
