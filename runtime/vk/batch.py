"""The open batch: dispatches of `kernel[grid](...)` collect here until something needs their results."""
from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.vk.commands import Commands

if TYPE_CHECKING:
    from runtime.vk.device import Device

# Submitted batches that may be unfinished: a program that only launches must not run ahead of the device for ever.
IN_FLIGHT = 8
# A batch that grows to this many dispatches is submitted, so that the device has something to do.
LIMIT = 4096


class Batch:
    """Commands recorded but not submitted. Finished command buffers are used again."""

    def __init__(self, device: Device):
        self._device = device
        self._open: Commands | None = None
        self._spare: list[Commands] = []  # oldest submit first

    def commands(self) -> Commands:
        """The recorder to add a dispatch to."""
        if self._open is not None:
            if self._open.dispatches < LIMIT:
                return self._open
            self.flush()
        for i, spare in enumerate(self._spare):
            if self._device.done(spare.last_submit):
                self._open = self._spare.pop(i)
                self._open.reset()
                return self._open
        self._open = Commands(self._device, reusable=False, profile=False)
        return self._open

    @property
    def pending(self) -> int:
        """Dispatches recorded and not submitted."""
        return self._open.dispatches if self._open is not None else 0

    def flush(self) -> int:
        """Submit the open commands, if there are any. Returns the device's last timeline value."""
        commands = self._open
        if commands is not None:
            self._open = None
            commands.end()
            self._device.submit_recorded(commands)
            self._spare.append(commands)
            if len(self._spare) > IN_FLIGHT:
                self._device.wait(self._spare[0].last_submit)
        return self._device.core.submitted
