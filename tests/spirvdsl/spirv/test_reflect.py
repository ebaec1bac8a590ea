"""Reflection: the record a runtime binds by, and its cross-check against the words."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from spirvdsl.compiled import Binding, PushMember, SpecConstant
from spirvdsl.diagnostics import CompileError
from spirvdsl.ir.nodes import Resource, Span
from spirvdsl.lang.types import Array, Field, RuntimeArray, Struct, Vector, bool_, f16, f32, u8, u32, u64
from spirvdsl.spirv import compile_module
from spirvdsl.spirv.reflect import reflect
from spirvdsl.spirv.words import version_of, walk

from .cases import BLOCK
from .kit import Kit


def everything() -> Kit:
    kit = Kit("everything", (8, 4, 1))
    kit.subgroup_size = 32
    kit.buffer("blocks", BLOCK, "in")
    kit.buffer("out", Vector(f32, 3), "out")
    kit.declare("uniform", "args", Struct("Args", (Field("n", u32), Field("v", Vector(f32, 4)))), "in")
    kit.declare("push", "push", Struct("Push", (Field("n", u32), Field("base", u64), Field("h", f16), Field("shape", Array(u32, 3)))))
    kit.declare("workgroup", "stage", Array(Vector(f32, 3), 5))
    kit.declare("workgroup", "flag", u32)
    kit.spec("rows", u32, 4)
    kit.spec("fast", bool_, False)
    kit.keep(kit.convert(kit.input(u8), u32))
    return kit


def test_record():
    compiled = compile_module(everything().module())
    r = compiled.reflection
    assert (r.entry, r.workgroup_size, r.subgroup_size, r.spirv_version) == ("main", (8, 4, 1), 32, "1.3")
    assert r.bindings[:3] == (
        Binding("blocks", 0, 0, "in", "storage", "Block", 20),
        Binding("out", 0, 1, "out", "storage", "f32x3", 16),
        Binding("args", 0, 2, "in", "uniform", "Args", 32),
    )
    assert r.push == (PushMember("n", "u32", 0, 4), PushMember("base", "u64", 8, 8), PushMember("h", "f16", 16, 2), PushMember("shape", "u32[3]", 20, 12))
    assert r.push_bytes == 32 and r.workgroup_bytes == 5 * 16 + 4
    assert r.spec_constants == (SpecConstant("rows", 0, "u32", 4), SpecConstant("fast", 1, "bool", False))
    assert compiled.hash == hashlib.sha256(compiled.spirv).hexdigest() and compiled.name == "everything"


def test_words_that_say_otherwise_are_refused():
    module = everything().module()
    spirv = compile_module(module).spirv
    code = list(walk(spirv))
    module.workgroup_size = (64, 1, 1)
    with pytest.raises(CompileError, match="workgroup size"):
        reflect(module, code, version_of(spirv))
    module.workgroup_size = (8, 4, 1)
    module.resources.append(Resource("late", "storage", RuntimeArray(f32), Span("kernel.py", 1, 0), binding=9))
    with pytest.raises(CompileError, match="descriptor sets are"):
        reflect(module, code, version_of(spirv))


def test_two_push_blocks_are_refused():
    kit = Kit()
    for name in ("a", "b"):
        kit.declare("push", name, Struct(name, (Field("n", u32),)))
    with pytest.raises(CompileError, match="2 push-constant blocks|PushConstant"):
        compile_module(kit.module())


def test_records_are_plain_data():
    compiled = compile_module(everything().module())
    assert dataclasses.asdict(compiled)["reflection"]["bindings"][0]["name"] == "blocks"
