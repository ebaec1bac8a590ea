"""`python -m spirvdsl`: kernels found by name, goldens written and checked, faults in one line and a non-zero exit."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from spirvdsl.cli import main
from spirvdsl.cli.show import file_name
from spirvdsl.diagnostics import CODES, TABLE

ROOT = Path(__file__).resolve().parents[3]
KERNELS = '''
from collections import namedtuple
from spirvdsl import In, InOut, Kernel, Out, Param, f32, global_id, kernel, u32

@kernel(workgroup_size=64)
def saxpy(x: In[f32], y: In[f32], out: Out[f32], a: f32, n: u32):
    i = global_id.x
    if i < n:
        out[i] = a * x[i] + y[i]

@kernel(workgroup_size=64)
def broken(x: InOut[f32]):
    x[global_id.x] = x[0] + undefined_name

class Scale(Kernel):
    """Multiplies by a compile-time number."""
    BY: Param[int] = 2
    x: InOut[f32]

    def main(self):
        self.x[global_id.x] = self.x[global_id.x] * f32(self.BY)

THREE = 3
number = 5
Entry = namedtuple("Entry", "name kernel")

def catalogue():
    return [Entry("saxpy", saxpy), Entry("Scale[3]", Scale[3])]
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a module of kernels, as the working directory. Its name is new for every test: modules are cached."""
    name = f"cli_kernels_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def run(capsys, *argv: str) -> tuple[int, str, str]:
    status = main(argv)
    out, err = capsys.readouterr()
    return status, out, err


def test_dis(project, capsys):
    status, out, err = run(capsys, "dis", f"{project}:saxpy")
    assert (status, err) == (0, "") and out.startswith("; SPIR-V 1.3\n") and "OpFMul" in out
    status, out, _ = run(capsys, "dis", "--ir", f"{project}:saxpy")
    assert status == 0 and out.startswith("kernel saxpy")


@pytest.mark.parametrize(("stamp", "factor"), [("", "2.0"), ("[3]", "3.0"), ("[THREE]", "3.0"), ("[-3]", "-3.0")])
def test_stamps(project, capsys, stamp, factor):
    status, out, _ = run(capsys, "dis", f"{project}:Scale{stamp}")
    assert status == 0 and f"%f32_{factor} = OpConstant" in out


def test_reflect(project, capsys):
    status, out, _ = run(capsys, "reflect", f"{project}:saxpy")
    assert status == 0
    for line in ("set 0 binding 0: x, in storage, f32 every 4 bytes", "push offset 4: n, u32, 4 bytes", "features: none", "workgroup 64 x 1 x 1"):
        assert line in out
    status, out, _ = run(capsys, "reflect", "--json", f"{project}:saxpy")
    record = json.loads(out)
    assert status == 0 and record["bindings"][2]["name"] == "out" and record["push_bytes"] == 8


def test_build(project, capsys, tmp_path):
    status, out, _ = run(capsys, "build", f"{project}:Scale[3]")
    assert status == 0 and "hash" in out and (tmp_path / "Scale-3.spv").read_bytes()[:4] == b"\x03\x02\x23\x07"
    status, _, _ = run(capsys, "build", f"{project}:saxpy", "-o", str(tmp_path / "k.spv"))
    assert status == 0 and (tmp_path / "k.spv").is_file()


@pytest.mark.parametrize(
    ("target", "needle"),
    [
        ("{m}", "is not MODULE:KERNEL"),
        ("no_such_module:x", "cannot import no_such_module"),
        ("{m}:nothing", "its kernels are Scale, broken, saxpy"),
        ("{m}:number", "is a int, not a kernel"),
        ("{m}:saxpy[3]", "saxpy is no template"),
        ("{m}:Scale[nothing]", "stamp argument nothing is not a name"),
        ("{m}:Scale[1 + 1]", "'1 + 1' is not a name, number, bool or string"),
        ("{m}:Scale[__import__('os')]", "is not a name, number, bool or string"),
        ("{m}:Scale[(]", "is not a list of names"),
        ("{m}:Scale[]", "is not a list of names"),
    ],
)
def test_faults_are_one_line(project, capsys, target, needle):
    status, out, err = run(capsys, "dis", target.format(m=project))
    assert status == 1 and out == "" and needle in err and err.count("\n") == 1


def test_a_kernel_that_does_not_compile(project, capsys):
    status, out, err = run(capsys, "dis", f"{project}:broken")
    assert status == 1 and out == "" and "error[E0103]" in err and "undefined_name" in err and "^" in err


def test_explain(capsys):
    assert run(capsys, "explain", "E0207")[:2] == (0, f"E0207: {CODES['E0207']}\n    {TABLE['E0207'][1]}\n")
    status, out, _ = run(capsys, "explain")
    assert status == 0 and len(out.splitlines()) == 2 * len(CODES)
    status, _, err = run(capsys, "explain", "E9999")
    assert status == 1 and "no diagnostic E9999" in err


def test_census(project, capsys):
    status, out, _ = run(capsys, "census", "--catalogue", project, "--json")
    found = json.loads(out)
    assert status == 0 and found["kernels"] == 2 and found["opcodes"]["OpEntryPoint"] == 2
    status, out, _ = run(capsys, "census", "--catalogue", project)
    assert status == 0 and out.startswith("2 kernels\n")


def test_golden_round(project, capsys, tmp_path):
    """Write, check, then every kind of difference."""
    folder = tmp_path / "golden"
    args = ("golden", "--catalogue", project, "--dir", str(folder))
    assert run(capsys, *args, "--check")[0] == 1  # nothing there yet, and nothing is written
    assert not folder.exists()
    status, out, _ = run(capsys, *args)
    assert status == 0 and "2 kernels, 2 of them new or re-emitted" in out
    assert sorted(p.name for p in folder.iterdir()) == ["Scale-3.spvasm", "census.txt", "manifest.json", "saxpy.spvasm"]
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert run(capsys, *args)[0] == 0 and {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert run(capsys, *args, "--check")[:2] == (0, "2 kernels, 0 of them new or re-emitted, the other 2 byte-identical\n")
    (folder / "old.spvasm").write_text("")
    (folder / "saxpy.spvasm").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "Scale[3]": "0" * 64, "gone": "1" * 64}))
    status, out, err = run(capsys, *args, "--check")
    assert status == 1 and "is not up to date" in err
    assert out.splitlines()[:4] == ["missing: saxpy", "re-emitted: Scale[3]", "orphan: old.spvasm", "orphan: gone (in manifest.json)"]
    assert run(capsys, *args)[0] == 0 and {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_golden_texts_are_those_asked_for(project, capsys, tmp_path):
    """An entry without text leaves its hash alone, one with ir its IR too; a kind that is not wanted any more goes."""
    path = tmp_path / f"{project}.py"
    source = path.read_text().replace('"name kernel"', '"name kernel text ir"').replace('saxpy)', 'saxpy, TEXT, not TEXT)').replace('Scale[3])', 'Scale[3], True, True)')
    folder = tmp_path / "golden"
    args = ("golden", "--catalogue", project, "--dir", str(folder))
    for text, names in ((False, ["Scale-3.ir", "Scale-3.spvasm", "saxpy.ir"]), (True, ["Scale-3.ir", "Scale-3.spvasm", "saxpy.spvasm"])):
        path.write_text(source.replace("THREE = 3", f"THREE = 3; TEXT = {text}  # {'xx' * text}"))  # another length: within a second, Python would take the old .pyc
        sys.modules.pop(project, None)
        assert run(capsys, *args)[0] == 0
        assert sorted(p.name for p in folder.iterdir()) == sorted([*names, "census.txt", "manifest.json"])
        assert set(json.loads((folder / "manifest.json").read_text())) == {"saxpy", "Scale[3]"}
        assert run(capsys, *args, "--check")[0] == 0
    ir = (folder / "Scale-3.ir").read_text()
    assert ir.startswith("kernel Scale[3]")
    (folder / "Scale-3.ir").write_text(ir.replace("mul", "add"))
    status, out, _ = run(capsys, *args, "--check")
    assert status == 1 and "re-emitted: Scale[3]" in out


def test_golden_census(project, capsys, tmp_path):
    args = ("golden", "--catalogue", project, "--dir", str(tmp_path / "golden"))
    run(capsys, *args)
    path = tmp_path / "golden" / "census.txt"
    rows = path.read_text()
    assert "opcodes OpFMul\n" in rows
    path.write_text(rows.replace("OpFMul", "OpFDiv"))
    status, out, _ = run(capsys, *args, "--check")
    assert status == 1 and "emitted for the first time: opcodes OpFMul" in out and "emitted no more: opcodes OpFDiv" in out


def test_golden_text_that_was_edited(project, capsys, tmp_path):
    args = ("golden", "--catalogue", project, "--dir", str(tmp_path / "golden"))
    run(capsys, *args)
    path = tmp_path / "golden" / "saxpy.spvasm"
    text = path.read_bytes()
    path.write_bytes(text.replace(b"\n", b"\r\n"))  # a checkout with other line ends is the same text
    assert run(capsys, *args, "--check")[0] == 0
    path.write_bytes(text.replace(b"OpFMul", b"OpFAdd"))
    status, out, _ = run(capsys, *args, "--check")
    assert status == 1 and "re-emitted: saxpy" in out
    (tmp_path / "golden" / "manifest.json").write_text("[")
    status, _, err = run(capsys, *args, "--check")
    assert status == 1 and "manifest.json" in err and err.count("\n") == 1


def test_catalogue_faults(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sources = {
        "cat_none": ("", "has no function catalogue"),
        "cat_empty": ("catalogue = list", "is empty"),
        "cat_twice": ("from types import SimpleNamespace as N\nk = N(compile=len, ir=len)\ncatalogue = lambda: [N(name='a', kernel=k)] * 2", "a is given twice"),
        "cat_other": ("from types import SimpleNamespace as N\ncatalogue = lambda: [N(name='a', kernel=3)]", "a is a int, not a kernel"),
        "cat_raises": ("1 + ''", "importing cat_raises failed: TypeError"),
    }
    for name, (text, needle) in sources.items():
        (tmp_path / f"{name}.py").write_text(text)
        status, _, err = run(capsys, "census", "--catalogue", name)
        assert status == 1 and needle in err and err.count("\n") == 1, name


def test_file_names():
    assert [file_name(n) for n in ("saxpy", "Gemv[Q4_K,2]", "a/b c", "x.y")] == ["saxpy", "Gemv-Q4_K-2", "a-b-c", "x.y"]


def test_as_a_process(project):
    done = subprocess.run([sys.executable, "-m", "spirvdsl", "dis", f"{project}:saxpy"], capture_output=True, text=True, env=_env(), timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("; SPIR-V")
    done = subprocess.run([sys.executable, "-m", "spirvdsl", "dis", f"{project}:broken"], capture_output=True, text=True, env=_env(), timeout=60)
    assert done.returncode == 1 and "Traceback" not in done.stderr and "error[E0103]" in done.stderr
    code = textwrap.dedent("import sys, spirvdsl.cli; sys.exit('kernels' in sys.modules or 'runtime' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], env=_env(), timeout=60).returncode == 0


def _env() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}
