"""Types, constants and undefined values, one id for each structural key, made at first use.

A struct or array in a buffer carries Offset and ArrayStride decorations; the same type in a register, a local or workgroup
memory must not (Vulkan 1.3, VUID-StandaloneSpirv-None-10684), so `laid` is part of the key. bool never has a laid form.
bf16 is held as a 16-bit unsigned integer: it is a storage type here, converted by integer operations (lower_convert.py), so
that it needs no device extension.
"""

from __future__ import annotations

import math
import struct

from ..lang.coopmat import CoopMatrix
from ..lang.layout import offsets_of, stride_of
from ..lang.types import Array, RuntimeArray, Scalar, Struct, Type, Vector, bool_, u16, u32
from .module import Inst, SpirvModule, inst

STORAGE_CLASS = {
    "function": "Function", "workgroup": "Workgroup", "storage": "StorageBuffer", "uniform": "Uniform", "push": "PushConstant",
    "input": "Input",
}  # fmt: skip
_SUBGROUP = 3  # Scope
LAID = ("storage", "uniform", "push")
_FLOAT_CODE = {16: "<e", 32: "<f", 64: "<d"}
_QUIET_NAN = {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000}


def has_layout(t: Type) -> bool:
    """True when the laid and the plain form of a type are different SPIR-V types."""
    return isinstance(t, Array | RuntimeArray | Struct)


class Pool:
    """Interns into the globals section of one module."""

    def __init__(self, module: SpirvModule):
        self.module = module
        self._ids: dict[tuple, int] = {}
        self._constants: dict[int, None] = {}

    def is_constant(self, value_id: int) -> bool:
        return value_id in self._constants

    def _intern(self, key: tuple, op: str, *operands, type_id: int | None = None) -> int:
        """The id under `key`; emitted as `op [type] id operands` the first time."""
        if key not in self._ids:
            made = self.module.new_id()
            self.module.add_global(op, *((type_id, made) if type_id else (made,)), *operands)
            self._ids[key] = made
        return self._ids[key]

    # types
    def void(self) -> int:
        return self._intern(("void",), "OpTypeVoid")

    def type(self, t: Type, laid: bool = False) -> int:
        """Id of a value type; with laid=True of its form in a buffer."""
        if t.__class__ is Scalar and t.encoding == "bf16":
            t = u16
        key = ("type", t, laid and has_layout(t))
        if key not in self._ids:
            self._ids[key] = self._make(t, laid)
        return self._ids[key]

    def _make(self, t: Type, laid: bool) -> int:
        if isinstance(t, Scalar):
            return self._scalar(t)
        if isinstance(t, CoopMatrix):
            shape = (self.u32(n) for n in (_SUBGROUP, t.rows, t.cols, t.use.value))
            return self._intern(("matrix", t), "OpTypeCooperativeMatrixKHR", self.type(t.elem), *shape)
        if isinstance(t, Vector):
            return self._intern(("vector", t), "OpTypeVector", self.type(t.elem), t.lanes)
        if isinstance(t, Array):
            made = self._intern(("array", t, laid), "OpTypeArray", self.type(t.elem, laid), self.u32(t.length))
        elif isinstance(t, RuntimeArray):
            made = self._intern(("runtime", t, laid), "OpTypeRuntimeArray", self.type(t.elem, laid))
        else:
            return self._struct(t, laid)
        if laid:
            self.module.decorate(made, "ArrayStride", stride_of(t))
        return made

    def _scalar(self, t: Scalar) -> int:
        if t.is_bool:
            return self._intern(("bool",), "OpTypeBool")
        if t.is_float:
            return self._intern(("float", t.bits), "OpTypeFloat", t.bits)
        return self._intern(("int", t), "OpTypeInt", t.bits, int(t.is_signed))

    def _struct(self, t: Struct, laid: bool, block: bool = False) -> int:
        members = [self.type(f.type, laid) for f in t.fields]
        made = self._intern(("struct", t, laid, block), "OpTypeStruct", *members)
        self.module.add_name(made, t.title)
        for i, f in enumerate(t.fields):
            self.module.names.append(_member_name(made, i, f.name))
            if laid:
                self.module.decorations.append(_member_offset(made, i, offsets_of(t)[i]))
        return made

    def block(self, t: Type) -> int:
        """The interface struct of a buffer: `struct { T data[]; }` for a runtime array, the struct itself otherwise."""
        key = ("block", t)
        if key not in self._ids:
            if isinstance(t, RuntimeArray):
                made = self.module.new_id()
                data = self.type(t, laid=True)
                self.module.add_global("OpTypeStruct", made, data)
                self.module.add_name(made, f"{t.elem.name}_buffer")
                self.module.names.append(_member_name(made, 0, "data"))
                self.module.decorations.append(_member_offset(made, 0, 0))
            else:
                made = self._struct(t, laid=True, block=True)
            self.module.decorate(made, "Block")
            self._ids[key] = made
        return self._ids[key]

    def workgroup_block(self, t: Array, offset: int) -> int:
        """The interface struct of workgroup memory that others view: `struct { layout(offset) T data[n]; }`."""
        key = ("workgroup", t, offset)
        if key not in self._ids:
            data, made = self.type(t, laid=True), self.module.new_id()
            self.module.add_global("OpTypeStruct", made, data)
            self.module.add_name(made, f"{t.elem.name}_shared")
            self.module.names.append(_member_name(made, 0, "data"))
            self.module.decorations.append(_member_offset(made, 0, offset))
            self.module.decorate(made, "Block")
            self._ids[key] = made
        return self._ids[key]

    def pointer(self, storage: str, type_id: int) -> int:
        """storage: a key of STORAGE_CLASS."""
        return self._intern(("pointer", storage, type_id), "OpTypePointer", STORAGE_CLASS[storage], type_id)

    def function_type(self, result: int, params: tuple[int, ...]) -> int:
        return self._intern(("function", result, params), "OpTypeFunction", result, *params)

    # constants
    def u32(self, value: int) -> int:
        return self.constant(u32, value)

    def constant(self, t: Type, value) -> int:
        """Scalar constant by its bits, or a composite of a (nested) tuple."""
        if isinstance(t, Scalar):
            made = self._scalar_constant(t, value)
        else:
            elems = [f.type for f in t.fields] if isinstance(t, Struct) else [t.elem] * len(value)
            made = self.composite(t, tuple(self.constant(e, v) for e, v in zip(elems, value, strict=True)))
        self._constants[made] = None
        return made

    def _scalar_constant(self, t: Scalar, value) -> int:
        type_id = self.type(t)
        if t.is_bool:
            op = "OpConstantTrue" if value else "OpConstantFalse"
            return self._intern(("constant", type_id, bool(value)), op, type_id=type_id)
        bits = scalar_words(t, value)
        return self._intern(("constant", type_id, bits), "OpConstant", bits, type_id=type_id)

    def composite(self, t: Type, parts: tuple[int, ...]) -> int:
        """A constant composite of constants."""
        type_id = self.type(t)
        made = self._intern(("composite", type_id, parts), "OpConstantComposite", *parts, type_id=type_id)
        self._constants[made] = None
        return made

    def undef(self, t: Type) -> int:
        type_id = self.type(t)
        return self._intern(("undef", type_id), "OpUndef", type_id=type_id)

    def bool_type(self, lanes: int) -> int:
        return self.type(bool_ if lanes == 1 else Vector(bool_, lanes))


def scalar_words(t: Scalar, value) -> tuple[int, ...]:
    """Literal words of a numeric constant: sign-extended to 32 bits for narrow integers, one NaN payload for every NaN."""
    if t.is_int:
        low, high = t.range()
        if not low <= value <= high:
            raise ValueError(f"{value} is no {t.name}")
        return (value & 0xFFFFFFFF,) if t.bits <= 32 else (value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF)
    if t.encoding == "bf16":
        return (0x7FC0 if math.isnan(value) else int.from_bytes(struct.pack("<f", value), "little") >> 16,)
    if math.isnan(value):
        bits = _QUIET_NAN[t.bits]
    else:
        bits = int.from_bytes(struct.pack(_FLOAT_CODE[t.bits], value), "little")
    return (bits,) if t.bits <= 32 else (bits & 0xFFFFFFFF, bits >> 32)


def _member_name(struct_id: int, index: int, name: str) -> Inst:
    return inst("OpMemberName", struct_id, index, name)


def _member_offset(struct_id: int, index: int, offset: int) -> Inst:
    return inst("OpMemberDecorate", struct_id, index, "Offset", offset)
