"""The single pass over a GGUF header: magic, counts, metadata, tensor infos (ggml docs/gguf.md, versions 2 and 3).

Every length is checked against what is left of the file before it is used, so that nothing larger than the file is
ever allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

import numpy as np

from runtime.gguf import layout
from runtime.gguf.errors import CONVERT, DAMAGED, GGUFError, shown
from runtime.gguf.strings import StringArray, walk

_U32, _U64 = Struct("<I"), Struct("<Q")
_SCALAR_STRUCTS = {id_: Struct("<" + t.code) for id_, t in layout.SCALARS.items()}


@dataclass(frozen=True)
class TensorInfo:
    """One tensor. shape: numpy order (rows ..., cols); offset: bytes from the start of the file; nbytes: as stored."""

    name: str
    shape: tuple[int, ...]
    type: layout.TensorType
    type_name: str
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Header:
    """What one file says about itself. types: key -> (value type, element type of an array or None)."""

    version: int
    alignment: int
    data_offset: int
    metadata: dict[str, object]
    types: dict[str, tuple[str, str | None]]
    tensors: dict[str, TensorInfo]


class _Cursor:
    """A position in the mapped file that never passes its end."""

    def __init__(self, buffer, path):
        self.buffer, self.path, self.size, self.at = buffer, path, len(buffer), 0
        # Decoding takes up to five bytes for one of UTF-8 while a str is widened: a lone string may be a part of a file.
        self.max_text = min(layout.MAX_TEXT, max(layout.MIN_MAX_TEXT, self.size // 8))

    def fail(self, field: str, reason: str, remedy: str = DAMAGED) -> GGUFError:
        return GGUFError(self.path, field, reason, remedy)

    def need(self, nbytes: int, field: str) -> None:
        if nbytes > self.size - self.at:
            raise self.fail(field, f"needs {nbytes} bytes at offset {self.at}, the file has {self.size}")

    def u32(self, field: str) -> int:
        self.need(4, field)
        self.at += 4
        return _U32.unpack_from(self.buffer, self.at - 4)[0]

    def u64(self, field: str) -> int:
        self.need(8, field)
        self.at += 8
        return _U64.unpack_from(self.buffer, self.at - 8)[0]

    def text(self, field: str, limit: int | None = None) -> str:
        size, limit = self.u64(field), limit or self.max_text
        if size > limit:
            raise self.fail(field, f"a string of {size} bytes is over the limit of {limit}")
        self.need(size, field)
        begin, self.at = self.at, self.at + size
        try:
            with memoryview(self.buffer)[begin : self.at] as view:  # decoded in place: no second copy of a long string
                return str(view, "utf-8")
        except UnicodeDecodeError:
            raise self.fail(field, f"{shown(self.buffer[begin : begin + 80])} is not UTF-8") from None


def read_header(buffer, path) -> Header:
    """Read and check everything before the tensor data. buffer: mmap or bytes of the whole file. Raises GGUFError."""
    cursor = _Cursor(buffer, path)
    version = _read_version(cursor)
    n_tensors, n_kv = cursor.u64("tensor count"), cursor.u64("metadata count")
    left = cursor.size - cursor.at
    if n_tensors > layout.MAX_TENSORS or n_kv > layout.MAX_ENTRIES:
        raise cursor.fail(
            "header",
            f"{n_tensors} tensors and {n_kv} metadata entries are over the limits of {layout.MAX_TENSORS} and "
            f"{layout.MAX_ENTRIES}",
        )
    if n_kv * layout.MIN_KV_BYTES + n_tensors * layout.MIN_TENSOR_BYTES > left:
        raise cursor.fail(
            "header", f"{n_tensors} tensors and {n_kv} metadata entries do not fit in the {left} bytes that follow"
        )
    metadata, types = _read_metadata(cursor, n_kv)
    alignment = _alignment(cursor, metadata, types)
    raw_infos = _read_infos(cursor, n_tensors)
    data_offset = -(-cursor.at // alignment) * alignment
    tensors = {
        name: _place(cursor, name, dims, kind, offset, alignment, data_offset)
        for name, (dims, kind, offset) in raw_infos.items()
    }
    _refuse_overlap(cursor, tensors)
    return Header(version, alignment, data_offset, metadata, types, tensors)


def _read_version(cursor: _Cursor) -> int:
    if cursor.size < 4 or cursor.buffer[:4] != layout.MAGIC:
        raise cursor.fail("magic", f"the file begins with {cursor.buffer[:4]!r}, not b'GGUF'", "give a .gguf file")
    cursor.at = 4
    version = cursor.u32("version")
    if version & 0xFFFF == 0 and version:
        raise cursor.fail(
            "version", f"{version:#010x} reads as big-endian", "convert the model to a little-endian GGUF"
        )
    if version not in layout.VERSIONS:
        raise cursor.fail(
            "version", f"{version} is not supported (2 and 3 are)", "convert the model again with a current converter"
        )
    return version


def _read_metadata(cursor: _Cursor, count: int) -> tuple[dict, dict]:
    metadata: dict[str, object] = {}
    types: dict[str, tuple[str, str | None]] = {}
    for i in range(count):
        key = cursor.text(f"metadata key {i}")
        if not key or key in metadata:
            raise cursor.fail(f"metadata key {i}", f"{shown(key)} is empty or a duplicate", CONVERT)
        field = f"metadata {shown(key)}"
        kind = cursor.u32(field)
        if kind == layout.STRING:
            metadata[key], types[key] = cursor.text(field), ("string", None)
        elif kind == layout.ARRAY:
            metadata[key], types[key] = _read_array(cursor, field)
        elif kind in layout.SCALARS:
            metadata[key], types[key] = _read_scalar(cursor, field, kind), (layout.SCALARS[kind].name, None)
        else:
            raise cursor.fail(field, f"value type {kind} is unknown")
    return metadata, types


def _read_scalar(cursor: _Cursor, field: str, kind: int) -> int | float | bool:
    struct = _SCALAR_STRUCTS[kind]
    cursor.need(struct.size, field)
    value = struct.unpack_from(cursor.buffer, cursor.at)[0]
    cursor.at += struct.size
    if kind != layout.BOOL:
        return value
    if value > 1:
        raise cursor.fail(field, f"a bool of {value}")
    return bool(value)


def _read_array(cursor: _Cursor, field: str) -> tuple[object, tuple[str, str]]:
    kind, count = cursor.u32(field), cursor.u64(field)
    if count > layout.MAX_LENGTH:
        raise cursor.fail(field, f"an array of {count} elements is over the limit of {layout.MAX_LENGTH}")
    if kind == layout.STRING:
        cursor.need(count * 8, field)
        end = walk(cursor.buffer, cursor.at, count, cursor.size)
        if end < 0:
            raise cursor.fail(field, f"string {-1 - end} of {count} passes the end of the file")
        strings, cursor.at = StringArray(cursor.buffer, cursor.at, count), end
        return strings, ("array", "string")
    if kind not in layout.SCALARS:
        raise cursor.fail(
            field,
            "an array of arrays is not supported" if kind == layout.ARRAY else f"array element type {kind} is unknown",
            CONVERT,
        )
    scalar = layout.SCALARS[kind]
    cursor.need(count * scalar.size, field)
    view = np.frombuffer(cursor.buffer, np.dtype("<" + scalar.code), count, cursor.at)
    cursor.at += view.nbytes
    if kind == layout.BOOL:
        if count and view.max() > 1:
            raise cursor.fail(field, f"a bool of {view.max()}")
        view = view.view(np.bool_)
    return view, ("array", scalar.name)


def _alignment(cursor: _Cursor, metadata: dict, types: dict) -> int:
    key = "general.alignment"
    if key not in metadata:
        return layout.DEFAULT_ALIGNMENT
    value, kind = metadata[key], types[key][0]
    if kind != "u32":
        raise cursor.fail(key, f"expected u32, file has {kind}", CONVERT)
    if value == 0 or value & (value - 1):
        raise cursor.fail(key, f"{value} is not a power of two", CONVERT)
    return value


def _read_infos(cursor: _Cursor, count: int) -> dict[str, tuple[tuple[int, ...], int, int]]:
    """name -> (dims in file order, type id, offset in the data section)."""
    infos: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for i in range(count):
        field = f"tensor {i} name"
        name = cursor.text(field, layout.MAX_NAME)
        if not name or name in infos:
            raise cursor.fail(field, f"{shown(name)} is empty or a duplicate", CONVERT)
        field = f"tensor {shown(name)}"
        n_dims = cursor.u32(field)
        if n_dims > layout.MAX_DIMS:
            raise cursor.fail(field, f"{n_dims} dimensions are over the limit of {layout.MAX_DIMS}")
        dims = tuple(cursor.u64(field) for _ in range(n_dims)) or (1,)
        infos[name] = dims, cursor.u32(field), cursor.u64(field)
    return infos


def _place(
    cursor: _Cursor, name: str, dims: tuple[int, ...], kind: int, offset: int, alignment: int, data_offset: int
) -> TensorInfo:
    field = f"tensor {shown(name)}"
    count = 1
    for dim in dims:
        count *= dim
        if dim == 0 or count > layout.MAX_COUNT:
            raise cursor.fail(field, f"dimensions {dims} are empty or overflow")
    type_ = layout.TYPES.get(kind)
    if type_ is None:
        raise cursor.fail(
            field, f"tensor type id {kind} is unknown", "convert or quantise the model to a supported type"
        )
    if dims[0] % type_.elements:
        raise cursor.fail(
            field, f"rows of {dims[0]} are not a multiple of the {type_.elements} elements of a {type_.name} block", CONVERT
        )
    nbytes = count // type_.elements * type_.size
    begin = data_offset + offset
    if offset % alignment:
        raise cursor.fail(field, f"data offset {offset} is not a multiple of the alignment {alignment}", CONVERT)
    if begin + nbytes > cursor.size:
        raise cursor.fail(
            field,
            f"its data ends at byte {begin + nbytes}, the file has {cursor.size}",
            "the file is cut short: download it again",
        )
    return TensorInfo(name, tuple(reversed(dims)), type_, type_.name, begin, nbytes)


def _refuse_overlap(cursor: _Cursor, tensors: dict[str, TensorInfo]) -> None:
    previous = None
    for tensor in sorted(tensors.values(), key=lambda t: t.offset):
        if previous is not None and tensor.offset < previous.offset + previous.nbytes:
            raise cursor.fail(f"tensor {shown(tensor.name)}", f"overlaps tensor {shown(previous.name)}", CONVERT)
        previous = tensor
