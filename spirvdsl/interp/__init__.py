"""The interpreter: executes IR with numpy, as the kernel debugger and as the oracle of kernel tests."""

from __future__ import annotations

from .api import interpret
from .faults import InterpError

__all__ = ["InterpError", "interpret"]
