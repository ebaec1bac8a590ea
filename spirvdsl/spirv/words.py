"""Words <-> instructions, by the grammar alone. Used by the writer, the disassembler, the checks, reflection and the census.

Source: SPIR-V specification 2.3 (physical layout of a module and an instruction).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .grammar import COMPOSITES, ENUMS, ID_KINDS, OP_BY_NUMBER, OPS, Entry, Operand, enumerants

MAGIC = 0x07230203
HEADER_WORDS = 5


class EncodingError(Exception):
    """Operands that do not fit the grammar: a fault of the compiler, never of the author."""


@dataclass(slots=True, eq=False)
class Decoded:
    """One instruction: grammar entry and flat operands (kind, value), the parameters of enumerants included."""

    entry: Entry
    operands: list[tuple[str, int | str | tuple[int, ...]]]
    op: str
    type_id: int | None  # the IdResultType operand
    result_id: int | None  # the IdResult operand
    lead: int  # how many operands those two are

    def values(self) -> list:
        """Operand values after the result type and the result id."""
        return [v for _, v in self.operands[self.lead :]]

    def first(self, kind: str) -> int | None:
        """Value of the first operand of a kind, or None."""
        for k, v in self.operands:
            if k == kind:
                return v
        return None

    def ids(self) -> list[int]:
        """Ids read by the instruction, its result type left out."""
        return [v for k, v in self.operands[self.lead :] if k in ID_KINDS]


def string_words(text: str) -> list[int]:
    """A nul-terminated UTF-8 literal, padded to words."""
    raw = text.encode() + b"\0"
    raw += b"\0" * (-len(raw) % 4)
    return list(struct.unpack(f"<{len(raw) // 4}I", raw))


def encode(name: str, values: Sequence) -> list[int]:
    """Operand words of an instruction. Enumerants are given by name ("A|B" for masks) or number. EncodingError on a wrong count."""
    entry = OPS[name]
    if entry.flat is not None and all(v.__class__ is int and 0 < v < 1 << 32 for v in values):
        missing = len(values) - len(entry.flat)
        if missing == 0 or (missing > 0 and entry.tail):
            return list(values)
    out: list[int] = []
    at = 0
    for operand in entry.operands:
        if operand.quantifier == "?" and at == len(values):
            continue
        if operand.quantifier == "*":
            while at < len(values):
                at = _put(name, operand, values, at, out)
        else:
            at = _put(name, operand, values, at, out)
    if at != len(values):
        raise EncodingError(f"{name} takes {at} operands, got {len(values)}: {list(values)!r}")
    return out


def _put(name: str, operand: Operand, values: Sequence, at: int, out: list[int]) -> int:
    if at >= len(values):
        raise EncodingError(f"{name} lacks its operand {operand.kind}: {list(values)!r}")
    kind, value = operand.kind, values[at]
    if kind in COMPOSITES:
        for base in COMPOSITES[kind]:
            at = _put(name, base, values, at, out)
        return at
    if kind == "LiteralString":
        out += string_words(value)
    elif kind in ENUMS:
        word = _enum_word(kind, value)
        out.append(word)
        at += 1
        for parameter in (p for e in enumerants(kind, word) for p in e.operands):
            at = _put(name, parameter, values, at, out)
        return at
    elif isinstance(value, tuple):
        out += value
    elif isinstance(value, int) and 0 <= value < 1 << 32 and not (value == 0 and kind in ID_KINDS):
        out.append(value)
    else:
        raise EncodingError(f"{name}: {value!r} is no {kind}")
    return at + 1


def _enum_word(kind: str, value: str | int) -> int:
    if isinstance(value, int):
        return value
    word = 0
    for name in value.split("|"):
        word |= ENUMS[kind][name].value
    return word


def decode(entry: Entry, words: Sequence[int]) -> Decoded:
    """Inverse of encode. EncodingError when words are missing or left over."""
    if entry.flat is not None:
        missing = len(words) - len(entry.flat)
        if missing < 0 or (missing and not entry.tail):
            raise EncodingError(f"{entry.name} takes {len(entry.flat)} operand words, got {len(words)}")
        kinds = (*entry.flat, *(entry.tail,) * missing)
        out = list(zip(kinds, words, strict=True))
    else:
        out = _decode_by_kind(entry, words)
    lead = entry.typed + entry.has_result
    result = out[lead - 1][1] if entry.has_result else None
    return Decoded(entry, out, entry.name, out[0][1] if entry.typed else None, result, lead)


def _decode_by_kind(entry: Entry, words: Sequence[int]) -> list[tuple[str, int | str | tuple[int, ...]]]:
    out: list[tuple[str, int | str | tuple[int, ...]]] = []
    at = 0
    try:
        for operand in entry.operands:
            if operand.quantifier == "?" and at == len(words):
                continue
            if operand.quantifier == "*":
                while at < len(words):
                    at = _get(operand, words, at, out)
            else:
                at = _get(operand, words, at, out)
    except (IndexError, KeyError) as e:
        raise EncodingError(f"{entry.name}: operand words {list(words)} do not fit the grammar ({e})") from None
    if at != len(words):
        raise EncodingError(f"{entry.name}: {len(words) - at} words left over")
    return out


def _get(operand: Operand, words: Sequence[int], at: int, out: list) -> int:
    kind = operand.kind
    if kind in COMPOSITES:
        for base in COMPOSITES[kind]:
            at = _get(base, words, at, out)
        return at
    if kind == "LiteralString":
        text, count = _string(words, at)
        out.append((kind, text))
        return at + count
    if kind == "LiteralContextDependentNumber":  # the width is that of the result type: whatever words are left
        out.append((kind, tuple(words[at:])))
        return len(words)
    out.append((kind, words[at]))
    if kind in ENUMS:
        word, at = words[at], at + 1
        for parameter in (p for e in enumerants(kind, word) for p in e.operands):
            at = _get(parameter, words, at, out)
        return at
    return at + 1


def _string(words: Sequence[int], at: int) -> tuple[str, int]:
    raw = bytearray()
    for count, word in enumerate(words[at:], 1):
        raw += word.to_bytes(4, "little")
        if word >> 24 == 0:
            return raw[: raw.index(0)].decode(), count
    raise IndexError("string without its end")


def to_words(spirv: bytes) -> tuple[int, ...]:
    """The words of a little-endian module. EncodingError when it is none."""
    if len(spirv) % 4 or len(spirv) < 4 * HEADER_WORDS:
        raise EncodingError(f"{len(spirv)} bytes are no SPIR-V module")
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    if words[0] != MAGIC:
        raise EncodingError(f"magic number is 0x{words[0]:08x}, expected 0x{MAGIC:08x}")
    return words


def walk(spirv: bytes) -> Iterator[Decoded]:
    """Every instruction of a module in order."""
    words = to_words(spirv)
    at = HEADER_WORDS
    while at < len(words):
        count, number = words[at] >> 16, words[at] & 0xFFFF
        if count == 0 or at + count > len(words):
            raise EncodingError(f"word {at}: instruction of {count} words runs past the module's end")
        if number not in OP_BY_NUMBER:
            raise EncodingError(f"word {at}: opcode {number} is not in the grammar")
        yield decode(OP_BY_NUMBER[number], words[at + 1 : at + count])
        at += count


def version_of(spirv: bytes) -> int:
    """13 for SPIR-V 1.3, from the header's version word."""
    word = to_words(spirv)[1]
    return (word >> 16 & 255) * 10 + (word >> 8 & 255)


def version_text(version: int) -> str:
    """ "1.3" for 13."""
    return f"{version // 10}.{version % 10}"
