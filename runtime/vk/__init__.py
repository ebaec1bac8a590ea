"""The Vulkan runtime: device choice, memory, pipelines, recording, submission. Thin, over the raw binding.

    from runtime.vk import Device
    dev = Device()
    a = dev.array(np.arange(8, dtype=np.float32))
    pipe = dev.pipeline(compiled)          # a spirvdsl CompiledKernel
    with dev.commands() as cmd:
        cmd.dispatch(pipe, [a], {"n": 8}, (1, 1, 1))
    dev.wait(dev.submit(cmd))
"""
from runtime.vk.buffer import Array, Buffer, Slice
from runtime.vk.caps import Capabilities
from runtime.vk.commands import Commands
from runtime.vk.coopmat import CoopFlexible, CoopShape
from runtime.vk.core import Counters
from runtime.vk.device import Device
from runtime.vk.errors import DeviceLost, MissingFeature, VulkanError
from runtime.vk.instance import PhysicalDevice, get_instance
from runtime.vk.memory import MemoryBudget
from runtime.vk.pipeline import Pipeline

__all__ = ["Array", "Buffer", "Capabilities", "Commands", "CoopFlexible", "CoopShape", "Counters", "Device",
           "DeviceLost", "MemoryBudget", "MissingFeature", "PhysicalDevice", "Pipeline", "Slice", "VulkanError",
           "list_devices"]


def list_devices() -> list[PhysicalDevice]:
    """All Vulkan devices of this machine, in the order of their indices. Raises VulkanError when there is none."""
    return get_instance().devices()
