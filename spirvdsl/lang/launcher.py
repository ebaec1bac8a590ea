"""The launcher protocol: `kernel[grid](...)` calls a function a runtime provides.

A launcher is `launch(kernel, grid, args, kwargs) -> None`. It is found once: one that was registered, else the entry point
`vulkan` of group `spirvdsl.launchers`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

Launcher = Callable[[Any, Any, tuple, dict[str, Any]], None]
_current: Launcher | None = None


def register(launch: Launcher) -> None:
    """Use this launcher from now on."""
    global _current
    _current = launch


def current() -> Launcher:
    """The launcher in use. RuntimeError when no runtime is installed."""
    global _current
    if _current is None:
        found = list(entry_points(group="spirvdsl.launchers"))
        if not found:
            raise RuntimeError("no launcher: install a runtime that provides entry point group spirvdsl.launchers, or `import runtime` first")
        _current = next((e for e in found if e.name == "vulkan"), found[0]).load()
    return _current
