"""Moving bytes between the host and device memory that it does not see, through rings of pinned staging buffers.

An upload copies the caller's bytes into a staging slot (in several threads when there is much: reading a mapped file
is bound by page faults) while the device fetches the slots before it. Transfers run on the device's one queue, so they
are ordered with everything submitted before and after.
"""
from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from runtime.vk.buffer import Buffer
from runtime.vk.errors import VulkanError

if TYPE_CHECKING:
    from runtime.vk.commands import Commands
    from runtime.vk.device import Device

SLOTS = 4
SLOT_BYTES = 32 << 20
# Below this, splitting a copy over threads costs more than it saves.
THREADED_BYTES = 4 << 20
MAX_THREADS = 8


def as_bytes(data) -> np.ndarray:
    """A flat uint8 view of an array or of anything with the buffer protocol; copies only what is not contiguous."""
    if not isinstance(data, np.ndarray):
        return np.frombuffer(data, np.uint8)
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


class Copier:
    """Host memory copies of one transfer; with much to copy, in several threads, which end with the transfer.

    numpy releases the interpreter lock while it copies.
    """

    def __init__(self, total: int):
        self._threads = min(MAX_THREADS, max(1, (os.cpu_count() or 1) // 2)) if total >= THREADED_BYTES else 1
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="runtime-copy") if self._threads > 1 else None

    def __enter__(self) -> Copier:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def copy(self, target: np.ndarray, source: np.ndarray) -> None:
        """target[:] = source for uint8 arrays of equal length."""
        if self._pool is None or source.size < THREADED_BYTES:
            np.copyto(target, source)
            return
        step = -(-source.size // self._threads // 4096) * 4096
        parts = range(0, source.size, step)
        list(self._pool.map(lambda at: np.copyto(target[at:at + step], source[at:at + step]), parts))


class Slot:
    """One staging buffer and the commands that copy from or to it. value: timeline value of its last use."""

    def __init__(self, device: Device, size: int):
        self.buffer: Buffer = device.buffer(size, host=True)
        self.commands: Commands = device.commands(reusable=False)
        self.value = 0


class Ring:
    """SLOTS staging buffers used in turn."""

    def __init__(self, device: Device, slot_bytes: int):
        self._device = device
        self.slot_bytes = slot_bytes
        self._slots: list[Slot] = []
        self._turn = 0

    def next(self) -> Slot:
        """A slot that the device has finished with, its commands open."""
        if len(self._slots) < SLOTS:
            self._slots.append(Slot(self._device, self.slot_bytes))
            return self._slots[-1]
        slot = self._slots[self._turn]
        self._turn = (self._turn + 1) % SLOTS
        self._device.timeline.wait(slot.value)
        slot.commands.reset()
        return slot

    def run(self, slot: Slot) -> None:
        """Close the slot's commands and submit them."""
        slot.commands.end()
        slot.value = self._device.submit_recorded(slot.commands)


class Transfer:
    """Uploads and downloads of one device."""

    def __init__(self, device: Device, slot_bytes: int):
        self._device = device
        self._up = Ring(device, slot_bytes)
        self._down = Ring(device, slot_bytes)

    def upload(self, buffer: Buffer, offset: int, data) -> None:
        """Copy host bytes into the buffer, after all work submitted so far. `data` may be reused on return."""
        source = as_bytes(data)
        if source.size == 0:
            return
        self._inside(buffer, offset, source.size)
        with Copier(source.size) as copier:
            if buffer.mapped is not None:
                # The device may still read or write these bytes for work submitted before.
                self._device.timeline.wait(self._device.core.submitted)
                copier.copy(buffer.mapped[offset:offset + source.size], source)
                return
            for at in range(0, source.size, self._up.slot_bytes):
                part = source[at:at + self._up.slot_bytes]
                slot = self._up.next()
                copier.copy(slot.buffer.mapped[:part.size], part)
                slot.commands.copy(slot.buffer.range(0, part.size), buffer.range(offset + at, part.size))
                self._up.run(slot)

    def download(self, buffer: Buffer, offset: int, nbytes: int) -> np.ndarray:
        """Copy bytes of the buffer to a new uint8 array, after all work submitted so far."""
        self._inside(buffer, offset, nbytes)
        target = np.empty(nbytes, np.uint8)
        with Copier(nbytes) as copier:
            if buffer.mapped is not None:
                self._device.timeline.wait(self._device.core.submitted)
                copier.copy(target, buffer.mapped[offset:offset + nbytes])
            else:
                self._through_slots(copier, buffer, offset, target)
        return target

    def _through_slots(self, copier: Copier, buffer: Buffer, offset: int, target: np.ndarray) -> None:
        waiting: list[tuple[Slot, np.ndarray]] = []

        def fetch() -> None:
            slot, part = waiting.pop(0)
            self._device.timeline.wait(slot.value)
            copier.copy(part, slot.buffer.mapped[:part.size])

        for at in range(0, target.size, self._down.slot_bytes):
            if len(waiting) == SLOTS:
                fetch()
            part = target[at:at + self._down.slot_bytes]
            slot = self._down.next()
            slot.commands.copy(buffer.range(offset + at, part.size), slot.buffer.range(0, part.size))
            self._down.run(slot)
            waiting.append((slot, part))
        while waiting:
            fetch()

    @staticmethod
    def _inside(buffer: Buffer, offset: int, nbytes: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > buffer.size:
            raise VulkanError(f"transfer of {nbytes} bytes at {offset} is outside the buffer of {buffer.size} bytes")
