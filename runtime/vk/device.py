"""Device: the door to the Vulkan runtime. It only ties the parts together."""
from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from runtime.vk.batch import Batch
from runtime.vk.buffer import Array, Buffer
from runtime.vk.commands import Commands
from runtime.vk.core import Core, Counters
from runtime.vk.diskcache import DiskCache
from runtime.vk.errors import DeviceLost, MissingFeature, VulkanError
from runtime.vk.instance import get_instance
from runtime.vk.memory import Memory, MemoryBudget
from runtime.vk.pipeline import Pipeline, Pipelines
from runtime.vk.select import choose
from runtime.vk.submit import Timeline
from runtime.vk.transfer import SLOT_BYTES, Transfer
from runtime.vk.validation import Message

# How long one submit may run before the device counts as hung. A software device is given longer.
TIMEOUT_S = 60.0
CPU_TIMEOUT_S = 600.0
# Time that close() gives to running work before it leaves the device's objects to the operating system.
CLOSE_TIMEOUT_S = 5.0
FAILED_CLOSE_TIMEOUT_S = 0.5


def _flag(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


class Device:
    """A Vulkan device: buffers, pipelines, recording, submission.

    select: None | index | name substring | uuid (see select.choose; environment RUNTIME_DEVICE).
    force_staging: device buffers are never mapped, as on a discrete card.
    paranoid: a full barrier before every dispatch (environment RUNTIME_PARANOID=1).
    timeout_s: bound of every wait (environment RUNTIME_TIMEOUT_S; default 60, software devices 600).
    staging_bytes: size of one staging slot; there are four for each direction, made on first use.
    One thread at a time may use a device. Raises VulkanError when no usable device is found.
    """

    def __init__(self, select: int | str | None = None, *, force_staging: bool = False, paranoid: bool = False,
                 timeout_s: float | None = None, staging_bytes: int = SLOT_BYTES):
        instance = get_instance()
        self.core = Core(instance, choose(instance.devices(), select))
        self.caps = self.core.caps
        self.counters: Counters = self.core.counters
        self.force_staging = force_staging
        self.paranoid = paranoid or _flag("RUNTIME_PARANOID")
        # For tests: the n-th derived barrier (from 1) is left out, so that synchronization validation must go red.
        self.dropped_barrier = int(os.environ.get("RUNTIME_NO_BARRIER") or 0)
        if timeout_s is None:
            default = CPU_TIMEOUT_S if self.caps.is_cpu else TIMEOUT_S
            timeout_s = float(os.environ.get("RUNTIME_TIMEOUT_S") or default)
        self.timeline = Timeline(self.core, timeout_s)
        self.memory_pool = Memory(self.core, force_staging)
        self.pipelines = Pipelines(self.core, DiskCache(self.caps))
        self._transfer = Transfer(self, staging_bytes)
        self.batch = Batch(self)
        self.plans: dict = {}  # launch plans by kernel; see launch.py
        instance.users.add(self)

    @property
    def validation_messages(self) -> list[Message]:
        """Messages of the validation layer since the process began (RUNTIME_VALIDATE=1), else []."""
        messenger = self.core.instance.messenger
        return messenger.messages if messenger is not None else []

    def require(self, feature: str, what: str) -> None:
        """Raise MissingFeature when the device lacks the feature."""
        if feature not in self.caps.features:
            raise MissingFeature(f"{what} needs {feature}, which {self.caps.name} does not have: use another device")

    # -- memory -----------------------------------------------------------------------------------------------------

    def memory(self) -> MemoryBudget:
        """Size, budget and use of the device-local heap in bytes."""
        self.core.alive()
        self.timeline.poll()
        return self.memory_pool.budget()

    def buffer(self, nbytes: int, host: bool = False) -> Buffer:
        """A buffer in device memory, contents undefined; host=True: in host memory, coherent, always mapped."""
        self.core.alive()
        self.timeline.poll()
        return Buffer(self, nbytes, host)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """An array on the device, contents undefined. At least one element."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        return Array(self.buffer(nbytes), 0, shape, dtype)

    def array(self, values: np.ndarray) -> Array:
        """A copy of a numpy array on the device."""
        values = np.asarray(values)
        array = self.empty(values.shape, values.dtype)
        self.upload(array.buffer, 0, values)
        return array

    def upload(self, buffer: Buffer, offset: int, data) -> None:
        """Copy host bytes (array, memoryview, bytes) into the buffer, ordered after all work given so far."""
        self.flush()
        self._transfer.upload(buffer, offset, data)

    def download(self, buffer: Buffer, offset: int, nbytes: int) -> np.ndarray:
        """Copy bytes of the buffer into a new uint8 array, after all work given so far has finished."""
        self.flush()
        return self._transfer.download(buffer, offset, nbytes)

    # -- work -------------------------------------------------------------------------------------------------------

    def pipeline(self, compiled, spec: Mapping[str, int | float] | None = None) -> Pipeline:
        """The pipeline of a CompiledKernel; MissingFeature names what the device lacks."""
        self.core.alive()
        return self.pipelines.get(compiled, spec)

    def commands(self, reusable: bool = True, profile: bool = False) -> Commands:
        """A recorder. reusable: may be submitted many times; profile: a timestamp after every command."""
        self.core.alive()
        return Commands(self, reusable, profile)

    def submit(self, commands: Commands, wait_for: int | None = None) -> int:
        """Submit recorded commands after the open batch. Returns their timeline value, for wait()."""
        self.flush()
        return self.submit_recorded(commands, wait_for)

    def submit_recorded(self, commands: Commands, wait_for: int | None = None) -> int:
        """Like submit, without flushing the open batch first (the batch itself and transfers use it)."""
        self.core.alive()
        if commands.recording:
            raise VulkanError("these commands are still open: call end() before submitting them")
        if commands.last_submit and not commands.reusable:
            raise VulkanError("these commands were made with reusable=False and have been submitted: record them anew")
        commands.last_submit = self.timeline.submit(commands.handles, 1, commands, wait_for)
        return commands.last_submit

    def done(self, value: int) -> bool:
        """Whether the submit of this timeline value has finished. Never waits."""
        self.core.alive()
        return self.timeline.done(value)

    def wait(self, value: int, timeout_s: float | None = None) -> None:
        """Wait for a submit. Raises VulkanError after the time-out, and DeviceLost; the device then stays failed."""
        self.timeline.wait(value, timeout_s)

    def flush(self) -> int:
        """Submit what launches have recorded in the open batch. Returns the last timeline value."""
        self.core.alive()
        return self.batch.flush()

    def synchronize(self) -> None:
        """Wait for everything given so far."""
        self.wait(self.flush())

    # -- end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish and destroy everything. Never hangs: work that does not end in time is left behind."""
        if self.core.closed:
            return
        instance, idle = self.core.instance, False
        instance.users.discard(self)
        try:
            if self.core.failure is None:
                self.batch.flush()
            limit = CLOSE_TIMEOUT_S if self.core.failure is None else FAILED_CLOSE_TIMEOUT_S
            idle = self.timeline.waited(self.core.submitted, limit)
        except DeviceLost:
            idle = True  # nothing runs on a lost device, and its objects may be destroyed
        except VulkanError:
            idle = False
        self.core.close(idle)
        instance.hung |= not idle

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self):
        if "plans" in self.__dict__:  # else the constructor raised
            self.close()

    def __repr__(self) -> str:
        return f"Device({self.caps.name!r})"

