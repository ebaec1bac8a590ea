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


@pytest.fixture(autouse=True)
def silent_validation():
    """With RUNTIME_VALIDATE=1: a test that draws a message from the validation layer fails."""
    from runtime.vk import get_instance, validation

    if not validation.requested():
        yield
        return
    messages = get_instance().messenger.messages
    before = len(messages)
    yield
    assert not [f"{m.name}: {m.text[:300]}" for m in messages[before:]]
