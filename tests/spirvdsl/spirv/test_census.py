"""What the compiler emits over all its own cases equals the declared set, in both directions.

An instruction or operand value that nobody declared fails, and so does a declared one that no case emits any more.
After a deliberate change: `python -m tests.spirvdsl.spirv.test_census` writes declared_census.txt anew; read its diff.
"""

from __future__ import annotations

from pathlib import Path

from spirvdsl.ir.nodes import FloatControls
from spirvdsl.lang.types import f16, f32
from spirvdsl.spirv import compile_module
from spirvdsl.spirv.census import Census, census

from . import flow_cases, matrix_cases  # noqa: F401  (they register cases)
from .cases import CASES, compiled
from .kit import Kit

DECLARED = Path(__file__).with_name("declared_census.txt")


def controls_case() -> Kit:
    kit = Kit("controls", controls=FloatControls(True, (16,), (32,), (16,), (32,)))
    kit.keep(kit.binary("add", kit.input(f32), kit.input(f32)))
    kit.keep(kit.unary("neg", kit.input(f16)))
    return kit


def emitted() -> Census:
    return census([compiled(name) for name in CASES] + [compile_module(controls_case().module())])


def rows(found: Census) -> str:
    return "".join(f"{title} {name}\n" for title, table in found.tables().items() for name in table)


def test_emitted_is_declared():
    made, declared = set(rows(emitted()).splitlines()), set(DECLARED.read_text().splitlines())
    assert sorted(made - declared) == [], "emitted and not declared"
    assert sorted(declared - made) == [], "declared and never emitted"


def test_counts_by_hand():
    kit = Kit()
    a = kit.input(f32)
    kit.keep(kit.math("fma", a, a, kit.math("sqrt", a)))
    found = census([compile_module(kit.module())] * 2)
    assert found.kernels == 2 and found.versions == {"1.3": 2}
    assert found.glsl == {"Sqrt": 2, "Fma": 2}
    assert found.opcodes["OpLoad"] == 4 and found.opcodes["OpStore"] == 2
    assert found.operands["MemoryAccess.None"] == 6 and found.operands["Decoration.NonWritable"] == 2


if __name__ == "__main__":
    DECLARED.write_text(rows(emitted()))
