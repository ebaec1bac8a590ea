"""GGUF files byte by byte, right or wrong: what PyPI gguf's writer would never write, for tests of the reader."""

from __future__ import annotations

import struct

TYPE_IDS = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "string": 8, "array": 9}
TYPE_IDS |= {"u64": 10, "i64": 11, "f64": 12}
CODES = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f", "bool": "B"}
CODES |= {"u64": "Q", "i64": "q", "f64": "d"}


def string(text: str | bytes, length: int | None = None) -> bytes:
    """A string with its u64 length, or with a false one."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data) if length is None else length) + data


def value(kind: str, item) -> bytes:
    """One scalar or string."""
    return string(item) if kind == "string" else struct.pack("<" + CODES[kind], item)


def entry(key: str | bytes, kind: str, item, type_id: int | None = None) -> bytes:
    """A metadata entry: its key, its type (or a false type id) and its value."""
    return string(key) + struct.pack("<I", TYPE_IDS[kind] if type_id is None else type_id) + value(kind, item)


def array(key: str, kind: str, items, count: int | None = None, element_id: int | None = None) -> bytes:
    """A metadata entry that is an array, with its count and element type id or false ones."""
    head = struct.pack(
        "<IIQ", 9, TYPE_IDS[kind] if element_id is None else element_id, len(items) if count is None else count
    )
    return string(key) + head + b"".join(value(kind, item) for item in items)


def info(name: str | bytes, dims, type_id: int = 0, offset: int = 0, n_dims: int | None = None) -> bytes:
    """A tensor info; dims in file order (columns first)."""
    count = len(dims) if n_dims is None else n_dims
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", count, *dims, type_id, offset)


def file(
    entries=(),
    infos=(),
    data: int = 0,
    *,
    version: int = 3,
    magic: bytes = b"GGUF",
    alignment: int = 32,
    n_entries: int | None = None,
    n_tensors: int | None = None,
) -> bytes:
    """A whole file with `data` bytes of tensor data; counts may be false."""
    counts = len(infos) if n_tensors is None else n_tensors, len(entries) if n_entries is None else n_entries
    head = magic + struct.pack("<IQQ", version, *counts) + b"".join(entries) + b"".join(infos)
    return head + bytes(-len(head) % alignment + data) if infos else head


ARCH = entry("general.architecture", "string", "qwen3")
