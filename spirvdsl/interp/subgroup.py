"""Subgroup operations over the lanes of a batch, of any power-of-two width, the last subgroup of a workgroup partial.

Values [L] are laid out as rows [R, S]: one row per subgroup, padded with lanes that are never active. Where the API
leaves a result undefined (a shuffle from a lane that is not there) the result is a loud pattern, not a plausible value.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .faults import Fault
from .masks import first
from .values import map_leaves

_ARITH: dict[str, Callable] = {
    "add": np.add, "mul": np.multiply, "min": np.fmin, "max": np.fmax,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}


def identity(fn: str, dtype: np.dtype):
    """The neutral element of a reduction."""
    kind = dtype.kind
    if fn in ("min", "max"):
        if kind == "f":
            return dtype.type(np.inf if fn == "min" else -np.inf)
        return np.iinfo(dtype).max if fn == "min" else np.iinfo(dtype).min
    if fn == "and":
        return True if kind == "b" else np.array(-1).astype(dtype)[()]
    return 1 if fn == "mul" else 0


def loud(dtype: np.dtype):
    """What an undefined result is filled with."""
    if dtype.kind == "f":
        return np.nan
    return True if dtype.kind == "b" else np.array(0x5EAD_BEEF_5EAD_BEEF).astype(dtype)[()]


class Subgroups:
    """Geometry of a batch (G workgroups of T lanes, subgroups of S) and the operations on it."""

    def __init__(self, groups: int, threads: int, size: int):
        self.size, self.lanes, self.per_group = size, groups * threads, -(-threads // size)
        self.count = groups * self.per_group
        place = np.arange(self.lanes)
        group, local = place // threads, place % threads
        self.row, self.lane = group * self.per_group + local // size, local % size
        self.where = self.row * size + self.lane  # position of every lane in the flattened rows
        self.source = np.full(self.count * size, -1, np.intp)  # lane at every position, -1: padding
        self.source[self.where] = place
        self.exact = threads % size == 0
        self.real = (self.source >= 0).reshape(self.count, size)

    def rows(self, x) -> np.ndarray:
        """[R, S] of a scalar value; padding holds anything."""
        x = np.broadcast_to(x, (self.lanes,))
        return (x if self.exact else x.take(np.maximum(self.source, 0))).reshape(self.count, self.size)

    def flat(self, rows: np.ndarray) -> np.ndarray:
        """The [L] value of rows."""
        flat = rows.reshape(-1)
        return flat if self.exact else flat.take(self.where)

    def active(self, m) -> np.ndarray:
        """[R, S] bool: lanes that execute."""
        return self.real if m is None else self.rows(m) & self.real

    # arithmetic
    def reduce(self, fn: str, mode: str, cluster: int | None, x, m):
        """Reductions and scans of a scalar or vector over the active lanes."""
        if x.ndim == 2:
            return np.stack([np.broadcast_to(self.reduce(fn, mode, cluster, c, m), (self.lanes,)) for c in self._components(x)])
        ufunc, neutral = _ARITH[fn], identity(fn, x.dtype)
        rows = np.where(self.active(m), self.rows(x), np.array(neutral, x.dtype))
        width = min(cluster or self.size, self.size)
        if mode == "reduce":
            tree = rows.reshape(-1, width)
            while tree.shape[1] > 1:
                half = tree.shape[1] // 2
                tree = ufunc(tree[:, :half], tree[:, half:])
            return self.flat(np.broadcast_to(tree, (tree.shape[0], width)).reshape(self.count, self.size))
        scan = ufunc.accumulate(rows, axis=1, dtype=rows.dtype)
        if mode == "exclusive":
            scan = np.concatenate([np.full((self.count, 1), neutral, rows.dtype), scan[:, :-1]], axis=1)
        return self.flat(scan)

    def _components(self, x):
        return [c[0] if c.shape[0] == 1 else c for c in x]

    # votes
    def elect(self, m):
        """True in the lowest active lane of each subgroup."""
        return self._first(m)[self.row] == self.lane

    def _first(self, m) -> np.ndarray:
        return np.argmax(self.active(m), axis=1)

    def vote(self, fn: str, x, m):
        """all, any."""
        rows, active = self.rows(x), self.active(m)
        hit = (rows | ~active).all(axis=1) if fn == "all" else (rows & active).any(axis=1)
        return hit[self.row]

    def all_equal(self, x, m):
        """True where every active lane holds the first one's value (all components of a vector)."""
        if x.ndim == 2:
            return np.logical_and.reduce([self.all_equal(c, m) for c in self._components(x)])
        rows, active = self.rows(x), self.active(m)
        head = np.take_along_axis(rows, self._first(m)[:, None], axis=1)
        return ((rows == head) | ~active).all(axis=1)[self.row]

    # ballots
    def ballot(self, x, m):
        """u32x4 of the active lanes where x."""
        bits = np.zeros((self.count, 128), bool)
        bits[:, : self.size] = self.rows(x) & self.active(m)
        words = np.packbits(bits, axis=1, bitorder="little").view(np.uint32)
        return np.ascontiguousarray(words[self.row].T)

    def _bits(self, ballot) -> np.ndarray:
        """[L, 128] bool of a ballot value."""
        words = np.ascontiguousarray(np.broadcast_to(ballot, (4, self.lanes)).T)
        return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(bool)

    def inverse_ballot(self, ballot):
        """This lane's bit."""
        return self._bits(ballot)[np.arange(self.lanes), self.lane]

    def ballot_bit_count(self, ballot, mode: str):
        """Set bits: of the subgroup, up to and with this lane, or before it."""
        end = {"reduce": self.size, "inclusive": self.lane + 1, "exclusive": self.lane}[mode]
        counted = self._bits(ballot) & (np.arange(128) < np.reshape(end, (-1, 1)))
        return counted.sum(axis=1).astype(np.uint32)

    # moves
    def pick(self, x, lane, m, strict: str = ""):
        """x of lane `lane` (int array [L]) of this lane's subgroup; `strict` names an operation that refuses missing lanes."""
        inside = (lane >= 0) & (lane < self.size)
        source = self.source[self.row * self.size + np.where(inside, lane, 0)]
        there = inside & (source >= 0)
        if m is not None:
            there &= m[source]
        missing = ~there if m is None else m & ~there
        if strict and missing.any():
            at = first(missing)
            raise Fault(f"subgroup {strict} reads lane {int(lane[at])}, which is not active", at)
        if not isinstance(x, tuple) and x.ndim == 0:
            return x if there.all() else np.where(there, x, np.array(loud(x.dtype), x.dtype))
        source = np.where(there, source, 0)
        whole = there.all()

        def move(v):
            v = np.broadcast_to(v, (*v.shape[:-1], self.lanes)).take(source, axis=-1)
            return v if whole else np.where(there, v, np.array(loud(v.dtype), v.dtype))

        return map_leaves(move, x)

    def _lanes(self, lane) -> np.ndarray:
        return np.broadcast_to(lane, (self.lanes,)).astype(np.int64)

    def broadcast(self, x, lane, m, check: bool):
        """x of one lane, which all active lanes must name."""
        asked = self._lanes(lane)
        if check and lane.ndim:
            rows, active = self.rows(asked), self.active(m)
            head = np.take_along_axis(rows, self._first(m)[:, None], axis=1)
            differ = self.flat((rows != head) & active)
            if differ.any():
                at = first(differ)
                raise Fault(f"subgroup broadcast: lanes disagree on the lane to read ({int(asked[at])} here)", at)
        return self.pick(x, asked, m, "broadcast" if check else "")

    def broadcast_first(self, x, m):
        """x of the lowest active lane."""
        return self.pick(x, self._first(m)[self.row], m)

    def move(self, fn: str, x, by, m, cluster: int | None = None):
        """shuffle, shuffle_xor, shuffle_up, shuffle_down, rotate, quad_broadcast, quad_swap."""
        by = self._lanes(by)
        lane = self.lane
        width = cluster or self.size
        target = {
            "shuffle": lambda: by, "shuffle_xor": lambda: lane ^ by, "shuffle_up": lambda: lane - by,
            "shuffle_down": lambda: lane + by, "rotate": lambda: lane // width * width + (lane + by) % width,
            "quad_broadcast": lambda: lane // 4 * 4 + by, "quad_swap": lambda: lane ^ (by + 1),
        }[fn]()
        return self.pick(x, target, m)
