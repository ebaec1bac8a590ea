"""Tables of the GGUF container (ggml docs/gguf.md): value types, tensor types, limits.

Tensor type ids and block sizes come from PyPI `gguf`; its size of Q8_1 counts two f32 scales where the block has
two f16 ones, and version 0.19 does not know Q2_0 (ggml.h).
"""

from __future__ import annotations

from dataclasses import dataclass

from gguf import GGML_QUANT_SIZES

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_LENGTH = 1 << 30  # elements of an array
MAX_TEXT = 1 << 26  # bytes of a string that stands alone (a whole tokenizer.json takes 11 MiB)
MIN_MAX_TEXT = 1 << 16  # such a string may also take no more than an eighth of the file, or this where that is less
MAX_ENTRIES = 1 << 16  # of metadata; Python needs some 250 bytes for one
MAX_TENSORS = 1 << 17
MAX_NAME = 63  # bytes of a tensor's name
MAX_DIMS = 4
MAX_COUNT = (1 << 63) - 1  # of elements of a tensor
MIN_KV_BYTES = 8 + 1 + 4 + 1  # key length, one character, type, one byte of value
MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8


@dataclass(frozen=True)
class ValueType:
    """One scalar type of the metadata: its name here, its struct code, its bytes."""

    name: str
    code: str
    size: int


STRING, ARRAY, BOOL, U32 = 8, 9, 7, 4
SCALARS = {
    0: ValueType("u8", "B", 1),
    1: ValueType("i8", "b", 1),
    2: ValueType("u16", "H", 2),
    3: ValueType("i16", "h", 2),
    4: ValueType("u32", "I", 4),
    5: ValueType("i32", "i", 4),
    6: ValueType("f32", "f", 4),
    7: ValueType("bool", "B", 1),
    10: ValueType("u64", "Q", 8),
    11: ValueType("i64", "q", 8),
    12: ValueType("f64", "d", 8),
}
TYPE_NAMES = {id_: t.name for id_, t in SCALARS.items()} | {STRING: "string", ARRAY: "array"}
INTEGERS = frozenset(("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"))
FLOATS = frozenset(("f32", "f64"))
# What a caller may ask for by Python class.
CLASSES = {
    int: INTEGERS,
    float: FLOATS,
    bool: frozenset(("bool",)),
    str: frozenset(("string",)),
    list: frozenset(("array",)),
}


@dataclass(frozen=True)
class TensorType:
    """One type of tensor data: its id in files, ggml's name, elements and bytes of one block."""

    id: int
    name: str
    elements: int
    size: int


TYPES: dict[int, TensorType] = {int(t): TensorType(int(t), t.name, *sizes) for t, sizes in GGML_QUANT_SIZES.items()}
TYPES |= {t.id: t for t in (TensorType(9, "Q8_1", 32, 36), TensorType(42, "Q2_0", 64, 18))}
TYPES_BY_NAME = {t.name: t for t in TYPES.values()}
