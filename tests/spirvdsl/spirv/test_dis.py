"""Canonical text: one golden of a whole kernel, and what the text must not depend on."""

from __future__ import annotations

from spirvdsl.lang.types import Field, Struct, Vector, f16, f32, i8, i64, u32
from spirvdsl.spirv import compile_module, disassemble
from spirvdsl.spirv.grammar import OPS
from spirvdsl.spirv.words import decode, encode

from . import flow_cases, matrix_cases, mutate  # noqa: F401  (the former register cases)
from .cases import CASES
from .kit import Kit

SCALE = """\
; SPIR-V 1.3
                          OpCapability Shader
               %glsl = OpExtInstImport "GLSL.std.450"
                          OpMemoryModel Logical GLSL450
                          OpEntryPoint GLCompute %scale "main" %global_id
                          OpExecutionMode %scale LocalSize 32 1 1
                          OpDecorate %f32_x ArrayStride 4
                          OpMemberDecorate %f32_buffer 0 Offset 0
                          OpDecorate %f32_buffer Block
                          OpDecorate %x DescriptorSet 0
                          OpDecorate %x Binding 0
                          OpMemberDecorate %Push 0 Offset 0
                          OpDecorate %Push Block
                          OpDecorate %global_id BuiltIn GlobalInvocationId
                          OpDecorate %x Restrict
                   %f32 = OpTypeFloat 32
"""


def scale() -> Kit:
    kit = Kit("scale")
    x = kit.index(kit.buffer("x", f32), kit.gid())
    by = kit.load(kit.member(kit.declare("push", "push", Struct("Push", (Field("by", f32),))), 0))
    kit.store(x, kit.math("fma", kit.load(x), by, kit.const(f32, -0.5)))
    return kit


def test_text_of_a_kernel():
    text = disassemble(compile_module(scale().module()).spirv)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[: len(SCALE.splitlines())] == [" ".join(line.split()) for line in SCALE.splitlines()]
    assert lines[-11:] == [
        "%2 = OpLabel",
        "%3 = OpLoad %u32x3 %global_id",
        "%4 = OpCompositeExtract %u32 %3 0",
        "%5 = OpAccessChain %ptr_PushConstant_f32 %push %u32_0",
        "%6 = OpLoad %f32 %5",
        "%7 = OpAccessChain %ptr_StorageBuffer_f32 %x %u32_0 %4",
        "%8 = OpLoad %f32 %7",
        "%9 = OpExtInst %f32 %glsl Fma %8 %6 %f32_-0.5",
        "OpStore %7 %9",
        "OpReturn",
        "OpFunctionEnd",
    ]


def test_numbering_of_ids_does_not_show():
    """Every id renumbered: the same text."""
    spirv = compile_module(CASES["flow.loop"][0]()).spirv
    header, code = mutate.split(spirv)
    moved = []
    for words in code:
        entry = next(e for e in OPS.values() if e.value == words[0] & 0xFFFF)
        operands = [(k, header[3] - v if k.startswith("Id") else v) for k, v in decode(entry, words[1:]).operands]
        moved.append([words[0], *encode(entry.name, [v for _, v in operands])])
    renumbered = mutate.join(header, moved)
    assert renumbered != spirv and disassemble(renumbered) == disassemble(spirv)


def test_version_shows():
    spirv = compile_module(CASES["add.f32"][0]()).spirv
    assert disassemble(spirv).startswith("; SPIR-V 1.3\n")
    assert disassemble(mutate.with_version(spirv, 16)).startswith("; SPIR-V 1.6\n")


def test_constants_print_by_value():
    kit = Kit()
    for t, value in ((f32, 0.1), (f16, 0.1), (i8, -5), (i64, -(1 << 40)), (f32, float("inf")), (u32, 0xFFFFFFFF)):
        kit.keep(kit.const(t, value))
    kit.keep(kit.const(Vector(f32, 2), (1.0, 2.0)))
    text = disassemble(compile_module(kit.module()).spirv)
    for wanted in ("%f32_0.10000000149011612 = ", "%f16_0.0999755859375 = ", "%i8_-5 = ", "%i64_-1099511627776 = ", "%f32_0x7f800000 = ", "%u32_4294967295 = "):
        assert wanted in text
    assert "OpConstantComposite %f32x2 %f32_1.0 %f32_2.0" in " ".join(text.split())


def test_equal_names_are_told_apart():
    kit = Kit()
    for value in (1.0, 2.0):
        v = kit.local(f32, "v")
        kit.store(v, kit.const(f32, value))
        kit.keep(kit.load(v))
    text = disassemble(compile_module(kit.module()).spirv)
    assert "%v = OpVariable" in text and "%v~1 = OpVariable" in text


def test_enumerants_and_masks_print_by_name():
    text = disassemble(compile_module(CASES["flow.hints"][0]()).spirv)
    assert "PartialCount 4" in text and "DontUnroll" in text
    text = disassemble(compile_module(CASES["int_dot"][0]()).spirv)
    assert "PackedVectorFormat4x8Bit" in text and 'OpExtension "SPV_KHR_integer_dot_product"' in text
