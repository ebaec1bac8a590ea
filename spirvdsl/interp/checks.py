"""Run-time checks for what the IR leaves undefined. Each raises Fault naming the first lane concerned."""

from __future__ import annotations

import numpy as np

from .faults import Fault
from .masks import first


def _lane(bad, m) -> int | None:
    """First lane of m where bad ([L], [n, L], or uniform), None when there is none."""
    if not bad.any():
        return None
    if bad.ndim == 2:
        bad = bad.any(axis=0)
    if bad.size == 1:
        return first(m)
    if m is not None:
        bad = bad & m
        if not bad.any():
            return None
    return int(np.argmax(bad))


def _at(x, lane: int):
    """What lane `lane` of a value holds, for a message."""
    x = np.asarray(x)
    if x.ndim == 0:
        return x.item()
    if x.ndim == 1:
        return x[lane if x.shape[0] > 1 else 0].item()
    return [row[lane if x.shape[1] > 1 else 0].item() for row in x]


def shift(n, bits: int, m) -> None:
    """Shift counts are below the width."""
    bad = (n < 0) | (n >= bits) if n.dtype.kind == "i" else n >= bits
    lane = _lane(bad, m)
    if lane is not None:
        raise Fault(f"shift by {_at(n, lane)}, the type has {bits} bits", lane)


def division(a, b, least: int | None, m) -> None:
    """The divisor is not 0, and the signed division does not overflow (`least`: smallest value, None if unsigned)."""
    lane = _lane(b == 0, m)
    if lane is not None:
        raise Fault(f"division of {_at(a, lane)} by zero", lane)
    if least is not None:
        lane = _lane((b == -1) & (a == least), m)
        if lane is not None:
            raise Fault(f"division of {_at(a, lane)} by -1 overflows", lane)


def float_to_int(x, lo: float, hi: float, name: str, m) -> None:
    """The float lies in the integer type's range (NaN does not)."""
    wide = x.astype(np.float64)
    lane = _lane(~((wide > lo) & (wide < hi)), m)
    if lane is not None:
        raise Fault(f"{_at(x, lane)} is out of range for {name}", lane)


def bit_field(at, count, bits: int, m) -> None:
    """offset + count is within the width."""
    lane = _lane(at.astype(np.int64) + count.astype(np.int64) > bits, m)
    if lane is not None:
        raise Fault(f"bit field at {_at(at, lane)} of {_at(count, lane)} bits, the type has {bits}", lane)


class Bad:
    """Lanes in which an index is out of range; nothing is wrong until one of them uses the place."""

    __slots__ = ("index", "lanes", "length", "name")

    def __init__(self, lanes, index, length: int, name: str):
        self.lanes, self.index, self.length, self.name = lanes, index, length, name

    def report(self, m) -> None:
        """Fault when a lane of m is concerned."""
        lane = _lane(self.lanes, m)
        if lane is not None:
            raise Fault(f"index {_at(self.index, lane)} is out of range of {self.name}, length {self.length}", lane)

    def without(self, m):
        """m less the lanes concerned, for stores when checks are off."""
        if self.lanes.ndim == 0:
            return False
        t = ~self.lanes if m is None else np.greater(m, self.lanes)
        return t if t.any() else False


def index(v, n: int, name: str):
    """(index as int or intp array, Bad or None). Out-of-range lanes get index 0."""
    if v.ndim == 0:
        k = int(v)
        return (k, None) if 0 <= k < n else (0, Bad(np.True_, v, n, name))
    k = v.astype(np.intp)
    if k.view(np.uintp).max() < n:
        return k, None
    lanes = k.view(np.uintp) >= n
    return np.where(lanes, 0, k), Bad(lanes, v, n, name)


def lane_index(v, n: int, m) -> None:
    """A dynamic vector lane is in range."""
    _, bad = index(v, n, "a vector")
    if bad is not None:
        bad.report(m)


def unreachable(m) -> None:
    """Nothing gets here."""
    raise Fault("code marked unreachable is reached", first(m))


def stuck(limit: int, m) -> None:
    """A loop has passed the bound."""
    raise Fault(f"loop still runs after {limit} iterations", first(m))
