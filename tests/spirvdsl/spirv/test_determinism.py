"""Equal IR gives equal bytes: in one process, and in processes with other hash seeds."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from spirvdsl.spirv import compile_module

from . import flow_cases, matrix_cases  # noqa: F401  (they register cases)
from .cases import CASES

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = sorted(n for n in CASES if n.split(".")[0] in ("flow", "memory", "constants", "composites", "int_dot", "barriers", "builtins"))


def digest() -> str:
    total = hashlib.sha256()
    for name in SAMPLE:
        total.update(compile_module(CASES[name][0]()).spirv)
    return total.hexdigest()


def test_same_bytes_again():
    assert digest() == digest()


def test_same_bytes_for_every_hash_seed():
    code = "from tests.spirvdsl.spirv.test_determinism import digest; print(digest())"
    found = set()
    for seed in ("0", "1", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        found.add(done.stdout.strip())
    assert found == {digest()}
