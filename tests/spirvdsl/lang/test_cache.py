"""The compile cache: what hits, what misses, and that nothing on disk can hurt."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from spirvdsl import cache, fingerprint
from tests.spirvdsl.lang.loading import load

FUNCTION = """
from spirvdsl import In, Out, f32, global_id, kernel
SCALE = 3.0

def scaled(x):
    return x * SCALE

@kernel(workgroup_size=64)
def k(x: In[f32], y: Out[f32]):
    y[global_id.x] = scaled(x[global_id.x])
"""

TEMPLATE = """
from spirvdsl import Format, In, Kernel, Out, Param, f32, global_id, spirv_decode, u32

class Plain(Format):
    @spirv_decode
    def weight(self, x):
        return x * {factor}

class Base(Kernel):
    {base_attribute}
    fmt: Param[Format]
    N: Param[int] = 2
    x: In[f32]
    y: Out[f32]

class T(Base):
    requires = ("N > 0",)
    workgroup_size = "LANES * N"

    def main(self):
        self.y[global_id.x] = self.fmt.weight(self.x[global_id.x]) + f32(self.N)

LANES = {lanes}
k = T[Plain, {n}]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("SPIRVDSL_CACHE", "1")
    monkeypatch.setenv("SPIRVDSL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(folder):
    return sorted(folder.glob("*.kernel")) if folder.exists() else []


def refuse(*_):
    raise AssertionError("this kernel was to come from the cache")


def compiled_from_cache(kernel, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(type(kernel), "_build", refuse)
        return kernel.compile()


def template(**changes):
    return TEMPLATE.format(**{"factor": 2.0, "base_attribute": "A = 1", "lanes": 32, "n": 1} | changes)


@pytest.mark.parametrize("source", [FUNCTION, template()], ids=["function", "stamp"])
def test_second_compile_reads_the_file(source, tmp_path, folder, monkeypatch):
    first = load(tmp_path, source, "same").k.compile()
    assert len(files(folder)) == 1
    again = load(tmp_path, source, "same").k
    assert compiled_from_cache(again, monkeypatch) == first
    assert again.ir() is not None, "the IR is still to be had"


def test_another_process_hits(tmp_path, folder):
    load(tmp_path, FUNCTION, "far")
    code = """
import sys, spirvdsl.lang.kernel as K
sys.path.insert(0, sys.argv[1])
import far
far.k.compile()
K.FunctionKernel._build = None
import importlib; importlib.reload(far).k.compile()
print(sorted(m for m in sys.modules if m.startswith(("spirvdsl.frontend.build", "spirvdsl.spirv.lower"))))
"""
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.getcwd()}
    for expected in ("lower", "[]"):
        run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=env, check=False)
        assert run.returncode == 0, run.stderr
        assert expected in run.stdout
    assert len(files(folder)) == 1


CHANGES = [
    ("function body", FUNCTION, FUNCTION.replace("x * SCALE", "x + SCALE")),
    ("global constant", FUNCTION, FUNCTION.replace("3.0", "4.0")),
    ("workgroup size", FUNCTION, FUNCTION.replace("=64", "=32")),
    ("a comment", FUNCTION, "# new\n" + FUNCTION),
    ("format method", template(), template(factor=3.0)),
    ("attribute of a base", template(), template(base_attribute="A = 2")),
    ("name in a string", template(), template(lanes=16)),
    ("template argument", template(), template(n=2)),
]


@pytest.mark.parametrize(("before", "after"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_change_of_source_misses(before, after, tmp_path, folder):
    load(tmp_path, before, "changing").k.compile()
    load(tmp_path, after, "changing").k.compile()
    assert len(files(folder)) == 2


def test_values_count_and_not_only_files(tmp_path, folder):
    """A constant of another module, of a class, of a closure, in a default and in a local annotation."""
    source = """
    from spirvdsl import Out, f32, global_id, kernel
    import {constants} as far
    from {constants} import ONE, T

    class Sizes:
        TWO = far.TWO

    def make(inner):
        @kernel(workgroup_size=64)
        def k(y: Out[f32]):
            local: T = 2.71
            y[global_id.x] = f32(local) + more() + f32(ONE + Sizes.TWO + far.nested.THREE + inner)
        return k

    def more(by=far.FIVE):
        return f32(by)

    k = make(far.FOUR)
    """
    values = {"ONE": 1, "TWO": 2, "FOUR": 4, "FIVE": 5, "T": "spirvdsl.f32"}
    hashes = set()
    for changed in (None, "ONE", "TWO", "FOUR", "FIVE", "T", "THREE"):
        now = {n: (("spirvdsl.f16" if n == "T" else 9) if n == changed else v) for n, v in values.items()}
        text = "import spirvdsl\nimport types\n" + "".join(f"{n} = {v}\n" for n, v in now.items())
        text += "class nested:\n    THREE = 3\n"
        constants = load(tmp_path, text, "constants_apart")
        if changed == "THREE":
            constants.nested.THREE = 9  # not even a file has changed
        kernel = load(tmp_path, source.replace("{constants}", "constants_apart"), "user").k
        hashes.add(kernel.compile().hash)
        fresh = load(tmp_path, source.replace("{constants}", "constants_apart"), "user").k._compile()
        assert kernel.compile() == fresh, f"{changed} gave a stale kernel"
    assert len(files(folder)) == 7
    assert len(hashes) == 7


def test_a_value_without_a_stable_form_is_not_cached(tmp_path, folder):
    source = FUNCTION.replace("SCALE = 3.0", "import logging, types\nSCALE = 3.0\nLOG = logging.getLogger()").replace("return x", "LOG if False else None\n    return x")
    kernel = load(tmp_path, source.replace("LOG if False else None", "if False:\n        LOG")).k
    assert isinstance(kernel.function.__globals__["LOG"], logging.Logger)
    with pytest.raises(fingerprint.Unstable, match="RootLogger"):
        fingerprint.fingerprint(kernel)
    kernel.compile()
    assert not files(folder)


def test_a_compiler_file_newer_than_the_process_turns_it_off(tmp_path, folder, monkeypatch):
    fingerprint.compiler_digest.cache_clear()
    monkeypatch.setattr(fingerprint, "_LOADED", 0.0)
    load(tmp_path, FUNCTION).k.compile()
    fingerprint.compiler_digest.cache_clear()
    assert not files(folder)


DAMAGE = {
    "empty": lambda d: b"",
    "cut": lambda d: d[: len(d) // 2],
    "last byte gone": lambda d: d[:-1],
    "one bit": lambda d: d[:-40] + bytes([d[-40] ^ 1]) + d[-39:],
    "foreign": lambda d: b"\x7fELF" + d,
    "json of another shape": lambda d: cache._MAGIC + __import__("hashlib").sha256(b"[]\nx").hexdigest().encode() + b"\n[]\nx",
    "text": lambda d: b"spirvdsl kernel 1\n" * 3,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_damaged_files_are_ignored_and_rewritten(damage, tmp_path, folder):
    good = load(tmp_path, FUNCTION, "hurt").k.compile()
    (path,) = files(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert load(tmp_path, FUNCTION, "hurt").k.compile() == good
    assert path.read_bytes() == whole


def test_an_entry_of_another_key_is_not_taken(tmp_path, folder):
    load(tmp_path, FUNCTION, "one").k.compile()
    (one,) = files(folder)
    other = FUNCTION.replace("3.0", "5.0")
    expected = load(tmp_path, other, "two").k.compile()
    (two,) = set(files(folder)) - {one}
    two.write_bytes(one.read_bytes())
    assert load(tmp_path, other, "two").k.compile() == expected


def test_off_and_unwritable(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("SPIRVDSL_CACHE", "0")
    load(tmp_path, FUNCTION).k.compile()
    assert not files(folder)
    monkeypatch.setenv("SPIRVDSL_CACHE", "1")
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("SPIRVDSL_CACHE_DIR", str(tmp_path / "a file" / "below"))
    load(tmp_path, FUNCTION).k.compile()
    monkeypatch.delenv("SPIRVDSL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder().parent in (tmp_path, tmp_path / "Caches") or cache.folder().is_relative_to(os.path.expanduser("~"))


def test_old_files_go(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(cache, "_MOST_FILES", 4)
    folder.mkdir()
    for i in range(8):
        (folder / f"{i}.kernel").write_bytes(b"")
        os.utime(folder / f"{i}.kernel", (i + 1, i + 1))
    monkeypatch.setattr(cache, "_pruned", False)
    load(tmp_path, FUNCTION).k.compile()
    assert len(files(folder)) == 2
    assert (folder / "7.kernel").exists()


def test_failure_is_not_kept(tmp_path, folder):
    kernel = load(tmp_path, FUNCTION.replace("x * SCALE", "x * SCALE + 1 // 0")).k
    for _ in range(2):
        with pytest.raises(Exception, match="E0202"):
            kernel.compile()
    assert not files(folder)
