"""Every mistake is one CompileError at the author's column: never a Python traceback, never a kernel that means something else."""

from __future__ import annotations

import textwrap

import pytest

from spirvdsl.diagnostics import CODES, TABLE, CompileError
from tests.spirvdsl.frontend.fail_bodies import BODIES
from tests.spirvdsl.frontend.fail_modules import MODULES
from tests.spirvdsl.lang.loading import load

MARK = "@@"
BEHIND = ("E08", "E09")  # the back end's and our own faults: tests/spirvdsl/spirv
HEAD = """
import numpy as np
from spirvdsl import *

G = 1
TABLE = [1.0, 2.0]

@struct
class Pair:
    a: f32
    b: u32

def helper(q):
    return q

MANY = range(10**12)
HALF = np.float32(0.5)

def typed(q: f32):
    return q

def counted(q: int):
    return q

def endless(q):
    return endless(q)

def two_types(q):
    if q > 1:
        return 1.0
    return q

def sometimes(q, r):
    if q > 1:
        return r

@kernel(workgroup_size=4)
def k(x: In[f32], y: Out[f32], z: InOut[u32], w: In[i32], v: In[f32x4], n: u32, a: f32):
"""


def in_kernel(body: str) -> str:
    return HEAD + textwrap.indent(body, "    ") + "\n"


def refused(folder, source: str) -> CompileError:
    """The error of loading or compiling `k` of a module."""
    with pytest.raises(CompileError) as caught:
        load(folder, source, dedented=False).k.ir()
    return caught.value


def check(folder, code: str, needle: str, source: str) -> None:
    source = source.lstrip("\n")
    at = source.find(MARK)
    error = refused(folder, source.replace(MARK, ""))
    assert (error.code, needle in error.message) == (code, True), str(error)
    assert error.help and "\n" not in error.message, str(error)
    if at >= 0:
        line = source.count("\n", 0, at) + 1
        assert (error.span.line, error.span.col) == (line, at - source.rfind("\n", 0, at) - 1), str(error)
        assert f":{line}:" in str(error) and "^" in str(error)


@pytest.mark.parametrize(("code", "needle", "body"), BODIES, ids=[f"{c}-{b.splitlines()[-1][:40]}" for c, _, b in BODIES])
def test_body(tmp_path, code, needle, body):
    check(tmp_path, code, needle, in_kernel(body))


@pytest.mark.parametrize(("code", "needle", "source"), MODULES, ids=[f"{c}-{n[:40]}" for c, n, _ in MODULES])
def test_module(tmp_path, code, needle, source):
    check(tmp_path, code, needle, textwrap.dedent(source))


def test_every_code_has_a_fixture():
    wanted = {code for code in CODES if not code.startswith(BEHIND)}
    assert {code for code, _, _ in [*BODIES, *MODULES]} == wanted


def test_every_code_has_a_title_and_a_help_line():
    for code, (title, help) in TABLE.items():
        assert title and help and "\n" not in title + help, code


def test_an_error_is_the_same_at_every_call(tmp_path):
    k = load(tmp_path, in_kernel("y[0] = missing"), dedented=False).k
    errors = []
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            k.compile()
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_call_chain_is_named(tmp_path):
    error = refused(tmp_path, in_kernel("y[0] = typed(helper(n))"))
    assert error.code == "E0206"
    error = refused(tmp_path, in_kernel("y[0] = two_types(n)"))
    assert "note: called from" in str(error)
