"""The scripts that make a bare machine ready. What they install is checked by hand in fresh Debian chroots."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LAVAPIPE, ROOT, load_script

REBIND = ROOT / "scripts/setup/rebind_glibc.py"


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(argument) for argument in arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_probe_reports_no_driver_in_one_line(tmp_path):
    result = run(sys.executable, ROOT / "scripts/setup/probe.py", VK_DRIVER_FILES=str(tmp_path / "none.json"))
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith("probe.py: ") and result.stderr.count("\n") == 1


def test_probe_lists_the_devices(device):
    result = run(sys.executable, ROOT / "scripts/setup/probe.py")
    assert result.returncode == 0, result.stderr
    assert device.caps.name in [line.split("\t")[3] for line in result.stdout.splitlines()]


def test_rebind_refuses_what_is_no_elf_file(tmp_path):
    result = run(sys.executable, REBIND, ROOT / "LICENSE", tmp_path / "out.so")
    assert result.returncode == 1 and not (tmp_path / "out.so").exists()
    assert "not a 64-bit little-endian x86 ELF file" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.skipif(not LAVAPIPE.exists(), reason="no driver in /opt/lavapipe (Debian 13 does not need one)")
def test_rebind_names_an_import_that_it_cannot_replace(tmp_path):
    driver = LAVAPIPE.parent / "libvulkan_lvp.so"
    assert "rebound: nothing" in run(sys.executable, REBIND, driver, tmp_path / "out.so").stdout
    result = run(sys.executable, REBIND, driver, tmp_path / "older.so", "2.30")
    assert result.returncode == 1 and "which glibc 2.30 does not have" in result.stderr


@pytest.mark.parametrize(
    ("name", "version"), [("GLIBC_2.38", (2, 38)), ("GLIBC_2.2.5", (2, 2, 5)), ("GLIBC_PRIVATE", ()), ("ZSTD_1.4", ())]
)
def test_glibc_version(name, version):
    assert load_script("scripts/setup/rebind_glibc.py").glibc_version(name) == version


@pytest.mark.parametrize("chosen", ["/nowhere/own.json", ""])
def test_env_keeps_the_users_driver_and_else_takes_lavapipe(chosen):
    script = '. scripts/setup/env.sh test; echo "$VK_DRIVER_FILES"'
    result = run("bash", "-c", script, VK_DRIVER_FILES=chosen, VK_ICD_FILENAMES="")
    assert result.returncode == 0, result.stderr
    if chosen:
        assert result.stdout.strip() == chosen
    else:
        assert result.stdout.strip() == "" or Path(result.stdout.strip()).name.startswith("lvp_icd")
