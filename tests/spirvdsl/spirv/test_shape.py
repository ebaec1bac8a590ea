"""The shape of the emitted code, on words: decorations, layout, one access chain, barriers, variables, control flow."""

from __future__ import annotations

import pytest

from spirvdsl.diagnostics import CompileError
from spirvdsl.ir.nodes import Module
from spirvdsl.lang.types import Array, Field, Struct, Vector, bool_, f32, i32, u8, u32
from spirvdsl.spirv import compile_module
from spirvdsl.spirv.grammar import ENUM_BY_VALUE, ENUMS
from spirvdsl.spirv.words import Decoded, walk

from . import flow_cases
from .cases import BLOCK, CASES
from .kit import Kit


def code_of(source: str | Kit) -> list[Decoded]:
    module: Module = CASES[source][0]() if isinstance(source, str) else source.module()
    return list(walk(compile_module(module).spirv))


def count(code: list[Decoded], op: str) -> int:
    return sum(d.op == op for d in code)


def named(code: list[Decoded], name: str) -> int:
    return next(d.values()[0] for d in code if d.op == "OpName" and d.values()[1] == name)


def decorations(code: list[Decoded], target: int) -> list[str]:
    return [ENUM_BY_VALUE["Decoration"][d.values()[1]].name for d in code if d.op == "OpDecorate" and d.values()[0] == target]


def test_buffers_say_what_is_written():
    kit = Kit()
    read, write, both, atomic = (kit.buffer(n, u32) for n in ("read", "write", "both", "atomic"))
    i = kit.gid()
    kit.store(kit.index(write, i), kit.load(kit.index(read, i)))
    kit.store(kit.index(both, i), kit.load(kit.index(both, i)))
    kit.node("atomic", u32, (kit.index(atomic, i), i), fn="add", scope="device")
    code = code_of(kit)
    assert decorations(code, named(code, "read")) == ["DescriptorSet", "Binding", "Restrict", "NonWritable"]
    for name in ("write", "both", "atomic"):
        assert decorations(code, named(code, name)) == ["DescriptorSet", "Binding", "Restrict"]


def test_a_buffer_written_by_a_callee_is_writable():
    code = code_of("flow.call")
    assert "NonWritable" not in decorations(code, named(code, "cells"))


def test_two_views_of_one_binding_are_aliased():
    code = code_of("memory.aliased")
    for name in ("words", "floats"):
        assert decorations(code, named(code, name)) == ["DescriptorSet", "Binding", "Aliased", "NonWritable"]


def test_layout_is_std430_and_only_in_buffers():
    """NEST by hand: head f32x3 at 0, blocks (20 bytes, align 4) at 12 with stride 20, tail bf16 at 52; size 64 by its 16-byte alignment."""
    code = code_of("memory.struct")
    offset = ENUMS["Decoration"]["Offset"].value
    offsets: dict[int, list[int]] = {}
    for d in code:
        if d.op == "OpMemberDecorate" and d.values()[2] == offset:
            offsets.setdefault(d.values()[0], []).append(d.values()[3])
    assert [0, 12, 52] in offsets.values() and [0, 2, 4] in offsets.values()
    strides = {d.values()[0]: d.values()[2] for d in code if d.op == "OpDecorate" and d.values()[1] == ENUMS["Decoration"]["ArrayStride"].value}
    assert {64, 34, 20, 4, 1} <= set(strides.values())  # NEST, WIDE (align 2), BLOCK, u32, u8
    pointee = {d.result_id: d.values() for d in code if d.op == "OpTypePointer"}
    for d in code:
        if d.op == "OpVariable" and d.values()[0] in (ENUMS["StorageClass"]["Function"].value, ENUMS["StorageClass"]["Workgroup"].value):
            assert pointee[d.type_id][1] not in offsets and pointee[d.type_id][1] not in strides


def test_small_structs_move_memberwise_and_large_ones_by_copy():
    kit = Kit()
    kit.keep(kit.load(kit.index(kit.buffer("source", BLOCK, "in"), kit.gid())))
    code = code_of(kit)
    assert count(code, "OpCopyLogical") == 0 and count(code, "OpLoad") == 1 + 6 and count(code, "OpStore") == 6
    wide = Struct("Wide", (Field("q", Array(u8, 32)),))
    kit = Kit()
    kit.keep(kit.load(kit.index(kit.buffer("source", wide, "in"), kit.gid())))
    code = code_of(kit)
    assert count(code, "OpCopyLogical") == 2 and count(code, "OpStore") == 1


def test_a_path_is_one_access_chain_shared_in_its_block():
    kit = Kit()
    nest = Struct("Outer", (Field("a", u32), Field("inner", Array(Struct("Inner", (Field("x", f32), Field("v", Vector(f32, 4)))), 3))))
    ref = kit.index(kit.member(kit.index(kit.member(kit.index(kit.buffer("b", nest), kit.gid()), 1), kit.const(u32, 2)), 1), kit.const(i32, 3))
    kit.store(ref, kit.binary("add", kit.load(ref), kit.load(ref)))
    code = code_of(kit)
    chains = [d for d in code if d.op == "OpAccessChain"]
    assert len(chains) == 1 and len(chains[0].values()) == 1 + 6


def test_chains_do_not_leak_between_blocks():
    kit = Kit()
    cell = kit.index(kit.buffer("b", u32), kit.gid())
    cond = kit.input(bool_)
    then, otherwise = kit.if_(cond)
    for block in (then, otherwise):
        with kit.at(block):
            kit.store(cell, kit.const(u32, 1))
    kit.store(cell, kit.const(u32, 2))
    assert count(code_of(kit), "OpAccessChain") == 1 + 3


def test_variables_come_first_and_once():
    """Locals declared inside a loop body are variables of the function."""
    kit = Kit()
    with flow_cases.counted(kit, kit.input(u32)):
        inner = kit.local(f32, "inner")
        kit.store(inner, kit.const(f32, 1.0))
    code = code_of(kit)
    label = next(i for i, d in enumerate(code) if d.op == "OpLabel")
    assert [d.op for d in code[label + 1 : label + 3]] == ["OpVariable", "OpVariable"]
    assert sum(d.op == "OpVariable" and d.values()[0] == ENUMS["StorageClass"]["Function"].value for d in code) == 2


def test_builtins_are_read_once_ahead_of_the_code():
    kit = Kit()
    then, otherwise = kit.if_(kit.input(bool_))
    for block in (then, otherwise):
        with kit.at(block):
            kit.keep(kit.builtin("local_index"))
    code = code_of(kit)
    variable = named(code, "local_index")
    assert [d.values()[0] for d in code if d.op == "OpLoad"].count(variable) == 1


def test_interface_lists_inputs_before_1_4_and_everything_from_then_on():
    for name, everything in (("flow.workgroup", False), ("memory.struct", True)):
        code = code_of(name)
        entry = next(d for d in code if d.op == "OpEntryPoint")
        function = ENUMS["StorageClass"]["Function"].value
        variables = [d for d in code if d.op == "OpVariable" and d.values()[0] != function]
        wanted = [d.result_id for d in variables if everything or d.values()[0] == ENUMS["StorageClass"]["Input"].value]
        assert entry.values()[3:] == wanted


@pytest.mark.parametrize(
    ("scope", "memory", "semantics"),
    [("workgroup", ("workgroup",), 264), ("workgroup", ("workgroup", "storage"), 328), ("workgroup", ("storage",), 72), ("subgroup", (), 0)],
)
def test_barrier_semantics(scope, memory, semantics):
    kit = Kit()
    kit.node("barrier", None, scope=scope, memory=memory)
    code = code_of(kit)
    constants = {d.result_id: d.values()[0] for d in code if d.op == "OpConstant"}
    barrier = next(d for d in code if d.op == "OpControlBarrier")
    number = {"workgroup": 2, "subgroup": 3}[scope]
    assert [constants[i] for i in barrier.values()] == [(number,), (number,), (semantics,)]


@pytest.mark.parametrize(
    ("signed_a", "signed_b", "op", "swapped"),
    [(True, True, "OpSDot", False), (False, False, "OpUDot", False), (True, False, "OpSUDot", False), (False, True, "OpSUDot", True)],
)
def test_dot_puts_the_signed_operand_first(signed_a, signed_b, op, swapped):
    kit = Kit()
    a, b = kit.input(u32, "a"), kit.input(u32, "b")
    kit.keep(kit.node("int_dot", i32 if signed_a or signed_b else u32, (a, b), signed_a=signed_a, signed_b=signed_b))
    code = code_of(kit)
    chains = {d.result_id: d.values()[0] for d in code if d.op == "OpAccessChain"}
    loads = {d.result_id: chains.get(d.values()[0]) for d in code if d.op == "OpLoad"}
    dot = next(d for d in code if d.op == op)
    names = [named(code, "a"), named(code, "b")]
    assert [loads[i] for i in dot.values()[:2]] == (names[::-1] if swapped else names)
    assert dot.values()[2] == 0  # PackedVectorFormat4x8Bit


def test_loop_hints():
    code = code_of("flow.hints")
    merges = [d.values()[2:] for d in code if d.op == "OpLoopMerge"]
    assert merges == [[1], [0x100, 4], [2], [0]]


def test_empty_sides_and_dead_merges():
    code = code_of("flow.return")
    assert count(code, "OpUnreachable") == 1 and code[-1].op == "OpFunctionEnd"
    kit = Kit()
    kit.if_(kit.input(bool_))
    code = code_of(kit)
    assert count(code, "OpLabel") == 1 + 2  # the empty then-block stays a block of its own, the empty else-block is the merge


def test_unused_constants_and_builtins_are_not_written():
    kit = Kit()
    kit.const(f32, 123.0)
    kit.builtin("num_groups")
    code = code_of(kit)
    assert count(code, "OpConstant") == 0 and count(code, "OpTypeFloat") == 0


def test_constants_are_pooled_by_bits():
    kit = Kit()
    for value in (0.0, -0.0, float("nan"), -float("nan"), 1.0, 1.0):
        kit.keep(kit.const(f32, value))
    floats = [d.values()[0] for d in code_of(kit) if d.op == "OpConstant"]
    assert floats.count((0x7FC00000,)) == 1 and (0x80000000,) in floats and (0,) in floats and floats.count((0x3F800000,)) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((Field("a", Array(f32, 4)),), "elements of args.a are 4 bytes apart"),
        ((Field("n", u32), Field("s", Struct("S", (Field("x", f32),)))), "args.s is at offset 4"),
        ((Field("s", Struct("S", (Field("x", f32),))), Field("n", u32)), "args.n is at offset 4, in the padding"),
        ((Field("s", Struct("S", (Field("v", Vector(f32, 4)), Field("a", Array(Vector(f32, 2), 2))))),), "elements of args.s.a are 8 bytes apart"),
    ],
)
def test_uniform_buffers_follow_std140(fields, message):
    kit = Kit()
    kit.declare("uniform", "args", Struct("Args", fields))
    with pytest.raises(CompileError, match=message) as caught:
        compile_module(kit.module())
    assert caught.value.code == "E0304" and caught.value.span.file == "kernel.py"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda kit: kit.node("no_such_op", u32), "operation 'no_such_op' has no lowering"),
        (lambda kit: kit.keep(kit.binary("and", kit.input(f32), kit.input(f32))), "'and' has no instruction for f32"),
        (lambda kit: kit.keep(kit.math("abs", kit.input(u32))), r"abs\(\) has no instruction for u32"),
        (lambda kit: kit.loop(), "condition does not end in yield"),
        (lambda kit: kit.store(kit.member(kit.declare("push", "p", Struct("P", (Field("n", u32),))), 0), kit.gid()), "store to push memory"),
    ],
)
def test_broken_ir_is_an_internal_error_at_its_line(make, message):
    kit = Kit()
    make(kit)
    with pytest.raises(CompileError, match=message) as caught:
        compile_module(kit.module())
    assert caught.value.code == "E0901" and caught.value.span.line > 0
