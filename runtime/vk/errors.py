"""Errors of the Vulkan runtime. Every message is one line: the thing, the reason, the remedy."""
from __future__ import annotations


class VulkanError(RuntimeError):
    """A Vulkan call failed, a limit would be broken, or the API was misused."""


class DeviceLost(VulkanError):
    """The driver reported VK_ERROR_DEVICE_LOST. The Device object can no longer be used."""


class MissingFeature(VulkanError):
    """A kernel needs a feature or a limit that the device does not have. Raised before the driver sees the module."""
