"""Every IR operation, maths function, atomic and subgroup function lowers to a module that spirv-val accepts."""

from __future__ import annotations

import pytest

from spirvdsl.ir.ops import MATH, OPS
from spirvdsl.spirv.lower_group import ATOMICS
from spirvdsl.spirv.validate import first_error

from . import flow_cases, matrix_cases  # noqa: F401  (they register cases)
from .cases import CASES, SUBGROUP_FNS, compiled

ENVIRONMENTS = {"1.3": "vulkan1.1", "1.4": "vulkan1.1spv1.4", "1.5": "vulkan1.2", "1.6": "vulkan1.3"}


@pytest.mark.parametrize("group", sorted({name.split(".")[0] for name in CASES}))
def test_group_validates(group):
    for name in (n for n in CASES if n.split(".")[0] == group):
        kernel = compiled(name)
        # the oldest environment that takes this version is the strictest about versions of enumerants
        error = first_error(kernel.spirv, ENVIRONMENTS[kernel.reflection.spirv_version])
        assert error is None, (name, error)


def test_every_operation_has_a_case():
    covered = {key for _, covers in CASES.values() for key in covers}
    wanted = {f"op:{op}" for op in OPS} | {f"math:{fn}" for fn in MATH}
    wanted |= {f"atomic:{fn}" for fn in ATOMICS} | {f"subgroup:{fn}" for fn in SUBGROUP_FNS}
    assert sorted(wanted - covered) == []
    assert sorted(covered - wanted) == []
