"""The golden files of the kernel library: up to date, the same in every process, and nothing in them that no test has looked at."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.catalogue import IR_TEXTS, catalogue
from spirvdsl.cli import golden
from spirvdsl.spirv import compile_module

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "golden"
DECLARED = ROOT / "tests/spirvdsl/spirv/declared_census.txt"  # what the compiler's own cases emit
SOME = ("repack.q4_k", "gemv.q5_0.int", "tile.bf16.f32", "norm.both", "rope.hd64.norm.f16", "attention.hd10x3.f32.split.sg8", "combine.hd64.q8.ql4", "sample")
MOST_BYTES = 6_000_000


@pytest.fixture(scope="module")
def made() -> golden.Goldens:
    return golden.emit("kernels.catalogue")


def test_golden_files_are_up_to_date(made):
    """Red after a change to a kernel or to the compiler: run `make golden` and read its diff."""
    assert {kind: names for kind, names in golden.compare(made, FOLDER).items() if names} == {}


def test_manifest_has_every_kernel(made):
    manifest = json.loads((FOLDER / golden.MANIFEST).read_text())
    names = [entry.name for entry in catalogue()]
    assert sorted(manifest) == sorted(set(names)) == sorted(names)
    assert manifest == made.hashes and len(set(manifest.values())) == len(manifest), "two entries are the same kernel"


def test_folder_holds_what_a_reviewer_reads():
    texts = sorted(path.name for path in FOLDER.iterdir() if path.suffix == golden.IR)
    assert texts == sorted(f"{name}{golden.IR}" for name in IR_TEXTS)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES
    assert all(path.read_text().startswith("; SPIR-V 1.") for path in FOLDER.glob(f"*{golden.SPIRV}"))


def test_kernels_emit_only_what_the_compiler_tests(made):
    """Every instruction, mask, decoration, version and extension in a shipped kernel is in some case of the compiler's tests."""
    twins = {"opcodes OpConstantFalse"}  # the cases hold OpConstantTrue, from the same line of the compiler
    assert sorted(set(made.emitted()) - set(DECLARED.read_text().splitlines()) - twins) == []


def test_kernels_fit_every_device(made):
    """128 bytes of push constants, which Vulkan promises; 32 KiB of workgroup memory, 1024 lanes and 16 bindings, which all devices have."""
    for name, compiled in made.compiled.items():
        r = compiled.reflection
        assert r.push_bytes <= 128 and r.workgroup_bytes <= 32768 and math.prod(r.workgroup_size) <= 1024 and len(r.bindings) <= 16, name


def digest() -> str:
    """Over the SPIR-V of a part of the catalogue."""
    total = hashlib.sha256()
    for entry in catalogue():
        if entry.name in SOME:
            total.update(compile_module(entry.kernel.ir()).spirv)
    return total.hexdigest()


def test_same_bytes_for_every_hash_seed():
    assert set(SOME) <= {entry.name for entry in catalogue()}
    code = "from tests.spirvdsl.test_golden import digest; print(digest())"
    found = set()
    for seed in ("1", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "SPIRVDSL_CACHE": "0"}
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=300)
        found.add(done.stdout.strip())
    assert found == {digest()}


def test_order_of_the_catalogue_is_fixed():
    assert [entry.name for entry in catalogue()] == [entry.name for entry in catalogue()]
    assert [entry.kernel for entry in catalogue()] == [entry.kernel for entry in catalogue()]
