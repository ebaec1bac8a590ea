"""Compiled kernels on disk, so that a server starts without compiling: one file per fingerprint (fingerprint.py).

A file is one line of magic, the SHA-256 of the rest, one line of JSON (key, name, hash, reflection) and the SPIR-V words.
What is truncated, foreign or damaged is ignored and written anew. SPIRVDSL_CACHE=0 turns the cache off, SPIRVDSL_CACHE_DIR
moves it. Only success is kept: a kernel that does not compile is compiled, and refused, every time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .compiled import Binding, CompiledKernel, MatrixProduct, MatrixType, PushMember, Reflection, SpecConstant
from .fingerprint import Unstable, fingerprint

_MAGIC = b"spirvdsl kernel 1\n"
_SUFFIX = ".kernel"
_MOST_FILES = 4096  # some 40 MB; the oldest half goes when there are more
_pruned = False


def enabled() -> bool:
    """Whether the cache may be used at all: not SPIRVDSL_CACHE=0."""
    return os.environ.get("SPIRVDSL_CACHE", "1") != "0"


def folder() -> Path:
    """Where the files lie: SPIRVDSL_CACHE_DIR, else the user's cache folder."""
    given = os.environ.get("SPIRVDSL_CACHE_DIR")
    if given:
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("spirvdsl", appauthor=False))


def compiled(kernel: Any, build: Callable[[], CompiledKernel]) -> CompiledKernel:
    """The kernel's entry when there is a valid one, else what `build` makes, which is stored. Raises what `build` raises."""
    key = key_of(kernel)
    if key is None:
        return build()
    path = folder() / (key + _SUFFIX)
    found = _read(path, key)
    if found is None:
        found = build()
        if key_of(kernel) == key:  # nothing was edited meanwhile
            _write(path, key, found)
    return found


def key_of(kernel: Any) -> str | None:
    """The fingerprint, or None when the cache is off or the kernel depends on something unstable."""
    if not enabled():
        return None
    try:
        return fingerprint(kernel)
    except Unstable:
        return None


def encode(key: str, kernel: CompiledKernel) -> bytes:
    """The content of a cache file."""
    record = {"key": key, "name": kernel.name, "hash": kernel.hash, "reflection": dataclasses.asdict(kernel.reflection)}
    rest = json.dumps(record, separators=(",", ":")).encode() + b"\n" + kernel.spirv
    return _MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def decode(key: str, data: bytes) -> CompiledKernel | None:
    """The kernel in a cache file, or None when it is not a whole file written for this key."""
    if not data.startswith(_MAGIC):
        return None
    checksum, _, rest = data[len(_MAGIC) :].partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != checksum:
        return None
    text, _, spirv = rest.partition(b"\n")
    try:
        record = json.loads(text)
        if record["key"] != key or hashlib.sha256(spirv).hexdigest() != record["hash"]:
            return None
        return CompiledKernel(record["name"], spirv, _reflection(record["reflection"]), record["hash"])
    except (ValueError, TypeError, KeyError):
        return None


def _reflection(r: dict[str, Any]) -> Reflection:
    lists = {"bindings": Binding, "push": PushMember, "spec_constants": SpecConstant, "matrices": MatrixType, "products": MatrixProduct}
    parts = {name: tuple(kind(**item) for item in r[name]) for name, kind in lists.items()}
    return Reflection(**{**r, **parts, "workgroup_size": tuple(r["workgroup_size"]), "features": tuple(r["features"])})


def _read(path: Path, key: str) -> CompiledKernel | None:
    try:
        return decode(key, path.read_bytes())
    except OSError:
        return None


def _write(path: Path, key: str, kernel: CompiledKernel) -> None:
    """Atomically: other processes see a whole file or none. A folder that cannot be written is no reason to fail."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(encode(key, kernel))
        os.replace(name, path)
        _prune(path.parent)
    except OSError:
        Path(name).unlink(missing_ok=True)


def _prune(where: Path) -> None:
    """Once a process: when there are too many files, drop those written longest ago."""
    global _pruned
    if _pruned:
        return
    _pruned = True
    files = sorted(where.glob("*" + _SUFFIX), key=lambda p: p.stat().st_mtime)
    if len(files) > _MOST_FILES:
        for path in files[: -_MOST_FILES // 2]:
            path.unlink(missing_ok=True)
