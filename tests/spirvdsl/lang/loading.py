"""Kernel files made by tests: written to a folder, imported like an author's."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

_count = itertools.count()


def load(folder: Path, source: str, name: str | None = None, dedented: bool = True) -> ModuleType:
    """Write `source` as a module of `folder` and import it anew. The module is registered, as pickling and templates want."""
    name = name or f"kernels_of_test_{next(_count)}"
    path = folder / f"{name}.py"
    path.write_text(dedent(source) if dedented else source, encoding="utf-8")
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        # not through the loader: its bytecode file is keyed by mtime, and tests rewrite a file within one tick
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module
