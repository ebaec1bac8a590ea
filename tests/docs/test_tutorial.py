"""docs/tutorial.md does what it says: every snippet runs, in order, and prints what stands below it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
FILE = "# my_kernels.py\n"


def fences() -> list[tuple[str, str]]:
    return FENCE.findall((ROOT / "docs/tutorial.md").read_text(encoding="utf-8"))


def matches(wanted: str, found: str) -> bool:
    """`...` in the document stands for anything."""
    return re.fullmatch(".*?".join(map(re.escape, wanted.strip().split("..."))), found.strip(), re.S) is not None


def shell(command: str, folder: Path) -> str:
    if command.startswith("pip install"):  # the suite runs in what `make setup` has installed: only that it could be
        assert command == "pip install -e ." and (ROOT / "pyproject.toml").is_file()
        return ""
    words = command.split()
    assert words[0] == "python"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    done = subprocess.run([sys.executable, *words[1:]], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("device")
def test_tutorial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # the module is read once: later snippets only add to the file
    kernels = "\n\n\n".join(text.removeprefix(FILE).rstrip() for kind, text in fences() if kind == "python" and text.startswith(FILE)) + "\n"
    (tmp_path / "my_kernels.py").write_text(kernels, encoding="utf-8")
    names, output = {"__name__": "prompt"}, ""
    try:
        for kind, text in fences():
            if kind == "text":
                assert matches(text, output.replace(f"{tmp_path}{os.sep}", "")), output
            elif kind == "sh":
                output = "".join(shell(line, tmp_path) for line in text.splitlines())
            elif kind == "python" and not text.startswith(FILE):
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(text, "tutorial.md", "exec", dont_inherit=True), names)
                output = printed.getvalue()
            else:
                assert kind == "python", f"a fence of kind {kind!r} that this test does not execute"
    finally:
        sys.modules.pop("my_kernels", None)
    golden = sorted(p.name for p in (tmp_path / "golden").iterdir())
    assert sum(name.endswith(".spvasm") for name in golden) == 4 and {"saxpy.spvasm", "manifest.json"} <= set(golden)


def test_there_is_something_to_run():
    kinds = [kind for kind, _ in fences()]
    assert kinds.count("python") > 12 and kinds.count("text") > 8
