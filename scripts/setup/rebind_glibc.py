#!/usr/bin/env python3
"""Let a shared object that was linked against a newer glibc load on this machine's older one.

usage: rebind_glibc.py IN.so OUT.so [GLIBC_VERSION]

Code compiled with glibc >= 2.38 headers imports `__isoc23_strtol` and its like (version GLIBC_2.38) where it used to
import `strtol` (GLIBC_2.2.5). The two differ in one thing: the newer accept a 0b prefix. Each such import is bound to
its plain name here, and the version record that demands the newer glibc is rewritten to GLIBC_2.2.5. Any other import
of a glibc newer than GLIBC_VERSION (default: the running one) is refused by name, since nothing could stand in for it.

Only 64-bit little-endian x86 ELF. Layouts: System V ABI gABI chapter 4 (Elf64_Ehdr, Elf64_Shdr, Elf64_Sym) and the
LSB's symbol versioning (Elf64_Verneed, Elf64_Vernaux).
"""

from __future__ import annotations

import os
import struct
import sys
from typing import NamedTuple

SHT_DYNSYM, SHT_GNU_VERNEED, SHT_GNU_VERSYM = 11, 0x6FFFFFFE, 0x6FFFFFFF
EM_X86_64 = 62
BASE_VERSION = "GLIBC_2.2.5"  # the first x86-64 glibc: every plain name has it
REPLACED_PREFIX = "__isoc23_"
SYMBOL_BYTES = 24


class RebindError(Exception):
    """Why the file cannot be rebound, in one line."""


class Section(NamedTuple):
    """Elf64_Shdr."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_bytes: int


class Need(NamedTuple):
    """One Elf64_Vernaux: a version that a library must offer."""

    position: int  # of the record in the file
    index: int  # what .gnu.version holds for symbols of this version
    version: str
    name_offset: int  # of the version's name in the string table


class Elf:
    """The dynamic symbols and version needs of one shared object, patched in place in `data`."""

    def __init__(self, data: bytearray):
        if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 0x12)[0] != EM_X86_64:
            raise RebindError("not a 64-bit little-endian x86 ELF file")
        self.data = data
        (table,) = struct.unpack_from("<Q", data, 0x28)
        entry_bytes, count = struct.unpack_from("<HH", data, 0x3A)
        starts = range(table, table + count * entry_bytes, entry_bytes)
        self.sections = [Section(*struct.unpack_from("<IIQQQQIIQQ", data, start)) for start in starts]
        self.strings = self.sections[self.section(SHT_DYNSYM).link]

    def section(self, kind: int) -> Section:
        for section in self.sections:
            if section.type == kind:
                return section
        raise RebindError(f"has no section of type {kind:#x}: not a shared object with versioned symbols")

    def string(self, offset: int) -> str:
        start = self.strings.offset + offset
        return self.data[start : self.data.index(0, start)].decode()

    def needs(self) -> list[Need]:
        """Every version that any library must offer."""
        section, found = self.section(SHT_GNU_VERNEED), []
        position = section.offset
        for _ in range(section.info):
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, position)
            aux = position + first
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from("<IHHII", self.data, aux)
                found.append(Need(aux, index, self.string(name), name))
                aux += step
            position += following
        return found

    def rebind(self, limit: tuple[int, ...]) -> list[str]:
        """Bind what is newer than glibc `limit` to plain names; the names rebound, in symbol order."""
        needs = self.needs()
        newer = {need.index: need for need in needs if glibc_version(need.version) > limit}
        if not newer:
            return []
        base = next((need for need in needs if need.version == BASE_VERSION), None)
        if base is None:
            raise RebindError(f"imports nothing of {BASE_VERSION}: its version records cannot be rewritten")
        symbols, versions, done = self.section(SHT_DYNSYM), self.section(SHT_GNU_VERSYM), []
        for i in range(symbols.size // SYMBOL_BYTES):
            (index,) = struct.unpack_from("<H", self.data, versions.offset + 2 * i)
            need = newer.get(index & 0x7FFF)
            if need is None:
                continue
            position = symbols.offset + SYMBOL_BYTES * i
            (name_offset,) = struct.unpack_from("<I", self.data, position)
            name = self.string(name_offset)
            if not name.startswith(REPLACED_PREFIX):
                raise RebindError(f"imports {name}@{need.version}, which glibc {dotted(limit)} does not have")
            struct.pack_into("<I", self.data, position, name_offset + len(REPLACED_PREFIX))  # the string's tail
            done.append(name)
        for need in newer.values():
            struct.pack_into("<I", self.data, need.position, elf_hash(BASE_VERSION))
            struct.pack_into("<I", self.data, need.position + 8, base.name_offset)
        return done


def glibc_version(name: str) -> tuple[int, ...]:
    """(2, 38) of "GLIBC_2.38"; () of a version that is no glibc number, which is never newer than anything."""
    prefix, _, number = name.partition("_")
    parts = number.split(".")
    return tuple(map(int, parts)) if prefix == "GLIBC" and all(part.isdigit() for part in parts) else ()


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def elf_hash(name: str) -> int:
    """The System V ABI's symbol hash, which version records carry."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3):
        print("usage: rebind_glibc.py IN.so OUT.so [GLIBC_VERSION]", file=sys.stderr)
        return 2
    source, target = arguments[:2]
    version = arguments[2] if len(arguments) == 3 else os.confstr("CS_GNU_LIBC_VERSION").split()[-1]
    try:
        with open(source, "rb") as file:
            data = bytearray(file.read())
        names = Elf(data).rebind(tuple(map(int, version.split("."))))
        with open(target, "wb") as file:
            file.write(data)
    except (RebindError, OSError, ValueError, struct.error, IndexError) as error:
        print(f"rebind_glibc.py: {source}: {error}", file=sys.stderr)
        return 1
    print("rebound:", ", ".join(names) or "nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
