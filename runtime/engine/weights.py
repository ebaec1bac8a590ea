"""Weights to the device: GGUF bytes are uploaded in chunks and repacked into planes by a kernel.

Raw bytes pass through two device buffers in turn, so that copying the next chunk overlaps repacking the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kernels.repack import Repack
from kernels.rows import padded

from ..gguf import dequantize
from ..plan.lower import spread
from ..plan.planes import PlaneSet
from ..plan.residency import Plan
from ..vk import Device
from ..vk.buffer import Buffer, Slice

Progress = Callable[[int, int, str], None]


class Weights:
    """Everything of a model that does not change: planes by (plane set, shard, 0 | 1), f32 vectors by tensor name, and a
    codebook by ("codebook", format)."""

    def __init__(self, device: Device, plan: Plan, progress: Progress | None = None):
        self.device, self.plan = device, plan
        self.slices: dict[object, Slice] = {}
        total, done = sum(i.nbytes for i in plan.model.file.tensors.values()), 0
        raw, used, turn = [device.buffer(plan.chunk) for _ in range(2)], [0, 0], 0
        for plane in plan.planes:
            self._allocate(plane)
            for tensor, first in self._parts(plane):
                for shard, row0, rows, data in self._pieces(plane, tensor, first, plan.chunk - 16):
                    device.wait(used[turn])
                    device.upload(raw[turn], 0, data)
                    used[turn] = self._repack(plane, shard, raw[turn], row0, rows, len(data) // rows)
                    turn = 1 - turn
                    done += data.nbytes
                    if progress:
                        progress(done, total, "weights")
        self._vectors()
        device.wait(max(used))

    def _allocate(self, plane: PlaneSet) -> None:
        for i, (_, rows) in enumerate(plane.shards):
            for p, nbytes in enumerate(plane.plane_bytes(rows)):
                self.slices[plane.name, i, p] = self.device.buffer(nbytes).whole

    def _parts(self, plane: PlaneSet) -> list[tuple[str, int]]:
        """(tensor, its first row in the plane set)."""
        out, row = [], 0
        for tensor in plane.tensors:
            out.append((tensor, row))
            row += self.plan.model.rows(tensor)
        return out

    def _pieces(self, plane: PlaneSet, tensor: str, first: int, chunk: int) -> Iterator[tuple[int, int, int, np.ndarray]]:
        """(shard, row inside it, rows, bytes): runs of whole rows that stay inside a shard and take at most `chunk` bytes."""
        rows, data = self.plan.model.rows(tensor), self.plan.model.file.data(tensor)
        row_bytes = len(data) // rows
        for shard, (low, count) in enumerate(plane.shards):
            start, end = max(low, first), min(low + count, first + rows)
            for row in range(start, end, max(1, chunk // row_bytes)):
                n = min(max(1, chunk // row_bytes), end - row)
                yield shard, row - low, n, data[(row - first) * row_bytes: (row - first + n) * row_bytes]

    def _repack(self, plane: PlaneSet, shard: int, raw: Buffer, row0: int, rows: int, row_bytes: int) -> int:
        """Submit the repacking of `rows` rows that lie in `raw`; returns the timeline value."""
        pipe = self.device.pipeline(Repack[plane.format].compile())
        push = {"row0": row0, "rows": rows, "k": plane.k, "blocks": plane.blocks, "row_bytes": row_bytes}
        with self.device.commands(reusable=False) as commands:
            commands.dispatch(pipe, [raw, self.slices[plane.name, shard, 0], self.slices[plane.name, shard, 1]], push, spread(rows * plane.blocks))
        return self.device.submit(commands)

    def _vectors(self) -> None:
        """Norms and biases as f32, padded with zeros to whole blocks; biases of a fused plane set one after the other. Codebooks."""
        model = self.plan.model
        for name, fmt in {p.type_name: p.format for p in self.plan.planes}.items():
            if fmt.CODEBOOK:
                self.slices["codebook", name] = self.device.array(np.array(fmt.CODEBOOK, np.uint16)).whole
        for name, info in model.file.tensors.items():
            if len(info.shape) == 1:
                self._vector(name, self._floats(name))
        for plane in self.plan.planes:
            biases = [t.replace(".weight", ".bias") for t in plane.tensors]
            if len(biases) > 1 and biases[0] in model.file.tensors:
                self._vector(plane.name.replace(".weight", ".bias"), np.concatenate([self._floats(b) for b in biases]))

    def _floats(self, name: str) -> np.ndarray:
        info = self.plan.model.file.tensors[name]
        return dequantize(info.type_name, self.plan.model.file.data(name), tuple(info.shape)).astype(np.float32).reshape(-1)

    def _vector(self, name: str, values: np.ndarray) -> None:
        whole = np.zeros(padded(len(values)), np.float32)
        whole[: len(values)] = values
        self.slices[name] = self.device.array(whole).whole
