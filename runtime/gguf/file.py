"""A GGUF file as the runtime sees it: mapped bytes, checked header, typed metadata."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from runtime.gguf import layout
from runtime.gguf.errors import CONVERT, GGUFError, shown
from runtime.gguf.reader import Header, TensorInfo, read_header

_REQUIRED = object()


class GGUFFile:
    """One model file. Made by `open_gguf`; a context manager.

    metadata: key -> int, float, bool, str, StringArray or a read-only numpy view.
    types: key -> (value type, element type of an array or None), by the names of `layout.TYPE_NAMES`.
    tensors: name -> TensorInfo in the order of the file. Views of the data keep the mapping alive after `close`.
    """

    def __init__(self, path: str, buffer: mmap.mmap, header: Header):
        self.path, self.version, self.alignment = path, header.version, header.alignment
        self.size = len(buffer)
        self.metadata: Mapping[str, object] = MappingProxyType(header.metadata)
        self.types: Mapping[str, tuple[str, str | None]] = MappingProxyType(header.types)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(header.tensors)
        self._buffer: mmap.mmap | None = buffer

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the mapping; it ends when the last view of it does."""
        self._buffer = None

    def __repr__(self) -> str:
        return f"GGUFFile({self.path!r}, {len(self.metadata)} metadata entries, {len(self.tensors)} tensors)"

    @property
    def arch(self) -> str:
        """general.architecture. Raises GGUFError where the file has none."""
        return self.require("general.architecture", str)

    def tensor(self, name: str) -> TensorInfo:
        """The info of one tensor. Raises GGUFError naming it when it is missing."""
        if name not in self.tensors:
            raise GGUFError(self.path, f"tensor {shown(name)}", "is missing", CONVERT)
        return self.tensors[name]

    def data(self, name: str) -> np.ndarray:
        """The stored bytes of a tensor: u8 [nbytes], a read-only view of the mapped file. Raises GGUFError."""
        info = self.tensor(name)
        if self._buffer is None:
            raise GGUFError(self.path, f"tensor {shown(name)}", "the file is closed", "keep it open while reading")
        return np.frombuffer(self._buffer, np.uint8, info.nbytes, info.offset)

    def get(self, key: str, default=None, type=None):
        """The value of a key, or `default`. type: see `require`; checked only where the key is there."""
        if key not in self.metadata:
            return default
        if type is not None:
            self._check(key, type)
        return self.metadata[key]

    def require(self, key: str, type=None):
        """The value of a key that must be there.

        type: a GGUF type name ("u32", "string", "array", ...), "T[]" for an array of T, or a class of types: int,
        float, bool, str, list.
        Raises GGUFError naming the key when it is missing or of another type.
        """
        if key not in self.metadata:
            raise GGUFError(self.path, key, "is missing", "convert the model again with a current converter")
        return self.get(key, type=type)

    def per_layer(self, key: str, n_layer: int, type=int, default=_REQUIRED) -> list:
        """One value per layer, as a list of n_layer Python scalars, from a scalar (the same for all) or an array.

        type: the scalar type as in `require`; an array may hold any integer type where an integer is asked for.
        default: the scalar that a file without the key stands for. Raises GGUFError, also for a short array.
        """
        if key not in self.metadata and default is not _REQUIRED:
            return [default] * n_layer
        kind, element = self.types.get(key, ("", None))
        if kind != "array":
            return [self.require(key, type)] * n_layer
        allowed = _names(type)
        if element not in (layout.INTEGERS if allowed & layout.INTEGERS else allowed):
            raise self._mismatch(key, type)
        values = self.metadata[key]
        if len(values) < n_layer:
            raise GGUFError(self.path, key, f"has {len(values)} elements for {n_layer} layers", CONVERT)
        return [v.item() if isinstance(v, np.generic) else v for v in values[:n_layer]]

    def _check(self, key: str, type) -> None:
        kind, element = self.types[key]
        if kind not in _names(type) and f"{element}[]" not in _names(type):
            raise self._mismatch(key, type)

    def _mismatch(self, key: str, type) -> GGUFError:
        kind, element = self.types[key]
        expected = type if isinstance(type, str) else type.__name__
        return GGUFError(
            self.path, key, f"expected {expected}, file has {kind if element is None else element + '[]'}", CONVERT
        )


def _names(type) -> frozenset[str]:
    return frozenset((type,)) if isinstance(type, str) else layout.CLASSES[type]


def open_gguf(path) -> GGUFFile:
    """Map a GGUF file and check all of its header; tensor data is not touched.

    Raises GGUFError (one line: file, field, reason, remedy) for anything that is not one whole, well-formed GGUF file.
    """
    path = os.fspath(path)
    buffer = _map(path)
    header = read_header(buffer, path)
    _refuse_split(path, header)
    return GGUFFile(path, buffer, header)


def _map(path: str) -> mmap.mmap:
    remedy = "give the path of a .gguf file"
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for a writer
            raise GGUFError(path, "file", "is not a regular file", remedy)
        if status.st_size == 0:
            raise GGUFError(path, "file", "is empty", remedy)
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GGUFError(path, "file", f"cannot be read ({reason})", remedy) from None


def _refuse_split(path: str, header: Header) -> None:
    key, merge = "split.count", "merge the parts into one file (llama-gguf-split --merge)"
    if key not in header.metadata:
        return
    if header.types[key][0] not in layout.INTEGERS:
        raise GGUFError(path, key, f"expected u16, file has {header.types[key][0]}", CONVERT)
    if header.metadata[key] > 1:
        raise GGUFError(path, key, f"this file is one of the {header.metadata[key]} parts of a split model", merge)
