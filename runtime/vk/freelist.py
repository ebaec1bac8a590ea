"""Free ranges of one memory block: first fit, coalescing on free."""
from __future__ import annotations

from bisect import bisect_left


class FreeList:
    """Ranges of [0, size). Offsets and sizes in bytes."""

    def __init__(self, size: int):
        self.size = size
        self._starts = [0]
        self._ends = [size]

    @property
    def free_bytes(self) -> int:
        """Sum of the free ranges."""
        return sum(self._ends) - sum(self._starts)

    @property
    def empty(self) -> bool:
        """True when nothing is taken."""
        return self._starts == [0] and self._ends == [self.size]

    def take(self, size: int, alignment: int) -> int | None:
        """Offset of `size` free bytes, now taken; None when no range is long enough."""
        for i, (start, end) in enumerate(zip(self._starts, self._ends, strict=True)):
            offset = -(-start // alignment) * alignment
            if offset + size > end:
                continue
            pieces = [(s, e) for s, e in ((start, offset), (offset + size, end)) if s < e]
            self._starts[i:i + 1] = [s for s, _ in pieces]
            self._ends[i:i + 1] = [e for _, e in pieces]
            return offset
        return None

    def give(self, offset: int, size: int) -> None:
        """Return a range that `take` gave. Raises ValueError when part of it is free already."""
        end = offset + size
        i = bisect_left(self._starts, offset)
        if (i < len(self._starts) and self._starts[i] < end) or (i > 0 and self._ends[i - 1] > offset):
            raise ValueError(f"memory range {offset}+{size} freed twice")
        self._starts.insert(i, offset)
        self._ends.insert(i, end)
        if i + 1 < len(self._starts) and self._starts[i + 1] == end:
            self._ends[i] = self._ends.pop(i + 1)
            del self._starts[i + 1]
        if i > 0 and self._ends[i - 1] == offset:
            self._ends[i - 1] = self._ends.pop(i)
            del self._starts[i]
