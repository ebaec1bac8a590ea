"""Python numbers to the bytes of push constants and specialisation constants."""
from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from runtime.vk.errors import VulkanError

# Type name of the compiler -> struct code. bool is a 32-bit word, as in SPIR-V's interface (VkBool32).
CODES = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f16": "e",
         "f32": "f", "f64": "d", "bool": "I"}


class PushPacker:
    """Packs push-constant members, in their order, into push_bytes bytes at their offsets."""

    def __init__(self, kernel: str, members: Sequence, push_bytes: int):
        self.kernel, self.names, self.push_bytes = kernel, tuple(m.name for m in members), push_bytes
        self._members = tuple(members)
        code, at = "<", 0
        for m in members:
            if m.type not in CODES or struct.calcsize("<" + CODES[m.type]) != m.size or m.offset < at:
                raise VulkanError(f"kernel {kernel}: push member {m.name} of type {m.type}, {m.size} bytes at "
                                  f"{m.offset}, is not supported: use scalars at rising offsets")
            code += f"{m.offset - at}x{CODES[m.type]}"
            at = m.offset + m.size
        if at > push_bytes:
            raise VulkanError(f"kernel {kernel}: push members end at {at}, after push_bytes {push_bytes}")
        # vkCmdPushConstants wants a multiple of four bytes.
        self.packed_bytes = -(-push_bytes // 4) * 4
        self.pack = struct.Struct(code + f"{self.packed_bytes - at}x").pack

    def from_values(self, values: Sequence) -> bytes:
        """Bytes of the values, one per member. Raises VulkanError naming the member that does not fit."""
        try:
            return self.pack(*values)
        except (struct.error, OverflowError) as error:
            self._explain(values, error)

    def from_mapping(self, values: Mapping) -> bytes:
        """Bytes of {member: value}; every member must be given and nothing else."""
        wrong = set(values) ^ set(self.names)
        if wrong:
            raise VulkanError(f"kernel {self.kernel}: push constants {sorted(wrong)} are missing or unknown: it takes "
                              f"[{', '.join(self.names)}]")
        return self.from_values([values[name] for name in self.names])

    def _explain(self, values: Sequence, error: Exception) -> None:
        if len(values) != len(self._members):
            raise VulkanError(f"kernel {self.kernel} takes {len(self._members)} push constants, got {len(values)}")
        for member, value in zip(self._members, values, strict=True):
            try:
                struct.pack("<" + CODES[member.type], value)
            except (struct.error, OverflowError):
                raise VulkanError(f"kernel {self.kernel}: push constant {member.name} cannot take {value!r}: it is "
                                  f"{member.type}") from None
        raise VulkanError(f"kernel {self.kernel}: push constants cannot be packed: {error}")


def pack_constant(kernel: str, name: str, kind: str, value) -> bytes:
    """Bytes of one specialisation constant."""
    if kind not in CODES:
        raise VulkanError(f"kernel {kernel}: specialisation constant {name} has unknown type {kind}")
    if kind == "bool":
        value = int(bool(value))
    try:
        return struct.pack("<" + CODES[kind], value)
    except (struct.error, OverflowError):
        raise VulkanError(f"kernel {kernel}: specialisation constant {name} cannot take {value!r}: it is "
                          f"{kind}") from None
