"""Runs kernels on Vulkan and serves models. `from runtime import Device` loads the Vulkan part on first use only."""
from __future__ import annotations

__all__ = ["Device", "DeviceLost", "MissingFeature", "VulkanError"]


def __getattr__(name: str):
    # Lazy, so that `import runtime.gguf` works where no Vulkan loader is installed.
    if name in __all__:
        from runtime import vk
        return getattr(vk, name)
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")
