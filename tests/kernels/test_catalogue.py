"""Every kernel that ships, on the device and in the interpreter: what both leave in every buffer is the same."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module

import numpy as np
import pytest

import kernels
from kernels.catalogue import Entry, catalogue
from kernels.formats import FORMATS
from spirvdsl import Kernel
from tests.kernels import rig
from tests.kernels.launches import BUILDERS, arguments

# lavapipe's LLVM takes seconds for each of these; one or two formats of each kind are in the quick tests of the kind
SLOW = re.compile(r"tile\.(?!q8_0\.f32$)|(experts_)?gate_up\.\w+\.f32|.*\.cols8|sample")
Q8_WORDS, Q8_PAIRS = ("xq", "yq"), ("xs", "ys")


def entries() -> list:
    return [pytest.param(e, id=e.name, marks=[pytest.mark.full] if SLOW.match(e.name) else []) for e in catalogue()]


@pytest.fixture
def runner(device):
    return rig.vulkan(device)


@pytest.mark.parametrize("entry", entries())
def test_device_agrees_with_the_interpreter(runner, entry: Entry):
    grid, given = arguments(entry.kernel)
    interpreted = {name: a.copy() if isinstance(a, np.ndarray) else a for name, a in given.items()}
    before = {name: a.copy() for name, a in given.items() if isinstance(a, np.ndarray)}
    needed = entry.kernel.reflection.subgroup_size or runner.subgroup
    rig.interpreter(needed)(entry.kernel, grid, **interpreted)
    if needed != runner.subgroup:
        pytest.skip(f"is for subgroups of {needed}, {runner.name} has {runner.subgroup}")
    if entry.kernel.values.get("QL", entry.kernel.values.get("LANES", 1)) > runner.subgroup:
        pytest.skip(f"needs larger subgroups than {runner.name} has")
    runner(entry.kernel, grid, **given)
    written = 0
    for binding in entry.kernel.reflection.bindings:
        if binding.access != "in" and binding.name in given:
            name = binding.name
            written += before[name].tobytes() != given[name].tobytes()
            assert agree(entry, name, given[name], interpreted[name]), name
    assert written, "the launch wrote nothing"


def agree(entry: Entry, name: str, a: np.ndarray, b: np.ndarray) -> bool:
    """Bits where no rounding is left to the device; else a few units in the last place."""
    integer = entry.kernel.values.get("INT", entry.kernel.values.get("Q8", True))
    if name in Q8_WORDS or (name == "y" and a.dtype == np.uint32):
        return integer and np.abs(a.view(np.int8).astype(int) - b.view(np.int8)).max() <= 1
    if name in Q8_PAIRS:
        sums = [p.reshape(-1, 2)[:, 1].copy().view(np.int16).astype(int) for p in (a, b)]
        scales = [p.reshape(-1, 2)[:, 0].copy().view(np.float32) for p in (a, b)]
        return np.abs(sums[0] - sums[1]).max() <= 16 and np.allclose(*scales, rtol=3e-6)
    if name == "route":  # (expert, weight as bits)
        chosen, weights = zip(*((p.reshape(-1, 2)[:, 0], p.reshape(-1, 2)[:, 1].copy().view(np.float32)) for p in (a, b)))
        return np.array_equal(*chosen) and np.allclose(*weights, rtol=1e-5)
    if a.dtype == np.float32 and name != "x":
        known = ~np.isnan(b)
        size = np.abs(b[known][np.abs(b[known]) < 1e29]).max()
        return np.array_equal(np.isnan(a), ~known) and np.allclose(a[known], b[known], rtol=1e-5, atol=2e-6 * size)
    if a.dtype == np.float16:
        return np.array_equal(np.isnan(a), np.isnan(b)) and np.allclose(a, b, rtol=1e-3, atol=1e-6, equal_nan=True)
    return a.tobytes() == b.tobytes()


def test_every_kernel_ships():
    """Each kernel class of the library is in the catalogue, and each has a launch here."""
    classes = set()
    for module in pkgutil.walk_packages(kernels.__path__, "kernels."):
        for value in vars(import_module(module.name)).values():
            if inspect.isclass(value) and issubclass(value, Kernel) and hasattr(value, "main"):
                classes.add(value)
    assert {entry.kernel.template for entry in catalogue()} == classes
    assert set(BUILDERS) == {c.__name__ for c in classes}


def test_every_format_has_every_arm():
    names = {entry.name for entry in catalogue()}
    for fmt in FORMATS.values():
        low = fmt.name.lower()
        wanted = {f"repack.{low}", f"embed.{low}"}
        wanted |= {f"{kind}.{low}.{arm}" for kind in ("gemv", "gate_up", "tile") for arm in ("f32", "int")[: 1 + fmt.INTEGER]}
        assert wanted <= names
