"""Memory of a batch: buffers as bytes with typed views, workgroup memory per workgroup, and indexable locals per lane.

A place in byte memory is a typed view of it plus an element index per lane (int when uniform); std430 aligns every
scalar to its own size, so any scalar is an element of the view of its own type.
"""

from __future__ import annotations

import numpy as np

from .faults import Fault, Partial, Poison
from .masks import covered, first, minus, st
from .values import squeeze

ROWS = {n: np.arange(n)[:, None] for n in range(1, 129)}  # offsets of the components of a vector


def rows(n: int) -> np.ndarray:
    """Column of 0 .. n-1."""
    return ROWS[n] if n in ROWS else np.arange(n)[:, None]


def load_row(view: np.ndarray, at, n: int) -> np.ndarray:
    """n consecutive elements as a vector."""
    if isinstance(at, int):
        return view[at : at + n].reshape(n, 1).copy()
    return view.take(at + rows(n))


def load_many(view: np.ndarray, at, n: int) -> tuple:
    """n consecutive elements as the members of an array value."""
    return tuple(squeeze(r) for r in load_row(view, at, n))


def store(view: np.ndarray, at, value, m) -> None:
    """Stores a scalar in the lanes of m; where lanes share an address the last one wins."""
    if m is False:
        return
    if m is not None:
        lanes = m.nonzero()[0]
        if not isinstance(at, int):
            at = at[lanes]
        if value.ndim:
            value = value[lanes]
    if isinstance(at, int) and value.ndim:
        value = value[-1]
    view[at] = value


def padded(nbytes: int) -> int:
    """Size of a workgroup variable, so that every typed view of the batch's memory tiles evenly."""
    return -(-max(nbytes, 1) // 16) * 16


class WorkgroupMemory:
    """One workgroup variable, once per workgroup of the batch. `init` has a byte 1 for every byte stored to.

    `watch(kind, first byte, size, lanes, epoch)` is called on every access when it is set; `epoch` counts barriers. It
    is how race detection listens.
    """

    watch = None

    def __init__(self, name: str, nbytes: int, groups: int):
        self.name, self.nbytes, self.stride = name, nbytes, padded(nbytes)
        self.data = np.zeros(groups * self.stride, np.uint8)
        self.init = np.zeros(groups * self.stride, np.uint8)
        self.init.reshape(groups, self.stride)[:, nbytes:] = 1
        self.full = False
        self.epoch = 0

    def barrier(self) -> None:
        """All lanes have met: from here on earlier stores are seen."""
        self.epoch += 1
        if not self.full:
            self.full = bool(self.init.all())

    def load(self, view: np.ndarray, at, count: int, m, check: bool):
        """A scalar (count 0) or `count` consecutive elements of a typed view of the memory."""
        if check:
            self.read(view.itemsize, at, max(count, 1), m)
        return load_row(view, at, count) if count else view.take(at)

    def read(self, size: int, at, count: int, m) -> None:
        """Checks that `count` elements of `size` bytes at element index `at` have been stored to."""
        if self.watch is not None:
            self.watch("read", at, size, m, self.epoch)
        if self.full:
            return
        dtype = np.dtype(f"u{size}")
        whole = dtype.type(int.from_bytes(b"\1" * size, "little"))
        where = at if count == 1 else at + rows(count)
        bad = np.asarray(self.init.view(dtype)[where] != whole)
        if not bad.any():
            return
        if bad.ndim == 2:
            bad = bad.any(axis=0)
        if m is not None:
            bad = bad & m
            if not bad.any():
                return
        lane = int(np.argmax(bad)) if bad.size > 1 else first(m)
        raise Fault(f"read of workgroup memory '{self.name}' that no store has reached", lane)

    def wrote(self, size: int, at, m) -> None:
        """Notes that the lanes of m have stored an element."""
        if self.watch is not None:
            self.watch("write", at, size, m, self.epoch)
        if self.full:
            return
        dtype = np.dtype(f"u{size}")
        if m is not None and not isinstance(at, int):
            at = at[m]
        self.init.view(dtype)[at] = int.from_bytes(b"\1" * size, "little")


class LaneArray:
    """A local array that is indexed at run time: `slots` while indices are uniform, a matrix [n, ..., L] once they differ.

    An element is a scalar or a vector value. Uniform contents (tables) stay one column wide.
    """

    def __init__(self, n: int, name: str, lanes: int):
        self.n, self.name, self.lanes = n, name, lanes
        self.slots: list | None = [Partial(None, False)] * n
        self.matrix: np.ndarray | None = None  # all elements; authoritative when slots is None
        self.init: np.ndarray | None = None  # [n, L] lanes that have stored, None: all (with matrix)

    def get(self, k, m, lenient: bool = False):
        """Element k; Fault (or poison when `lenient`) where it has not been stored."""
        if isinstance(k, int) and self.slots is not None:
            x = self.slots[k]
            if x.__class__ is not Partial:
                return x
            refused = self._check(x.init, m, lenient)
            return x.value if refused is None else refused
        if self.matrix is None:
            self._build()
        if isinstance(k, int):
            refused = None if self.init is None else self._check(self.init[k], m, lenient)
            return _narrow(self.matrix[k].copy()) if refused is None else refused
        if self.init is not None:
            refused = self._check(self.init[k, np.arange(self.lanes)], m, lenient)
            if refused is not None:
                return refused
        if self.matrix.shape[-1] == 1:
            return np.moveaxis(self.matrix[..., 0].take(k, axis=0), 0, -1)
        if self.matrix.ndim == 2:
            return self.matrix.reshape(-1).take(k * self.lanes + np.arange(self.lanes))
        return self.matrix[k, :, np.arange(self.lanes)].T

    def set(self, k, value, m, live) -> None:
        """Stores element k in the lanes of m; `live` are all lanes of the function that may read it."""
        if isinstance(k, int) and self.slots is not None:
            self.slots[k] = value if m is live else st(self.slots[k], value, m)
            self.matrix = self.init = None
            return
        if isinstance(value, Poison):
            value.refuse()
        if self.matrix is None:
            self._build(value)
        self._widen(value)
        lanes = np.arange(self.lanes) if m is None else m.nonzero()[0]
        where = k if isinstance(k, int) else k[lanes]
        picked = value[..., lanes] if value.ndim and value.shape[-1] > 1 else value
        if value.ndim == 2:
            self.matrix[where, :, lanes] = np.broadcast_to(picked, (value.shape[0], lanes.size)).T
        else:
            self.matrix[where, lanes] = picked
        if self.init is not None:
            self.init[where, lanes] = True
            if self.init.all():
                self.init = None

    def _check(self, init, m, lenient: bool) -> Poison | None:
        if covered(m, init):
            return None
        if lenient:
            return Poison(f"a part of {self.name} that no store has reached")
        lane = first(m if init is False else minus(m, init))
        raise Fault(f"read of an element of {self.name} that no store has reached", lane)

    def _build(self, like=None) -> None:
        values = [x.value if x.__class__ is Partial else x for x in self.slots]
        sample = next((v for v in values if v is not None), like)
        if sample is None:
            raise Fault(f"read of an element of {self.name} that no store has reached")
        width = max((v.shape[-1] if v.ndim else 1 for v in values if v is not None), default=1)
        part = any(x.__class__ is Partial for x in self.slots)
        width = self.lanes if part else width
        shape = (self.n, *sample.shape[:-1], width) if sample.ndim == 2 else (self.n, width)
        self.matrix = np.zeros(shape, sample.dtype)
        for i, v in enumerate(values):
            if v is not None:
                self.matrix[i] = v
        self.init = None
        if part:
            self.init = np.zeros((self.n, self.lanes), bool)
            for i, x in enumerate(self.slots):
                self.init[i] = True if x.__class__ is not Partial else x.init

    def _widen(self, value) -> None:
        """The matrix becomes authoritative, with a column per lane."""
        if self.matrix.shape[-1] != self.lanes:
            self.matrix = np.repeat(self.matrix, self.lanes, axis=-1)
        self.slots = None


def _narrow(row: np.ndarray):
    return squeeze(row) if row.ndim == 1 else row

