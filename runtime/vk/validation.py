"""Vulkan validation for tests: RUNTIME_VALIDATE=1 loads VK_LAYER_KHRONOS_validation with core and sync checks.

The layer reads its settings from the environment when the instance is created. Two generations of the layer spell
them differently (up to 1.3.2xx: VK_LAYER_ENABLES; later: VK_KHRONOS_VALIDATION_*), so both are set. Messages are
collected through VK_EXT_debug_utils and are found in `Device.validation_messages`.
"""
from __future__ import annotations

import os
import re
from dataclasses import dataclass

from runtime.vk import _supplement as K
from runtime.vk.binding import check, enumerate_all, ffi, instance_function, lib, new, text
from runtime.vk.errors import VulkanError

LAYER = "VK_LAYER_KHRONOS_validation"
LAYER_SETTINGS = {
    "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT:"
                        "VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT",
    "VK_KHRONOS_VALIDATION_VALIDATE_SYNC": "true",
    # Without the heuristic the newer layers report no missing barrier between two dispatches.
    "VK_KHRONOS_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC": "true",
}


@dataclass(frozen=True)
class Message:
    """severity: "error" | "warning"; name: the VUID or hazard name; text: the layer's message on one line."""

    severity: str
    name: str
    text: str


def requested() -> bool:
    """Whether RUNTIME_VALIDATE asks for the layer."""
    return os.environ.get("RUNTIME_VALIDATE", "0") not in ("", "0")


def prepare_environment() -> None:
    """Set the layer's settings; what the user has set already stays."""
    for name, value in LAYER_SETTINGS.items():
        os.environ.setdefault(name, value)


def layer_version() -> tuple[int, int, int]:
    """Specification version of the installed layer. Raises VulkanError when it is not installed."""
    layers = enumerate_all(lib.vkEnumerateInstanceLayerProperties, "VkLayerProperties",
                           what="vkEnumerateInstanceLayerProperties")
    for item in layers:
        if text(item.layerName) == LAYER:
            packed = item.specVersion
            return (packed >> 22) & 0x7F, (packed >> 12) & 0x3FF, packed & 0xFFF
    raise VulkanError(f"RUNTIME_VALIDATE is set but {LAYER} is not installed: apt-get install vulkan-validationlayers")


class Messenger:
    """Collects the layer's warnings and errors, for all devices of the instance.

    skip_bad_calls: an erroneous call is not passed to the driver and fails with VK_ERROR_VALIDATION_FAILED, so that a
    test can provoke mistakes that would crash the driver.
    """

    def __init__(self, layer: tuple[int, int, int]):
        self.messages: list[Message] = []
        self.skip_bad_calls = False
        self.layer = layer
        self._callback = ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", self._receive)
        self._handle = None

    def create_info(self):
        """VkDebugUtilsMessengerCreateInfoEXT; also chained to the instance, to hear its creation and destruction."""
        return new("VkDebugUtilsMessengerCreateInfoEXT",
                   messageSeverity=K.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT
                   | K.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
                   messageType=K.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
                   pfnUserCallback=self._callback)

    def attach(self, instance) -> None:
        """Start listening on the instance."""
        handle = ffi.new("VkDebugUtilsMessengerEXT *")
        create = instance_function(instance, "vkCreateDebugUtilsMessengerEXT")
        check(create(instance, self.create_info(), ffi.NULL, handle), "vkCreateDebugUtilsMessengerEXT")
        self._handle = handle[0]

    def detach(self, instance) -> None:
        """Stop listening; needed before the instance is destroyed."""
        if self._handle is not None:
            instance_function(instance, "vkDestroyDebugUtilsMessengerEXT")(instance, self._handle, ffi.NULL)
            self._handle = None

    def _receive(self, severity, _types, data, _user) -> int:
        error = bool(severity & K.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT)
        name = text(data.pMessageIdName) if data.pMessageIdName != ffi.NULL else ""
        message = Message("error" if error else "warning", name, " ".join(text(data.pMessage).split()))
        if self._from_an_old_layer(message):
            return 0
        self.messages.append(message)
        return int(error and self.skip_bad_calls)

    def _from_an_old_layer(self, message: Message) -> bool:
        """A layer older than the device's headers calls structs, features and capabilities it cannot know wrong."""
        return self.layer < (1, 4, 0) and any(re.search(p, message.name + " " + message.text) for p in OLD_LAYER_NOISE)


# What layer 1.3.239 (Debian 12) says about a device of Vulkan 1.4, searched for in "name text".
OLD_LAYER_NOISE = (
    r"includes a structure with unknown VkStructureType",
    r"Device Extension \w+ is not supported by this layer",
    # Modules with capabilities that the layer's SPIR-V tools have not heard of. Our compiler validates every module.
    r"SPIR-V module not valid: Invalid capability operand: \d+",
    r"Capability \(Unhandled OpCapability\) was declared",
    r"SPIR-V Extension \(SPV_(KHR_cooperative_matrix|NV_cooperative_matrix2|NV_tensor_addressing|KHR_bfloat16|"
    r"EXT_float8|EXT_replicated_composites|KHR_float_controls2|KHR_maximal_reconvergence|KHR_subgroup_rotate|"
    r"KHR_untyped_pointers)\) was declared",
)
