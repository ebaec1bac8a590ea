"""Functions written in the language itself, for subgroups of 4 lanes and more (no Vulkan driver known to us has fewer)."""

from __future__ import annotations

from .builtins import BUILTINS as _B
from .types import u32  # noqa: F401 read by kernels that import this module

barrier, shared = _B["barrier"], _B["shared"]
subgroup_id, num_subgroups, workgroup_size = _B["subgroup_id"], _B["num_subgroups"], _B["workgroup_size"]
subgroup_add, subgroup_max, subgroup_elect, fmax = _B["subgroup_add"], _B["subgroup_max"], _B["subgroup_elect"], _B["max"]

_SMALLEST_SUBGROUP = 4  # lanes; lavapipe at LP_NATIVE_VECTOR_WIDTH=128


def workgroup_sum(x):
    """Sum of a number over all lanes of a workgroup, the same in every lane. All lanes must call it.

    Added subgroup by subgroup in order, so that the result does not depend on timing.
    """
    part = shared(_type_of(x), max(1, workgroup_size.x * workgroup_size.y * workgroup_size.z // _SMALLEST_SUBGROUP))
    mine = subgroup_add(x)
    if subgroup_elect():
        part[subgroup_id] = mine
    barrier()
    total = part[0]
    for i in range(1, num_subgroups):
        total += part[i]
    barrier()
    return total


def workgroup_max(x):
    """Largest of a number over all lanes of a workgroup, the same in every lane. All lanes must call it."""
    part = shared(_type_of(x), max(1, workgroup_size.x * workgroup_size.y * workgroup_size.z // _SMALLEST_SUBGROUP))
    mine = subgroup_max(x)
    if subgroup_elect():
        part[subgroup_id] = mine
    barrier()
    best = part[0]
    for i in range(1, num_subgroups):
        best = fmax(best, part[i])
    barrier()
    return best


_type_of = _B["type_of"]
