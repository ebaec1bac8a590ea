#!/usr/bin/env python3
"""List the Vulkan devices of this machine with nothing but the standard library.

Setup runs it before anything is installed, so it may import neither numpy nor the `vulkan` package. It prints one line
a device, `index<TAB>type<TAB>api version<TAB>name`, and exits 0 if there is at least one; else it prints the reason in
one line on stderr and exits 1. Structures: Vulkan specification, VkInstanceCreateInfo and VkPhysicalDeviceProperties.
"""

from __future__ import annotations

import ctypes
import struct
import sys

DEVICE_TYPES = ("other", "integrated", "discrete", "virtual", "cpu")  # VkPhysicalDeviceType, in value order
API_VERSION_1_1 = (1 << 22) | (1 << 12)
PROPERTIES_BYTES = 4096  # VkPhysicalDeviceProperties takes 824 bytes on 64-bit systems; room to spare costs nothing


class ApplicationInfo(ctypes.Structure):
    _fields_ = [
        ("sType", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("pApplicationName", ctypes.c_char_p),
        ("applicationVersion", ctypes.c_uint32),
        ("pEngineName", ctypes.c_char_p),
        ("engineVersion", ctypes.c_uint32),
        ("apiVersion", ctypes.c_uint32),
    ]


class InstanceCreateInfo(ctypes.Structure):
    _fields_ = [
        ("sType", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("pApplicationInfo", ctypes.POINTER(ApplicationInfo)),
        ("enabledLayerCount", ctypes.c_uint32),
        ("ppEnabledLayerNames", ctypes.c_void_p),
        ("enabledExtensionCount", ctypes.c_uint32),
        ("ppEnabledExtensionNames", ctypes.c_void_p),
    ]


class ProbeError(Exception):
    """Why no device could be listed, in one line."""


def devices() -> list[tuple[str, str, str]]:
    """Every physical device as (type, api version, name), in the loader's order. Raises ProbeError."""
    try:
        vk = ctypes.CDLL("libvulkan.so.1")
    except OSError as error:
        raise ProbeError(f"no Vulkan loader: {error}") from None
    application = ApplicationInfo(sType=0, apiVersion=API_VERSION_1_1)
    create = InstanceCreateInfo(sType=1, pApplicationInfo=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    result = vk.vkCreateInstance(ctypes.byref(create), None, ctypes.byref(instance))
    if result != 0:
        raise ProbeError(f"vkCreateInstance failed with VkResult {result} (-9 means that no driver is installed)")
    try:
        count = ctypes.c_uint32()
        result = vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        if result != 0:
            raise ProbeError(f"vkEnumeratePhysicalDevices failed with VkResult {result}")
        handles = (ctypes.c_void_p * count.value)()
        vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
        return [properties(vk, handle) for handle in handles[: count.value] if handle]
    finally:
        vk.vkDestroyInstance(instance, None)


def properties(vk: ctypes.CDLL, handle: int) -> tuple[str, str, str]:
    """(type, api version, name) of one physical device."""
    raw = ctypes.create_string_buffer(PROPERTIES_BYTES)
    vk.vkGetPhysicalDeviceProperties(ctypes.c_void_p(handle), raw)
    api, _driver, _vendor, _device, kind = struct.unpack_from("<5I", raw, 0)
    name = raw[20 : 20 + 256].split(b"\0", 1)[0].decode(errors="replace")
    version = f"{(api >> 22) & 0x7F}.{(api >> 12) & 0x3FF}.{api & 0xFFF}"
    return DEVICE_TYPES[kind] if kind < len(DEVICE_TYPES) else "other", version, name


def main() -> int:
    try:
        found = devices()
    except ProbeError as error:
        print(f"probe.py: {error}", file=sys.stderr)
        return 1
    for index, (kind, version, name) in enumerate(found):
        print(index, kind, version, name, sep="\t")
    if not found:
        print("probe.py: the Vulkan loader is there, but no driver offers a device", file=sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
