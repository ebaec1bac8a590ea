"""The state of one batch of workgroups: built-in variables, memory and subgroups. Generated code calls it `S`.

Attributes that generated code reads: global_id, group_id ... (values), b<i>_<dtype> (typed view of resource i),
n<i> (length of its runtime array), w<i> (WorkgroupMemory), g<i>_<size> (first element of each lane's own copy),
spec<i> (specialisation constants), sub (Subgroups), lanes, limit.
"""

from __future__ import annotations

import numpy as np

from .faults import Fault
from .masks import first
from .matrix import Matrices
from .memory import WorkgroupMemory
from .subgroup import Subgroups


class Machine:
    """`first_group` .. `first_group + groups` of a grid, in the order x fastest."""

    def __init__(self, workgroup: tuple, grid: tuple, first_group: int, groups: int, subgroup_size: int, limit: int):
        self.workgroup, self.grid, self.groups, self.limit = workgroup, grid, groups, limit
        self.threads = int(np.prod(workgroup))
        self.lanes = groups * self.threads
        self.first_group = first_group
        ids = np.arange(first_group, first_group + groups)
        local = np.arange(self.threads)
        self.group_of = np.repeat(np.arange(groups), self.threads)
        group_id = _unravel(ids, grid)
        local_id = _unravel(local, workgroup)
        self.group_id = group_id if groups == 1 else np.repeat(group_id, self.threads, axis=1)
        self.local_id = np.tile(local_id, (1, groups))
        size = np.array(workgroup, np.uint32).reshape(3, 1)
        self.global_id = self.group_id * size + self.local_id
        self.num_groups = np.array(grid, np.uint32).reshape(3, 1)
        self.local_index = np.tile(local, groups).astype(np.uint32)
        self.sub = Subgroups(groups, self.threads, subgroup_size)
        self.matrices = Matrices(self.sub)
        self.subgroup_size = np.uint32(subgroup_size)
        self.num_subgroups = np.uint32(self.sub.per_group)
        self.subgroup_lane = self.sub.lane.astype(np.uint32)
        self.subgroup_id = (self.sub.row % self.sub.per_group).astype(np.uint32)
        self.shared: list[WorkgroupMemory] = []

    def add_workgroup(self, i: int, name: str, nbytes: int, uses: list[tuple[str, np.dtype]]) -> None:
        """Resource i is workgroup memory; `uses` are the typed views the code needs."""
        memory = WorkgroupMemory(name, nbytes, self.groups)
        self.shared.append(memory)
        self._name(i, memory, uses)

    def add_view(self, i: int, of: int, uses: list[tuple[str, np.dtype]]) -> None:
        """Resource i is the memory of resource `of` again."""
        self._name(i, getattr(self, f"w{of}"), uses)

    def _name(self, i: int, memory: WorkgroupMemory, uses: list[tuple[str, np.dtype]]) -> None:
        setattr(self, f"w{i}", memory)
        for suffix, dtype in uses:
            setattr(self, f"b{i}_{suffix}", memory.data.view(dtype))
            base = self.group_of * (memory.stride // dtype.itemsize) if self.groups > 1 else 0
            setattr(self, f"g{i}_{suffix}", base)

    def where(self, lane: int) -> str:
        """A lane of the batch in the author's terms."""
        x, y, z = (int(v) for v in self.global_id[:, lane])
        return f"global_id ({x}, {y}, {z})"

    def barrier(self, scope: str, m, check: bool) -> None:
        """All lanes of a workgroup (or subgroup) arrive, or none."""
        if check and m is not None:
            rows = m.reshape(self.groups, self.threads) if scope == "workgroup" else self.sub.rows(m)
            real = np.ones_like(rows) if scope == "workgroup" else self.sub.real
            came, due = (rows & real).sum(axis=1), real.sum(axis=1)
            torn = (came > 0) & (came < due)
            if torn.any():
                row = first(torn)
                raise Fault(f"barrier under divergent control flow: {came[row]} of {due[row]} lanes of the {scope} arrive", first(m))
        for memory in self.shared:
            memory.barrier()


def _unravel(ids: np.ndarray, shape: tuple) -> np.ndarray:
    x, y, _ = shape
    return np.stack([ids % x, ids // x % y, ids // (x * y)]).astype(np.uint32)
