"""The module writer: sections in the order of SPIR-V 2.4, ids, spans, words.

Invariants: a function's variables are kept apart from its code and print first; every instruction's operand count is
checked against the grammar when it is added; version, capabilities and extensions are computed from the finished
instructions (requirements.py), never declared by a lowering.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from ..ir.nodes import Span
from .grammar import ENUMS, OPS, Entry
from .requirements import Requirements, requirements
from .words import HEADER_WORDS, MAGIC, Decoded, decode, encode

_INPUT_OUTPUT = tuple(ENUMS["StorageClass"][name].value for name in ("Input", "Output"))
ENTRY = "main"
GENERATOR = 0  # no number is registered with Khronos


@dataclass(slots=True, eq=False)
class Inst:
    """An encoded instruction and where it comes from."""

    entry: Entry
    words: list[int]
    span: Span | None = None

    def decoded(self) -> Decoded:
        return decode(self.entry, self.words)


def inst(name: str, *operands, span: Span | None = None) -> Inst:
    """Encode one instruction. EncodingError when the operands do not fit the grammar."""
    return Inst(OPS[name], encode(name, operands), span)


@dataclass(eq=False)
class FunctionCode:
    """One OpFunction. `prologue` holds loads that every later block may use (builtins); it runs before `body`."""

    head: list[Inst]  # OpFunction, OpFunctionParameter*
    label: Inst
    variables: list[Inst] = field(default_factory=list)
    prologue: list[Inst] = field(default_factory=list)
    body: list[Inst] = field(default_factory=list)

    def all(self) -> list[Inst]:
        return [*self.head, self.label, *self.variables, *self.prologue, *self.body, inst("OpFunctionEnd")]


@dataclass(eq=False)
class SpirvModule:
    """A whole module under construction. `workgroup_size` and `name` describe the one entry point."""

    name: str
    memory_model: str = "GLSL450"  # "Vulkan" where cooperative matrices ask for it
    bound: int = 1
    imports: list[Inst] = field(default_factory=list)
    entry_id: int = 0
    modes: list[Inst] = field(default_factory=list)
    names: list[Inst] = field(default_factory=list)
    decorations: list[Inst] = field(default_factory=list)
    globals: list[Inst] = field(default_factory=list)
    functions: list[FunctionCode] = field(default_factory=list)
    _needs: Requirements | None = None
    _written: list[Inst] | None = None

    def new_id(self) -> int:
        self.bound += 1
        return self.bound - 1

    def add_name(self, target: int, text: str) -> None:
        self.names.append(inst("OpName", target, text))

    def decorate(self, target: int, decoration: str, *operands) -> None:
        self.decorations.append(inst("OpDecorate", target, decoration, *operands))

    def add_global(self, name: str, *operands, span: Span | None = None) -> None:
        self.globals.append(inst(name, *operands, span=span))

    @property
    def needs(self) -> Requirements:
        """Version, capabilities and extensions; computed once, when the module is finished."""
        if self._needs is None:
            self._needs = requirements([i.decoded() for i in self._code()])
        return self._needs

    def _code(self) -> list[Inst]:
        """Everything that can require something; the interface of the entry point is filled in later."""
        functions = [i for f in self.functions for i in f.all()]
        return [*self.imports, *self._model(), *self.modes, *self.decorations, *self.globals, *functions]

    def _model(self) -> list[Inst]:
        return [inst("OpMemoryModel", "Logical", self.memory_model)]

    def _interface(self) -> list[int]:
        """From 1.4 on every global variable, before that Input and Output only (SPIR-V 1.6, OpEntryPoint)."""
        variables = [i.words for i in self.globals if i.entry.name == "OpVariable"]
        return [result for _, result, storage, *_ in variables if self.needs.version >= 14 or storage in _INPUT_OUTPUT]

    def instructions(self) -> list[Inst]:
        """All instructions in the order they are written; the index is the ordinal in a validator's message."""
        if self._written is None:
            out = [inst("OpCapability", c) for c in self.needs.capabilities]
            out += [inst("OpExtension", e) for e in self.needs.extensions]
            out += [*self.imports, *self._model()]
            out.append(inst("OpEntryPoint", "GLCompute", self.entry_id, ENTRY, *self._interface()))
            out += [*self.modes, *self.names, *self.decorations, *self.globals]
            for function in self.functions:
                out += function.all()
            self._written = out
        return self._written

    def to_bytes(self) -> bytes:
        """Little-endian words with the header."""
        major, minor = divmod(self.needs.version, 10)
        words = [MAGIC, major << 16 | minor << 8, GENERATOR, self.bound, 0]
        assert len(words) == HEADER_WORDS
        for i in self.instructions():
            words.append((len(i.words) + 1) << 16 | i.entry.value)
            words += i.words
        return struct.pack(f"<{len(words)}I", *words)
