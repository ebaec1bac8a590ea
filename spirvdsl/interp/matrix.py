"""Cooperative matrices in numpy: what the lanes of a subgroup hold together, and the product.

A matrix value is held as the lanes hold it: [n, L], element i of every lane, like a vector of n components, so that masks,
variables and arithmetic are those of vectors ([n, 1] when every element is the same). n = elements / lanes, rounded up.
Load, store and product gather it to [subgroups, rows, columns].

Which lane owns which element is implementation-defined (SPV_KHR_cooperative_matrix). The order here is none that a device is
known to have: row-major from the LAST element backwards, lane fastest. A kernel that gives the right result here and on
a device does not depend on the order. Products of floats narrower than f32 are exact and summed in f32, in order of k,
rounded to the result's type once; integers are summed exactly, then wrapped or clamped.
"""

from __future__ import annotations

import numpy as np

from ..lang.coopmat import CoopMatrix, MatrixLayout, RowMajor, line_alignment
from .faults import Fault
from .memory import WorkgroupMemory
from .subgroup import Subgroups
from .values import dtype_of, squeeze


class Matrices:
    """Operations on the matrices of a batch."""

    def __init__(self, sub: Subgroups):
        self.sub = sub

    def held(self, t: CoopMatrix) -> int:
        """Elements of a matrix that each lane holds."""
        return -(-t.size // self.sub.size)

    # lanes <-> rows and columns
    def gathered(self, value: np.ndarray, t: CoopMatrix) -> np.ndarray:
        """[R, rows, cols] of a value."""
        n, sub = self.held(t), self.sub
        lanes = np.broadcast_to(value, (n, sub.lanes)).reshape(n, sub.count, sub.size)
        flat = lanes.transpose(1, 0, 2).reshape(sub.count, n * sub.size)
        return flat[:, : t.size][:, ::-1].reshape(sub.count, t.rows, t.cols)

    def spread(self, tiles: np.ndarray, t: CoopMatrix) -> np.ndarray:
        """The value of [R, rows, cols]; positions that no element falls on hold zero."""
        n, sub = self.held(t), self.sub
        flat = np.zeros((sub.count, n * sub.size), tiles.dtype)
        flat[:, : t.size] = tiles.reshape(sub.count, t.size)[:, ::-1]
        return np.ascontiguousarray(flat.reshape(sub.count, n, sub.size).transpose(1, 0, 2)).reshape(n, sub.lanes)

    # who takes part
    def arrived(self, what: str, m) -> np.ndarray:
        """[R] bool: subgroups that execute. Fault when only some lanes of one do, or a subgroup is not whole."""
        sub = self.sub
        if not sub.exact:
            raise Fault(f"{what} in a workgroup that is no whole number of subgroups of {sub.size} lanes")
        if m is None:
            return np.ones(sub.count, bool)
        rows = m.reshape(sub.count, sub.size)
        came = rows.sum(axis=1)
        torn = (came > 0) & (came < sub.size)
        if torn.any():
            row = int(np.argmax(torn))
            raise Fault(f"{what} under divergent control flow: {came[row]} of {sub.size} lanes of the subgroup arrive", int(row * sub.size + np.argmax(rows[row])))
        return came > 0

    def uniform(self, x, what: str, arrived: np.ndarray) -> np.ndarray:
        """The value of a scalar in every subgroup that executes, [A]. Fault where its lanes disagree."""
        rows = np.broadcast_to(x, (self.sub.lanes,)).reshape(self.sub.count, self.sub.size)
        differ = (rows != rows[:, :1]) & arrived[:, None] & ~((rows != rows) & (rows[:, :1] != rows[:, :1]))
        if differ.any():
            raise Fault(f"{what} is not the same in all lanes of the subgroup", int(np.argmax(differ.reshape(-1))))
        return rows[arrived, 0]

    # values
    def fill(self, x, t: CoopMatrix, m) -> np.ndarray:
        """Every element is the scalar x."""
        if x.ndim:
            self.uniform(x, "the value that fills a matrix", self.arrived("a matrix", m))
        return np.broadcast_to(np.reshape(x, (1, -1)), (self.held(t), np.size(x)))

    def scale(self, value, x, m) -> np.ndarray:
        """Every element times the scalar x."""
        if x.ndim:
            self.uniform(x, "the factor of a matrix", self.arrived("a product of matrix and scalar", m))
        return value * x

    def muladd(self, a, b, c, types: tuple[CoopMatrix, CoopMatrix, CoopMatrix], saturate: bool, m) -> np.ndarray:
        """a * b + c."""
        ta, tb, tc = types
        self.arrived("matrix_muladd()", m)
        x, y, z = self.gathered(a, ta), self.gathered(b, tb), self.gathered(c, tc)
        dtype = dtype_of(tc.elem)
        wide = np.int64 if tc.elem.is_int else np.float64 if tc.elem.bits == 64 else np.float32
        x, y, out = x.astype(wide), y.astype(wide), z.astype(wide)
        for k in range(ta.cols):
            out = out + x[:, :, k, None] * y[:, k, None, :]
        if saturate:
            out = np.clip(out, *tc.elem.range())
        return self.spread(out.astype(dtype), tc)

    # elements
    def position(self, k, t: CoopMatrix, m) -> int | np.ndarray:
        """An element number, checked against what a lane holds."""
        n = self.held(t)
        bad = np.asarray((k < 0) | (k >= n))
        if m is not None and bad.ndim:
            bad = bad & m
        if bad.any():
            lane = int(np.argmax(bad)) if bad.ndim else None
            raise Fault(f"element {int(k if np.ndim(k) == 0 else k[lane])} of a {t.name}, of which a lane holds {n} here; matrix_length() says how many", lane)
        return int(k) if np.ndim(k) == 0 else np.clip(k, 0, n - 1).astype(np.intp)

    def element(self, value, k, t: CoopMatrix, m):
        """Element k of every lane."""
        k = self.position(k, t, m)
        if isinstance(k, int):
            return squeeze(value[k])
        return value[:, 0].take(k) if value.shape[1] == 1 else value[k, np.arange(value.shape[1])]

    def replaced(self, value, k, x, t: CoopMatrix, m) -> np.ndarray:
        """The matrix with element k of every lane replaced by x."""
        k = self.position(k, t, m)
        out = np.broadcast_to(value, (self.held(t), self.sub.lanes)).copy()
        out[k, np.arange(self.sub.lanes)] = x
        return out

    # memory
    def addresses(self, at, k, length: int, ratio: int, stride, t: CoopMatrix, layout: MatrixLayout, what: str, name: str, m):
        """(subgroups that execute, index of every element in the typed view [A, rows, cols]).

        at: index of the first element in the view; k, length: the same in elements of the array pointed into, of which each
        is `ratio` components. Fault for an element behind the array, or a line that is not aligned as Vulkan asks.
        """
        there = self.arrived(what, m)
        first, k = (self.uniform(v, f"the place of {what}", there).astype(np.int64) for v in (at, k))
        step = self.uniform(stride, f"the stride of {what}", there).astype(np.int64) * ratio
        r, c = np.arange(t.rows)[:, None], np.arange(t.cols)[None, :]
        along, across = (r, c) if layout is RowMajor else (c, r)
        offset = along * step[:, None, None] + across
        self._inside(k, offset, length, ratio, what, name, there)
        align = max(line_alignment(t, layout) * 8 // t.elem.bits, 1)
        bad = (first % align != 0) | (step % align != 0)
        if bad.any():
            i = int(np.argmax(bad))
            raise Fault(f"{what}: place and stride must be multiples of {align * t.elem.bits // 8} bytes; element {first[i]}, stride {step[i]} of {t.elem.name}", self._lane(there, i))
        return there, first[:, None, None] + offset

    def _inside(self, k, offset, length: int, ratio: int, what: str, name: str, there) -> None:
        last = k * ratio + offset.max(axis=(1, 2))
        bad = (last >= length * ratio) | (k < 0)
        if bad.any():
            i = int(np.argmax(bad))
            raise Fault(f"{what} reaches element {last[i] // ratio} of {name}, which has {length}", self._lane(there, i))

    def _lane(self, there: np.ndarray, i: int) -> int:
        return int(np.flatnonzero(there)[i]) * self.sub.size

    def load(self, view: np.ndarray, memory: WorkgroupMemory | None, t: CoopMatrix, where: tuple, m, check: bool) -> np.ndarray:
        """The matrix at addresses(*where)."""
        there, at = self.addresses(*where, m)
        if memory is not None and check:
            self._read(memory, view.itemsize, at, there)
        tiles = np.zeros((self.sub.count, t.rows, t.cols), view.dtype)
        tiles[there] = view.take(at)
        return self.spread(tiles, t)

    def _read(self, memory: WorkgroupMemory, size: int, at: np.ndarray, there: np.ndarray) -> None:
        try:
            memory.read(size, at.reshape(-1), 1, None)
        except Fault as fault:  # its lane is the number of an element
            raise Fault(fault.message, self._lane(there, fault.lane // at[0].size)) from None

    def store(self, view: np.ndarray, memory: WorkgroupMemory | None, value, t: CoopMatrix, where: tuple, m) -> None:
        """The matrix to addresses(*where)."""
        there, at = self.addresses(*where, m)
        view[at] = self.gathered(value, t)[there]
        if memory is not None:
            memory.wrote(view.itemsize, at.reshape(-1), None)
