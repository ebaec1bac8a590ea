"""Fixture `run` of the kernel tests: a runner of rig.py by name, "device" or "interp<lanes>"."""

from __future__ import annotations

import pytest

from tests.kernels import rig


@pytest.fixture
def run(request: pytest.FixtureRequest) -> rig.Runner:
    """Parametrise it indirectly: @pytest.mark.parametrize("run", rig.EVERYWHERE, indirect=True)."""
    if request.param == "device":
        return rig.vulkan(request.getfixturevalue("device"))
    return rig.interpreter(int(request.param.removeprefix("interp")))
