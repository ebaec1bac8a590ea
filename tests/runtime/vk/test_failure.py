"""A lost or hung device ends in one line, at once at every later call, and never in a hang."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from runtime.vk import Device, DeviceLost, VulkanError
from runtime.vk import _supplement as K
from tests.runtime.vk import kernels

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def own(device):
    """A device of the test's own, that it may ruin."""
    opened = Device(force_staging=True)
    yield opened
    begin = time.monotonic()
    opened.close()
    opened.close()
    assert time.monotonic() - begin < 10


def prepared(dev):
    pipe, data = dev.pipeline(kernels.increment()), dev.array(np.zeros(64, np.uint32))
    with dev.commands() as commands:
        commands.dispatch(pipe, [data], {"n": 64})
    return commands, data


def fails_everywhere(dev, data, commands, kind, words):
    acts = [lambda: dev.submit(commands), lambda: dev.wait(1), lambda: dev.buffer(64), dev.commands, dev.flush,
            data.numpy, lambda: dev.upload(data.buffer, 0, b"1234"), dev.synchronize, dev.memory, commands.reset,
            lambda: dev.pipeline(kernels.scale()), lambda: dev.done(1)]
    begin = time.monotonic()
    for act in acts:
        with pytest.raises(kind, match=words) as caught:
            act()
        assert "\n" not in str(caught.value)
    assert time.monotonic() - begin < 1


def test_a_lost_device_in_wait(own, monkeypatch):
    commands, data = prepared(own)
    value = own.submit(commands)
    monkeypatch.setattr(own.timeline, "_wait_semaphores", lambda *_: K.VK_ERROR_DEVICE_LOST)
    own.timeline._completed = 0
    with pytest.raises(DeviceLost, match="device lost .*vkWaitSemaphores"):
        own.wait(value)
    fails_everywhere(own, data, commands, DeviceLost, "device lost")


def test_a_lost_device_in_submit(own, monkeypatch):
    commands, data = prepared(own)
    monkeypatch.setattr(own.timeline, "_queue_submit", lambda *_: K.VK_ERROR_DEVICE_LOST)
    with pytest.raises(DeviceLost, match="vkQueueSubmit on"):
        own.submit(commands)
    fails_everywhere(own, data, commands, DeviceLost, "device lost")


def test_a_submit_that_fails_otherwise_does_not_count(own, monkeypatch):
    commands, data = prepared(own)
    before = own.core.submitted
    with monkeypatch.context() as patch:
        patch.setattr(own.timeline, "_queue_submit", lambda *_: K.VK_ERROR_OUT_OF_DEVICE_MEMORY)
        with pytest.raises(VulkanError, match="out of memory .*vkQueueSubmit"):
            own.submit(commands)
    assert own.core.submitted == before
    own.wait(own.submit(commands))
    assert (data.numpy() == 1).all()


def test_a_time_out(own):
    """Work far longer than the bound: the wait ends, and the device counts as hung from then on."""
    pipe, data = own.pipeline(kernels.increment()), own.array(np.zeros(1 << 18, np.uint32))
    with own.commands() as commands:
        for _ in range(300):
            commands.dispatch(pipe, [data], {"n": 1 << 18}, (1 << 12, 1, 1))
    value = own.submit(commands)
    begin = time.monotonic()
    with pytest.raises(VulkanError, match=f"did not finish submit {value} within 0 s") as caught:
        own.wait(value, timeout_s=0.0)
    assert time.monotonic() - begin < 1 and not isinstance(caught.value, DeviceLost)
    fails_everywhere(own, data, commands, VulkanError, "did not finish submit")


def test_close_leaves_hung_work_behind(own, monkeypatch):
    """The semaphore is never signalled: close() gives up in time."""
    from runtime.vk import device as module

    commands, _ = prepared(own)
    own.submit(commands)
    monkeypatch.setattr(module, "CLOSE_TIMEOUT_S", 0.3)
    real = own.timeline._wait_semaphores

    def never(*arguments):
        time.sleep(0.05)
        return K.VK_TIMEOUT

    monkeypatch.setattr(own.timeline, "_wait_semaphores", never)
    own.timeline._completed = 0  # the real work may have finished already
    begin = time.monotonic()
    own.close()
    assert 0.2 < time.monotonic() - begin < 3
    with pytest.raises(VulkanError, match="is closed"):
        own.buffer(4)
    own.timeline._wait_semaphores = real
    assert own.timeline.waited(own.core.submitted, 10)  # nothing may run on into the next test
    own.core.close(idle=True)


HANG = """
import sys
import numpy as np
from runtime.vk import Device, VulkanError
from tests.runtime.vk import kernels
dev = Device(timeout_s=0.5)
data = dev.array(np.zeros(64, np.uint32))
with dev.commands() as commands:
    commands.dispatch(dev.pipeline(kernels.forever()), [data])
dev.submit(commands)
try:
    data.numpy()
except VulkanError as error:
    sys.exit(f"serve: {error}")
"""


def test_a_process_with_a_hung_device_ends(device):
    if not device.caps.is_cpu:
        pytest.skip("a real hang may disturb other users of a GPU")
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", HANG], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and time.monotonic() - begin < 20
    assert done.stderr.startswith("serve: device") and "counts as hung" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_closed_device_says_so(device):
    with Device() as dev:
        data = dev.array(np.zeros(4))
    for act in (data.numpy, lambda: dev.buffer(4), dev.commands, dev.flush, dev.memory):
        with pytest.raises(VulkanError, match="is closed: create a new Device"):
            act()


def test_the_time_out_comes_from_the_environment(device, monkeypatch):
    monkeypatch.setenv("RUNTIME_TIMEOUT_S", "12.5")
    with Device() as dev:
        assert dev.timeline.timeout_s == 12.5
    with Device(timeout_s=3) as dev:
        assert dev.timeline.timeout_s == 3
