"""Finds files of the cmeel wheels (SPIR-V headers and tools), which install under <site-packages>/cmeel.prefix."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path


def find(relative: str) -> Path | None:
    """A file below cmeel.prefix of this environment, or None. Looks in purelib, platlib, then along sys.path."""
    paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path]
    for site in dict.fromkeys(p for p in paths if p):
        candidate = Path(site) / "cmeel.prefix" / relative
        if candidate.is_file():
            return candidate
    return None
