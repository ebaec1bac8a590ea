"""The SPIR-V grammar as tables: instructions, enumerants, GLSL.std.450 numbers.

Read from grammar_table.json, which gen_grammar.py makes from the Khronos JSON. Operand shapes are words such as
`IdResultType IdResult IdRef MemoryAccess?`; `?` is optional, `*` any number. Versions are 10 for 1.0 ... 16 for 1.6 and
0 for what no version has in core (an extension must bring it).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand position. quantifier: '' once, '?' optional, '*' any number."""

    kind: str
    quantifier: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """An instruction or an enumerant. `caps`: any one of them enables it (for a capability: all that it implies).

    The last four fields follow from `operands` and make decoding fast: does it start with a result type, has it a result id,
    the kinds when every operand is one word that stands for itself (else None), and the kind of a `*` operand ending those.
    """

    name: str
    value: int
    operands: tuple[Operand, ...]
    version: int
    caps: tuple[str, ...]
    exts: tuple[str, ...]
    typed: bool
    has_result: bool
    flat: tuple[str, ...] | None
    tail: str


@cache
def _shape(text: str) -> tuple[Operand, ...]:
    return tuple(Operand(w.rstrip("?*"), w[-1] if w[-1] in "?*" else "") for w in text.split())


@cache
def _derived(operands: tuple[Operand, ...]) -> tuple[bool, bool, tuple[str, ...] | None, str]:
    kinds = tuple(o.kind for o in operands)
    tail = kinds[-1] if operands and operands[-1].quantifier == "*" else ""
    fixed = operands[:-1] if tail else operands
    words = all(o.kind in _ONE_WORD and not o.quantifier for o in fixed) and (not tail or tail in _ONE_WORD)
    return kinds[:1] == ("IdResultType",), "IdResult" in kinds[:2], tuple(o.kind for o in fixed) if words else None, tail


def _entries(rows: dict[str, list]) -> dict[str, Entry]:
    out = {}
    for name, (value, text, version, caps, exts) in rows.items():
        operands = _shape(text)
        out[name] = Entry(name, value, operands, version, tuple(caps), tuple(exts), *_derived(operands))
    return out


ID_KINDS: frozenset[str] = frozenset(("IdRef", "IdResultType", "IdResult", "IdScope", "IdMemorySemantics"))
_ONE_WORD = ID_KINDS | {"LiteralInteger", "LiteralExtInstInteger"}


_TABLE = json.loads(Path(__file__).with_name("grammar_table.json").read_text())

OPS: dict[str, Entry] = _entries(_TABLE["ops"])
OP_BY_NUMBER: dict[int, Entry] = {e.value: e for e in reversed(OPS.values())}  # the first name of a number wins over aliases
BIT_KINDS: frozenset[str] = frozenset(_TABLE["bits"])
COMPOSITES: dict[str, tuple[Operand, ...]] = {k: _shape(v) for k, v in _TABLE["composites"].items()}
ENUMS: dict[str, dict[str, Entry]] = {k[5:]: _entries(rows) for k, rows in _TABLE.items() if k.startswith("enum ")}
ENUM_BY_VALUE: dict[str, dict[int, Entry]] = {k: {e.value: e for e in reversed(rows.values())} for k, rows in ENUMS.items()}
GLSL: dict[str, int] = {name: row[0] for name, row in _TABLE["glsl"].items()}
GLSL_ARITY: dict[str, int] = {name: row[1] for name, row in _TABLE["glsl"].items()}
GLSL_BY_NUMBER: dict[int, str] = {number: name for name, number in GLSL.items()}
SOURCE: str = _TABLE["source"]


def enumerants(kind: str, value: int) -> list[Entry]:
    """The enumerants a word names: one for a value enum; for a mask each set bit from the lowest, or its zero. KeyError if unknown."""
    table = ENUM_BY_VALUE[kind]
    if kind not in BIT_KINDS:
        return [table[value]]
    if value == 0:
        return [table[0]] if 0 in table else []
    return [table[1 << b] for b in range(value.bit_length()) if value >> b & 1]
