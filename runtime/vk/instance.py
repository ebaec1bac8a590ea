"""The process's one Vulkan instance and its physical devices."""
from __future__ import annotations

import atexit
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any

from runtime.vk import _supplement as K
from runtime.vk import validation
from runtime.vk.binding import check, enumerate_all, ffi, lib, new, text
from runtime.vk.caps import DEVICE_TYPES, choose_queue_family, list_extensions, query_features, unpack_version
from runtime.vk.errors import VulkanError
from runtime.vk.features import REQUIRED_FEATURES, REQUIRED_VERSION

# 1.4, packed; a 1.3 device simply answers with its own version.
API_VERSION = (1 << 22) | (4 << 12)


@dataclass(frozen=True)
class PhysicalDevice:
    """A device that the loader found. unfit: why the runtime cannot use it, or None."""

    index: int
    handle: Any
    name: str
    type: str
    uuid: str
    api_version: tuple[int, int, int]
    unfit: str | None = None


class Instance:
    """VkInstance with, when RUNTIME_VALIDATE is set, the validation layer and its messenger."""

    def __init__(self):
        self.messenger: validation.Messenger | None = None
        layers, extensions, following = [], [], ffi.NULL
        if validation.requested():
            validation.prepare_environment()
            self.messenger = validation.Messenger(validation.layer_version())
            layers.append(ffi.new("char[]", validation.LAYER.encode()))
            extensions.append(ffi.new("char[]", b"VK_EXT_debug_utils"))
            messenger_info = self.messenger.create_info()
            following = ffi.cast("void *", messenger_info)
        application = new("VkApplicationInfo", apiVersion=API_VERSION,
                          pApplicationName=(engine := ffi.new("char[]", b"spirvdsl")), pEngineName=engine)
        layer_names = ffi.new("char *[]", layers)
        extension_names = ffi.new("char *[]", extensions)
        info = new("VkInstanceCreateInfo", pNext=following, pApplicationInfo=application,
                   enabledLayerCount=len(layers), ppEnabledLayerNames=layer_names,
                   enabledExtensionCount=len(extensions), ppEnabledExtensionNames=extension_names)
        handle = ffi.new("VkInstance *")
        result = lib.vkCreateInstance(info, ffi.NULL, handle)
        if result == K.VK_ERROR_INCOMPATIBLE_DRIVER:
            raise VulkanError(no_device_message())
        check(result, "vkCreateInstance")
        self.handle = handle[0]
        if self.messenger is not None:
            self.messenger.attach(self.handle)
        self._devices: list[PhysicalDevice] | None = None
        self.users: weakref.WeakSet = weakref.WeakSet()  # open Devices
        self.hung = False  # a device was left running

    def devices(self) -> list[PhysicalDevice]:
        """All physical devices in the loader's order. Raises VulkanError when there is none."""
        if self._devices is None:
            result = enumerate_all(lib.vkEnumeratePhysicalDevices, "VkPhysicalDevice", self.handle,
                                   what="vkEnumeratePhysicalDevices")
            self._devices = [describe(i, handle) for i, handle in enumerate(result)]
        if not self._devices:
            raise VulkanError(no_device_message())
        return self._devices

    def destroy(self) -> None:
        """Close the devices that are still open, and destroy the instance."""
        for device in list(self.users):
            device.close()
        if self.hung:
            return  # the driver would wait for the device
        if self.messenger is not None:
            self.messenger.detach(self.handle)
        lib.vkDestroyInstance(self.handle, ffi.NULL)


def no_device_message() -> str:
    """One line for a machine without any Vulkan driver."""
    where = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    hint = f" (VK_DRIVER_FILES={where})" if where else ""
    return f"no Vulkan device found{hint}: install a GPU driver or a software one (Debian: mesa-vulkan-drivers)"


def describe(index: int, handle) -> PhysicalDevice:
    """Identity of a physical device, and whether it fits."""
    head, ids = new("VkPhysicalDeviceProperties2"), new("VkPhysicalDeviceIDProperties")
    head.pNext = ffi.cast("void *", ids)
    core = head.properties
    lib.vkGetPhysicalDeviceProperties(handle, ffi.addressof(core))
    version = unpack_version(core.apiVersion)
    unfit, uuid = None, ""
    if version[:2] >= (1, 1):
        lib.vkGetPhysicalDeviceProperties2(handle, head)
        uuid = bytes(ids.deviceUUID).hex()
    if version[:2] < REQUIRED_VERSION:
        unfit = f"it offers Vulkan {version[0]}.{version[1]}, 1.3 is needed: update its driver"
    elif choose_queue_family(handle) is None:
        unfit = "it has no compute queue"
    else:
        features = query_features(handle, version[:2], list_extensions(handle))
        lacking = [n for n in REQUIRED_FEATURES if n not in features]
        if lacking:
            unfit = f"it lacks {', '.join(lacking)}"
    return PhysicalDevice(index, handle, text(core.deviceName), DEVICE_TYPES.get(core.deviceType, "other"), uuid,
                          version, unfit)


_lock = threading.Lock()
_instance: Instance | None = None


def get_instance() -> Instance:
    """The process's instance, created on first use and destroyed at exit."""
    global _instance
    with _lock:
        if _instance is None:
            _instance = Instance()
            atexit.register(_instance.destroy)
        return _instance
