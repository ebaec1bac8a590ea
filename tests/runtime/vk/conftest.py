"""Fixtures of the Vulkan tests: the session's device, and a second one that never maps device memory."""

from __future__ import annotations

import pytest

SLOT = 1 << 16  # small staging slots, so that modest transfers take many


@pytest.fixture(scope="session")
def staged(device):
    """A device that behaves like a discrete card: device buffers are reached through staging alone."""
    from runtime.vk import Device

    with Device(force_staging=True, staging_bytes=SLOT) as opened:
        yield opened


@pytest.fixture(params=["mapped", "staged"])
def either(request, device, staged):
    """Both devices in turn."""
    return device if request.param == "mapped" else staged
