"""Compiled pipelines on disk: one file per pipeline, in a folder per driver.

A file holds a magic, the SHA-256 of the payload, and the payload (what vkGetPipelineCacheData gave). A file that is
truncated, altered, or of another driver is ignored, and so is a folder that cannot be written: the cache only saves
time. RUNTIME_CACHE_DIR sets the folder; the default is the user's cache folder.
"""
from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
from pathlib import Path

import platformdirs

from runtime.vk.caps import Capabilities

MAGIC = b"RVKPIPE1"
# VkPipelineCacheHeaderVersionOne: u32 size, u32 version, u32 vendor, u32 device, u8 uuid[16].
HEADER = struct.Struct("<IIII16s")


def cache_root() -> Path:
    """Folder of everything the runtime caches."""
    return Path(os.environ.get("RUNTIME_CACHE_DIR") or platformdirs.user_cache_dir("spirvdsl-runtime"))


class DiskCache:
    """Pipeline payloads of one device and driver, by hex key."""

    def __init__(self, caps: Capabilities, root: Path | None = None):
        self._caps = caps
        identity = f"{caps.driver_uuid}:{caps.cache_uuid}:{caps.vendor_id}:{caps.device_id}:{caps.driver_version}"
        self.folder = (root or cache_root()) / "pipelines" / hashlib.sha256(identity.encode()).hexdigest()[:24]

    def path(self, key: str) -> Path:
        """Where the payload of `key` lies."""
        return self.folder / f"{key}.bin"

    def load(self, key: str) -> bytes:
        """The payload, or b"" when there is none that can be trusted."""
        try:
            data = self.path(key).read_bytes()
        except OSError:
            return b""
        start = len(MAGIC) + 32
        payload = data[start:]
        if data[:len(MAGIC)] != MAGIC or hashlib.sha256(payload).digest() != data[len(MAGIC):start]:
            return b""
        return payload if self._is_ours(payload) else b""

    def _is_ours(self, payload: bytes) -> bool:
        if len(payload) < HEADER.size:
            return False
        _size, version, vendor, device, uuid = HEADER.unpack_from(payload)
        caps = self._caps
        return (version, vendor, device, uuid.hex()) == (1, caps.vendor_id, caps.device_id, caps.cache_uuid)

    def store(self, key: str, payload: bytes) -> None:
        """Write the payload, whole or not at all. A payload that is only a header is not worth a file."""
        if len(payload) <= HEADER.size:
            return
        temporary = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".tmp", delete=False) as file:
                temporary = file.name
                file.write(MAGIC + hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, self.path(key))
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
