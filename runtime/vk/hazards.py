"""Where a barrier is needed: byte ranges read and written since the last one.

A barrier is needed before an access that overlaps a pending write, or a write that overlaps a pending read. All
barriers are global memory barriers, so one of them clears everything pending; a barrier between compute shaders alone
is kept apart, because it does not make results visible to copies, fills and indirect arguments.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

READ, WRITE = 1, 2
# Where an access happens. INDIRECT is the reading of dispatch arguments.
COMPUTE, TRANSFER, INDIRECT = 1, 2, 4
# What `enter` answers.
NONE, COMPUTE_ONLY, FULL = 0, 1, 2


class Ranges:
    """Disjoint byte ranges, sorted; touching ones are merged."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, start: int, end: int):
        self._starts, self._ends = [start], [end]

    def overlaps(self, start: int, end: int) -> bool:
        """Whether [start, end) meets any of the ranges."""
        i = bisect_right(self._starts, start)
        return (i > 0 and self._ends[i - 1] > start) or (i < len(self._starts) and self._starts[i] < end)

    def add(self, start: int, end: int) -> None:
        """Take [start, end) in."""
        starts, ends = self._starts, self._ends
        lo = bisect_right(starts, start)
        if lo > 0 and ends[lo - 1] >= start:
            lo -= 1
            start = starts[lo]
        hi = bisect_right(starts, end)
        if hi > lo:
            end = max(end, ends[hi - 1])
        starts[lo:hi] = [start]
        ends[lo:hi] = [end]

    def __iter__(self):
        return iter(zip(self._starts, self._ends, strict=True))


class Hazards:
    """Pending accesses of one command buffer.

    A buffer's entry is a (start, end) pair while it has one range, which is the common case, and Ranges from the
    second on: this is the hot path of recording.
    """

    __slots__ = ("_behind", "_pending", "_reads", "_writes")

    def __init__(self):
        self._reads: dict = {}
        self._writes: dict = {}
        self._pending = 0  # stages that accessed something since the last barrier
        self._behind = False  # a compute-only barrier has been set since the last full one

    def enter(self, slices: Sequence, modes: Sequence[int], stage: int) -> int:
        """Record the accesses of the next command; says which barrier must come before it.

        slices: ranges with .buffer, .offset, .end; modes: READ, WRITE or both, one per range.
        """
        barrier = NONE
        if stage != COMPUTE and self._behind:
            barrier = FULL
        elif self._conflict(slices, modes):
            barrier = COMPUTE_ONLY if stage == COMPUTE and self._pending == COMPUTE else FULL
        if barrier:
            self.cleared(barrier)
        self._pending |= stage
        reads, writes = self._reads, self._writes
        for piece, mode in zip(slices, modes, strict=True):
            if mode & READ:
                if piece.buffer in reads:
                    _extend(reads, piece)
                else:
                    reads[piece.buffer] = (piece.offset, piece.end)
            if mode & WRITE:
                if piece.buffer in writes:
                    _extend(writes, piece)
                else:
                    writes[piece.buffer] = (piece.offset, piece.end)
        return barrier

    def cleared(self, barrier: int) -> None:
        """A barrier of this kind has been set."""
        self._reads.clear()
        self._writes.clear()
        self._pending = 0
        self._behind = barrier == COMPUTE_ONLY

    def _conflict(self, slices: Sequence, modes: Sequence[int]) -> bool:
        reads, writes = self._reads, self._writes
        for piece, mode in zip(slices, modes, strict=True):
            if piece.buffer in writes and _meets(writes[piece.buffer], piece):
                return True
            if mode & WRITE and piece.buffer in reads and _meets(reads[piece.buffer], piece):
                return True
        return False


def _meets(pending: tuple[int, int] | Ranges, piece) -> bool:
    if pending.__class__ is tuple:
        return pending[0] < piece.end and piece.offset < pending[1]
    return pending.overlaps(piece.offset, piece.end)


def _extend(table: dict, piece) -> None:
    pending = table[piece.buffer]
    if pending.__class__ is tuple:
        if pending[0] <= piece.offset and piece.end <= pending[1]:
            return
        pending = table[piece.buffer] = Ranges(*pending)
    pending.add(piece.offset, piece.end)
