"""Which physical device to use: discrete before integrated, virtual and cpu, or what the user names."""
from __future__ import annotations

import os
from collections.abc import Sequence

from runtime.vk.errors import VulkanError
from runtime.vk.instance import PhysicalDevice

PREFERENCE = ("discrete", "integrated", "virtual", "cpu", "other")


def rank(device: PhysicalDevice) -> tuple[int, int]:
    """Sort key: the preferred type first, the loader's order within a type."""
    return PREFERENCE.index(device.type), device.index


def choose(devices: Sequence[PhysicalDevice], select: int | str | None = None) -> PhysicalDevice:
    """The device to use.

    select: None (then the environment's RUNTIME_DEVICE, else the best rank), an index in the loader's order, a UUID
    (32 hex digits, dashes allowed), or a part of the name in any case; several matches: the best rank among them.
    Raises VulkanError when nothing matches or the match does not fit.
    """
    if select is None:
        select = os.environ.get("RUNTIME_DEVICE") or None
    if select is None:
        matches = [d for d in devices if d.unfit is None]
        if not matches:
            raise VulkanError("no usable Vulkan device: " + "; ".join(f"{d.name}: {d.unfit}" for d in devices))
        return min(matches, key=rank)
    matches = _matching(devices, select)
    if not matches:
        known = ", ".join(f"{d.index}: {d.name}" for d in devices)
        raise VulkanError(f"no Vulkan device matches {select!r}: choose an index, name or uuid of [{known}]")
    best = min(matches, key=lambda d: (d.unfit is not None, rank(d)))
    if best.unfit is not None:
        raise VulkanError(f"device {best.index} ({best.name}) cannot be used: {best.unfit}")
    return best


def _matching(devices: Sequence[PhysicalDevice], select: int | str) -> list[PhysicalDevice]:
    if isinstance(select, int):
        return [d for d in devices if d.index == select]
    wanted = select.strip().lower()
    if wanted.isdigit() and int(wanted) < len(devices):
        return [d for d in devices if d.index == int(wanted)]
    plain = wanted.replace("-", "")
    by_uuid = [d for d in devices if d.uuid and d.uuid == plain]
    return by_uuid or [d for d in devices if wanted in d.name.lower()]
