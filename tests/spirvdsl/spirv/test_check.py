"""Own checks: each fires on a mutation that spirv-val lets pass, and none fires on what the compiler writes."""

from __future__ import annotations

import pytest

from spirvdsl.diagnostics import CompileError
from spirvdsl.ir.nodes import Span
from spirvdsl.spirv.check import check, first_finding
from spirvdsl.spirv.grammar import ENUM_BY_VALUE, ENUMS
from spirvdsl.spirv.validate import first_error
from spirvdsl.spirv.words import version_of, walk

from . import mutate
from .cases import compiled


def words_of(name: str) -> bytes:
    return compiled(name).spirv


def finding(spirv: bytes):
    return first_finding(list(walk(spirv)), version_of(spirv))


def physical_model(spirv: bytes) -> bytes:
    """Addressing model PhysicalStorageBuffer64, declared properly, though no such pointer exists."""
    model, cap = ENUMS["AddressingModel"]["PhysicalStorageBuffer64"].value, ENUMS["Capability"]["PhysicalStorageBufferAddresses"].value
    header, code = mutate.split(mutate.with_version(spirv, 15))
    code = [[i[0], model, i[2]] if mutate.is_op(i, "OpMemoryModel") else i for i in code]
    inputs = [i[2] for i in code if mutate.is_op(i, "OpVariable") and i[3] != ENUMS["StorageClass"]["Function"].value]
    entry = next(k for k, i in enumerate(code) if mutate.is_op(i, "OpEntryPoint"))
    head = code[entry][:5]  # words: count, model, id, "main", its nul; 1.4 lists every variable
    code[entry] = [(len(head) + len(inputs)) << 16 | head[0] & 0xFFFF, *head[1:], *inputs]
    return mutate.join(header, [[2 << 16 | 17, cap], *code])


def physical_pointer(spirv: bytes) -> bytes:
    """A physical storage buffer pointer type under Logical addressing."""
    storage, cap = ENUMS["StorageClass"]["PhysicalStorageBuffer"].value, ENUMS["Capability"]["PhysicalStorageBufferAddresses"].value
    header, code = mutate.split(mutate.change(physical_model(spirv), lambda i: [i[0], 0, i[2]] if mutate.is_op(i, "OpMemoryModel") else i))
    float_at = next(k for k, i in enumerate(code) if mutate.is_op(i, "OpTypeFloat", "OpTypeInt"))
    pointer = [4 << 16 | 32, header[3], storage, code[float_at][1]]
    assert code[0][1] == cap
    return mutate.join([*header[:3], header[3] + 1, 0], [*code[: float_at + 1], pointer, *code[float_at + 1 :]])


SILENT = {  # mutation -> (words, what our check says); spirv-val accepts all of them
    "packed dot without its capability": (
        lambda: mutate.without_capability(words_of("int_dot"), "DotProductInput4x8BitPacked"),
        "needs capability DotProductInput4x8BitPacked",
    ),
    "packed dot without its format literal": (
        lambda: mutate.without_last_operand(words_of("int_dot"), "OpSDot", "OpUDot", "OpSUDot"),
        "packed operands lacks its format literal",
    ),
    "saturating dot without its format literal": (
        lambda: mutate.without_last_operand(words_of("int_dot"), "OpSDotAccSat", "OpUDotAccSat", "OpSUDotAccSat"),
        "AccSat of packed operands lacks its format literal",
    ),
    "8-bit buffer with Int8 alone": (
        lambda: mutate.without_capability(words_of("convert.u8.f32"), "StorageBuffer8BitAccess"),
        "needs capability StorageBuffer8BitAccess",
    ),
    "16-bit buffer with Float16 alone": (
        lambda: mutate.without_capability(words_of("add.f16"), "StorageBuffer16BitAccess"),
        "needs capability StorageBuffer16BitAccess",
    ),
    "buffer neither Restrict nor Aliased": (
        lambda: mutate.without_decoration(words_of("flow.loop"), "Restrict"),
        "exactly one of Restrict and Aliased",
    ),
    "physical addressing without physical pointers": (
        lambda: physical_model(words_of("flow.loop")),
        "PhysicalStorageBuffer64 go together",
    ),
    "physical pointer under Logical addressing": (
        lambda: physical_pointer(words_of("flow.loop")),
        "PhysicalStorageBuffer64 go together",
    ),
}


@pytest.mark.parametrize("name", sorted(SILENT))
def test_gap_of_spirv_val(name):
    make, message = SILENT[name]
    spirv = make()
    assert first_error(spirv) is None, "spirv-val sees this by now: the check may go"
    assert message in finding(spirv)[1]


@pytest.mark.parametrize("name", ["int_dot", "memory.struct", "memory.push", "subgroup.rotate.f32", "flow.hints", "atomic.add.f32.storage"])
def test_every_declaration_is_needed(name):
    """Without any one capability or extension line, or with a lower version, some check fires: nothing is declared in excess."""
    spirv = words_of(name)
    held_by_others = ("StorageBuffer16BitAccess", "StorageBuffer8BitAccess", "Int64")  # implied by a wider one in some modules
    for inst in walk(spirv):
        if inst.op == "OpCapability":
            cap = ENUM_BY_VALUE["Capability"][inst.values()[0]].name
            assert finding(mutate.without_capability(spirv, cap)) is not None or cap in held_by_others, cap
        elif inst.op == "OpExtension":
            assert inst.values()[0] in finding(mutate.without_extension(spirv, inst.values()[0]))[1]
    if version_of(spirv) > 13:
        assert "its header says 1.3" in finding(mutate.with_version(spirv, 13))[1]


def test_error_names_the_line():
    spirv = mutate.without_last_operand(words_of("int_dot"), "OpSDot")
    code = list(walk(spirv))
    at = next(i for i, inst in enumerate(code) if inst.op == "OpSDot")
    spans = [None] * at + [Span("kernel.py", 7, 2)] + [None] * (len(code) - at - 1)
    with pytest.raises(CompileError) as caught:
        check(code, version_of(spirv), spans)
    assert (caught.value.code, caught.value.span.line) == ("E0803", 7)
