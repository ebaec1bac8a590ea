"""Changes to finished words, by hand: what a faulty compiler would have written."""

from __future__ import annotations

import struct
from collections.abc import Callable

from spirvdsl.spirv.grammar import ENUMS, OPS
from spirvdsl.spirv.words import decode, to_words

Instruction = list[int]


def split(spirv: bytes) -> tuple[list[int], list[Instruction]]:
    """Header words, and each instruction's words."""
    words, at, out = to_words(spirv), 5, []
    while at < len(words):
        count = words[at] >> 16
        out.append(list(words[at : at + count]))
        at += count
    return list(words[:5]), out


def join(header: list[int], instructions: list[Instruction]) -> bytes:
    words = header + [w for i in instructions for w in i]
    return struct.pack(f"<{len(words)}I", *words)


def change(spirv: bytes, edit: Callable[[Instruction], Instruction | None]) -> bytes:
    """Every instruction through `edit`; None drops it."""
    header, instructions = split(spirv)
    return join(header, [e for i in instructions if (e := edit(i)) is not None])


def is_op(instruction: Instruction, *names: str) -> bool:
    return instruction[0] & 0xFFFF in {OPS[n].value for n in names}


def without_capability(spirv: bytes, name: str) -> bytes:
    number = ENUMS["Capability"][name].value
    return change(spirv, lambda i: None if is_op(i, "OpCapability") and i[1] == number else i)


def without_extension(spirv: bytes, name: str) -> bytes:
    return change(spirv, lambda i: None if is_op(i, "OpExtension") and decode(OPS["OpExtension"], i[1:]).values() == [name] else i)


def without_decoration(spirv: bytes, name: str) -> bytes:
    number = ENUMS["Decoration"][name].value
    return change(spirv, lambda i: None if is_op(i, "OpDecorate") and i[2] == number else i)


def with_version(spirv: bytes, version: int) -> bytes:
    header, instructions = split(spirv)
    return join([header[0], version // 10 << 16 | version % 10 << 8, *header[2:]], instructions)


def without_last_operand(spirv: bytes, *ops: str) -> bytes:
    """The last word of these instructions is cut off."""
    return change(spirv, lambda i: [i[0] - (1 << 16), *i[1:-1]] if is_op(i, *ops) else i)
