"""String arrays of the metadata, left in the mapped file until somebody asks: a Qwen vocabulary is 300,000 strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct

import numpy as np

_U64 = Struct("<Q")


def walk(buffer, start: int, count: int, stop: int) -> int:
    """The end of `count` strings (u64 length + bytes) that begin at `start`.

    Negative, -1 - i, when string i passes `stop`.
    """
    read, at, last = _U64.unpack_from, start, stop - 8
    for i in range(count):
        if at > last:
            return -1 - i
        at += 8 + read(buffer, at)[0]
    return at if at <= stop else -count


class StringArray(Sequence):
    """A read-only sequence of str over the mapped file. Its bounds were checked when the file was opened.

    buffer: an mmap or bytes (a slice of it is bytes). Elements decode as UTF-8 with surrogateescape, so that any
    bytes survive; `bytes_list` and `bytes_at` give the bytes themselves.
    """

    def __init__(self, buffer, start: int, count: int):
        self._buffer, self._start, self._count = buffer, start, count
        self._offsets: np.ndarray | None = None

    def __len__(self) -> int:
        return self._count

    def _slices(self) -> Iterator[tuple[int, int]]:
        read, buffer, at = _U64.unpack_from, self._buffer, self._start
        for _ in range(self._count):
            begin = at + 8
            at = begin + read(buffer, at)[0]
            yield begin, at

    def bytes_list(self) -> list[bytes]:
        """Every string's bytes, in one fast pass."""
        read, buffer, at, out = _U64.unpack_from, self._buffer, self._start, []
        for _ in range(self._count):
            begin = at + 8
            at = begin + read(buffer, at)[0]
            out.append(buffer[begin:at])
        return out

    def str_list(self) -> list[str]:
        """Every string, in one fast pass."""
        return [b.decode("utf-8", "surrogateescape") for b in self.bytes_list()]

    def bytes_at(self, index: int) -> bytes:
        """One string's bytes. Raises IndexError."""
        if self._offsets is None:
            self._offsets = np.fromiter((begin for begin, _ in self._slices()), np.uint64, self._count)
        begin = int(self._offsets[index])
        return self._buffer[begin : begin + _U64.unpack_from(self._buffer, begin - 8)[0]]

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        return self.bytes_at(index).decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        for begin, end in self._slices():
            yield self._buffer[begin:end].decode("utf-8", "surrogateescape")

    def __eq__(self, other) -> bool:
        if isinstance(other, (StringArray, list, tuple)):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other))
        return NotImplemented

    __hash__ = None

    def __repr__(self) -> str:
        return f"StringArray({self._count} strings)"
