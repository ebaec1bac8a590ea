"""Canonical disassembly: the text of golden files.

The first line is the version. Ids are named: by OpName where there is one (made unique by a counter), else by their number
in order of first appearance, so a change in the allocation of ids alone leaves the text as it is. OpName lines themselves are
left out; types and scalar constants without a name are called by what they are (%f32x4, %u32_7). Enumerants, masks and GLSL.std.450 instructions print by name, constants by value.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from .grammar import BIT_KINDS, ENUMS, GLSL_BY_NUMBER, ID_KINDS, enumerants
from .words import Decoded, version_of, version_text, walk

_INDENT = 26
_HIDDEN = ("OpName", "OpMemberName")
_FLOATS = {16: "<e", 32: "<f", 64: "<d"}


class _Names:
    """Printed names of ids, given out in order of first appearance."""

    def __init__(self, code: list[Decoded]):
        self.by_id = {d.result_id: d for d in code if d.result_id is not None}
        self._wanted = {d.values()[0]: _clean(d.values()[1]) for d in code if d.op == "OpName"}
        self._names: dict[int, str] = {}
        self._taken: dict[str, int] = {}
        self._next = 1

    def of(self, value_id: int) -> str:
        if value_id not in self._names:
            self._names[value_id] = self._fresh(self._wanted.get(value_id) or self._structural(value_id))
        return self._names[value_id]

    def _fresh(self, wanted: str) -> str:
        if not wanted:
            self._next += 1
            return f"%{self._next - 1}"
        count = self._taken.get(wanted, 0)
        self._taken[wanted] = count + 1
        # no wanted name holds "~", so a numbered name never meets another's plain one
        return f"%{wanted}~{count}" if count else f"%{wanted}"

    def _structural(self, value_id: int) -> str:
        """Types and scalar constants read better by what they are; "" for all else."""
        inst = self.by_id.get(value_id)
        name = _STRUCTURAL.get(inst.op) if inst is not None else None
        return name(self, inst) if name else ""

    def bare(self, value_id: int) -> str:
        return self.of(value_id)[1:]


def _int_name(names: _Names, inst: Decoded) -> str:
    width, signed = inst.values()
    return f"{'i' if signed else 'u'}{width}"


def _array_name(names: _Names, inst: Decoded) -> str:
    elem, length = inst.values()
    count = names.by_id[length]
    return f"{names.bare(elem)}_x{_constant(names, count)}" if count.op == "OpConstant" else f"{names.bare(elem)}_array"


def _matrix_name(names: _Names, inst: Decoded) -> str:
    """f16_16x8_MatrixA; dimensions that are no plain constants leave it a number."""
    elem, _, *shape = inst.values()
    if any(names.by_id[c].op != "OpConstant" for c in shape):
        return ""
    rows, cols, use = (_constant(names, names.by_id[c]) for c in shape)
    return f"{names.bare(elem)}_{rows}x{cols}_Matrix{('A', 'B', 'Acc')[int(use)]}"


def _pointer_name(names: _Names, inst: Decoded) -> str:
    storage, pointee = inst.values()
    return f"ptr_{enumerants('StorageClass', storage)[0].name}_{names.bare(pointee)}"


def _constant(names: _Names, inst: Decoded) -> str:
    return _number(inst.values()[0], names.by_id[inst.type_id])


_STRUCTURAL: dict[str, Callable[[_Names, Decoded], str]] = {
    "OpTypeVoid": lambda names, inst: "void",
    "OpTypeBool": lambda names, inst: "bool",
    "OpTypeInt": _int_name,
    "OpTypeFloat": lambda names, inst: f"f{inst.values()[0]}",
    "OpTypeVector": lambda names, inst: f"{names.bare(inst.values()[0])}x{inst.values()[1]}",
    "OpTypeCooperativeMatrixKHR": _matrix_name,
    "OpTypeArray": _array_name,
    "OpTypeRuntimeArray": lambda names, inst: f"{names.bare(inst.values()[0])}_x",
    "OpTypePointer": _pointer_name,
    "OpConstant": lambda names, inst: f"{names.bare(inst.type_id)}_{_constant(names, inst)}",
    "OpConstantTrue": lambda names, inst: "true",
    "OpConstantFalse": lambda names, inst: "false",
    "OpExtInstImport": lambda names, inst: "glsl",
}


def _clean(text: str) -> str:
    text = re.sub(r"\W", "_", text)
    return f"_{text}" if text[:1].isdigit() else text


def disassemble(spirv: bytes) -> str:
    """Text of a module, one instruction a line. EncodingError for words that are no module."""
    code = list(walk(spirv))
    names = _Names(code)
    lines = [f"; SPIR-V {version_text(version_of(spirv))}"]
    lines += [_line(d, names) for d in code if d.op not in _HIDDEN]
    return "\n".join(lines) + "\n"


def _line(inst: Decoded, names: _Names) -> str:
    result = f"{names.of(inst.result_id)} = " if inst.result_id is not None else ""
    words = [inst.op]
    for kind, value in inst.operands:
        if kind == "IdResult":
            continue
        words.append(_operand(inst, kind, value, names))
    return result.rjust(_INDENT) + " ".join(words)


def _operand(inst: Decoded, kind: str, value, names: _Names) -> str:
    if kind in ID_KINDS:
        return names.of(value)
    if kind == "LiteralString":
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if kind == "LiteralExtInstInteger":
        return GLSL_BY_NUMBER[value]
    if kind == "LiteralContextDependentNumber":
        return _number(value, names.by_id[inst.type_id])
    if kind in ENUMS:
        found = [e.name for e in enumerants(kind, value)]
        return "|".join(found) if kind in BIT_KINDS else found[0]
    return str(value)


def _number(words: tuple[int, ...], scalar: Decoded) -> str:
    """A constant by value; floats in the shortest decimal that reads back, non-finite ones by their bits."""
    raw = sum(w << 32 * i for i, w in enumerate(words))
    width = scalar.values()[0]
    if scalar.op == "OpTypeFloat":
        value = struct.unpack(_FLOATS[width], (raw & (1 << width) - 1).to_bytes(width // 8, "little"))[0]
        return repr(value) if value == value and abs(value) != float("inf") else f"0x{raw:0{width // 4}x}"
    bits = 8 * len(words) * 4
    return str(raw - (1 << bits) if scalar.values()[1] and raw >> bits - 1 else raw)
