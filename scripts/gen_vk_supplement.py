"""Generate runtime/vk/_supplement.py from Khronos' vk.xml.

The PyPI `vulkan` package (headers 1.3.275) lacks everything newer: Vulkan 1.4, NV_cooperative_matrix2, bfloat16 and
so on, and some of its constants are missing or wrong. This script writes one Python module with
  * an out-of-line cffi definition (ABI mode, no compiler) of the structs and commands in STRUCTS and COMMANDS;
  * every constant `K.VK_*` and every structure type that the sources of runtime/vk name, read from vk.xml;
  * the names of the VkResult values, for error messages.

Usage (only a developer runs it, needs cffi and pycparser):
    python scripts/gen_vk_supplement.py --xml vk.xml
where vk.xml comes from the PyPI package vulkan-object (vulkan_object/vk.xml) or Debian's libvulkan-dev
(/usr/share/vulkan/registry/vk.xml).
"""
from __future__ import annotations

import argparse
import re
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "runtime" / "vk"
OUTPUT = SOURCES / "_supplement.py"

STRUCTS = (
    "VkPhysicalDeviceVulkan14Features",
    "VkPhysicalDeviceCooperativeMatrix2FeaturesNV",
    "VkPhysicalDeviceCooperativeMatrix2PropertiesNV",
    "VkCooperativeMatrixFlexibleDimensionsPropertiesNV",
    "VkPhysicalDeviceShaderBfloat16FeaturesKHR",
    "VkPhysicalDeviceShaderFloat8FeaturesEXT",
    "VkPhysicalDeviceShaderReplicatedCompositesFeaturesEXT",
    "VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR",
    "VkPhysicalDeviceShaderUntypedPointersFeaturesKHR",
)
COMMANDS = ("vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",)


def is_vulkan(element: ET.Element) -> bool:
    """vk.xml also describes Vulkan SC; an element without `api` belongs to both."""
    return "vulkan" in (element.get("api") or "vulkan").split(",")


class Registry:
    """The parts of vk.xml that we read: constants, types, commands."""

    def __init__(self, xml: Path):
        self.root = ET.parse(xml).getroot()
        self.types = {self._type_name(t): t for t in self.root.findall("types/type") if is_vulkan(t)}
        self.commands = {c.findtext("proto/name"): c for c in self.root.findall("commands/command")
                         if is_vulkan(c) and c.find("proto") is not None}
        self.constants: dict[str, int | float | str] = {}
        self.results: dict[int, str] = {}
        self._read_constants()

    @staticmethod
    def _type_name(element: ET.Element) -> str:
        return element.get("name") or element.findtext("name") or element.findtext("proto/name") or ""

    def header_version(self) -> str:
        text = "".join(self.types["VK_HEADER_VERSION"].itertext())
        return "1.4." + re.search(r"VK_HEADER_VERSION\s+(\d+)", text)[1]

    def _read_constants(self) -> None:
        aliases: dict[str, str] = {}
        for enums in self.root.findall("enums"):
            for e in enums.findall("enum"):
                self._read_enum(e, None, enums.get("name"), aliases)
        for block in self.root.findall("feature") + self.root.findall("extensions/extension"):
            for require in block.findall("require"):
                for e in require.findall("enum"):
                    self._read_enum(e, block.get("number"), e.get("extends"), aliases)
        for name, target in aliases.items():
            for _ in range(8):
                target = aliases.get(target, target)
            if target in self.constants:
                self.constants.setdefault(name, self.constants[target])

    def _read_enum(self, e: ET.Element, number: str | None, group: str | None, aliases: dict[str, str]) -> None:
        name = e.get("name")
        if not is_vulkan(e) or name in self.constants:
            return
        if e.get("alias"):
            aliases[name] = e.get("alias")
            return
        value = self._value(e, number)
        if value is None:
            return
        self.constants[name] = value
        if group == "VkResult" and isinstance(value, int) and "MAX_ENUM" not in name:
            self.results.setdefault(value, name)

    @staticmethod
    def _value(e: ET.Element, number: str | None) -> int | float | str | None:
        if e.get("bitpos"):
            return 1 << int(e.get("bitpos"))
        if e.get("offset") is not None:
            # Vulkan spec, "Assigning enumeration tokens": base 1e9, 1000 per extension.
            value = 1_000_000_000 + (int(e.get("extnumber") or number) - 1) * 1000 + int(e.get("offset"))
            return -value if e.get("dir") == "-" else value
        text = e.get("value")
        if text is None:
            return None
        if text.startswith('"'):
            return text.strip('"')
        text = text.strip("()")
        inverted = re.fullmatch(r"~(\d+)(U?L*)", text)
        if inverted:
            return 2 ** (64 if "LL" in inverted[2] else 32) - 1 - int(inverted[1])
        if re.fullmatch(r"[-\d.]+[fF]", text):
            return float(text[:-1])
        return int(text.rstrip("UL"), 0)

    def structure_types(self) -> dict[str, int]:
        found = {}
        for name, t in self.types.items():
            member = t.find("member[@values]") if t.get("category") == "struct" else None
            if member is not None and member.get("values") in self.constants:
                found[name] = self.constants[member.get("values")]
        return found


class Definitions:
    """C declarations of chosen structs and commands, dependencies first."""

    def __init__(self, registry: Registry):
        self.registry = registry
        self.lines: list[str] = []
        self.done = {"void", "char", "float", "double", "int32_t", "uint32_t", "uint64_t", "int64_t", "uint8_t",
                     "size_t"}

    def declaration(self, element: ET.Element) -> str:
        parts = [element.text or ""]
        for child in element:
            if child.tag != "comment":
                parts.append(child.text or "")
            parts.append(child.tail or "")
        text = re.sub(r"\s+", " ", "".join(parts)).strip()
        return re.sub(r"\[(VK_\w+)\]", lambda m: f"[{self.registry.constants[m[1]]}]", text)

    def add_type(self, name: str) -> None:
        if name in self.done:
            return
        self.done.add(name)
        t = self.registry.types[name]
        category = t.get("category")
        if t.get("alias"):
            self.add_type(t.get("alias"))
            self.lines.append(f"typedef {t.get('alias')} {name};")
        elif category == "basetype":
            self.lines.append(f"typedef {t.findtext('type')} {name};")
        elif category == "bitmask":
            wide = t.findtext("type") == "VkFlags64"
            self.lines.append(f"typedef {'uint64_t' if wide else 'uint32_t'} {name};")
        elif category == "enum":
            self.lines.append(f"typedef int32_t {name};")
        elif category == "handle":
            self.lines.append(f"typedef struct {name}_T *{name};")
        elif category in ("struct", "union"):
            members = [m for m in t.findall("member") if is_vulkan(m)]
            for m in members:
                self.add_type(m.findtext("type"))
            body = " ".join(self.declaration(m) + ";" for m in members)
            self.lines.append(f"typedef {category} {name} {{ {body} }} {name};")
        else:
            raise SystemExit(f"gen_vk_supplement: type {name} of category {category} is not handled")

    def add_command(self, name: str) -> None:
        command = self.registry.commands[name]
        params = [p for p in command.findall("param") if is_vulkan(p)]
        result = command.find("proto").findtext("type")
        for type_name in [result] + [p.findtext("type") for p in params]:
            self.add_type(type_name)
        self.lines.append(f"typedef {result} (*PFN_{name})({', '.join(self.declaration(p) for p in params)});")


def names_in_sources(pattern: str) -> set[str]:
    found: set[str] = set()
    for path in sorted(SOURCES.glob("*.py")):
        if path != OUTPUT:
            found.update(re.findall(pattern, path.read_text(encoding="utf-8")))
    return found


def cffi_module(cdef: str) -> str:
    from cffi import FFI
    ffi = FFI()
    ffi.cdef(cdef)
    ffi.set_source("_supplement", None)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "_supplement.py"
        ffi.emit_python_code(str(target))
        return "\n".join(line for line in target.read_text().splitlines() if not line.startswith("#"))


def generate(xml: Path) -> str:
    registry = Registry(xml)
    definitions = Definitions(registry)
    for name in STRUCTS:
        definitions.add_type(name)
    for name in COMMANDS:
        definitions.add_command(name)
    cdef = "\n".join(definitions.lines)
    wanted = sorted(names_in_sources(r"\bK\.(VK_\w+)"))
    missing = [n for n in wanted if n not in registry.constants]
    if missing:
        raise SystemExit(f"gen_vk_supplement: not in {xml}: {', '.join(missing)}")
    structure_types = registry.structure_types()
    used = sorted(n for n in names_in_sources(r"\bVk[A-Z]\w+\b") | set(STRUCTS) if n in structure_types)
    lines = [
        "# ruff: noqa",
        f'"""Generated by scripts/gen_vk_supplement.py from vk.xml {registry.header_version()}; do not edit.',
        "",
        "`ffi` defines what the PyPI `vulkan` package lacks:",
        *(f"    {n}" for n in STRUCTS + COMMANDS),
        '"""',
        cffi_module(cdef).strip(),
        "",
        f"STRUCTS = frozenset({sorted(STRUCTS)!r})",
        "",
        "STRUCTURE_TYPES = {",
        *(f"    {n!r}: {structure_types[n]}," for n in used),
        "}",
        "",
        "RESULT_NAMES = {",
        *(f"    {v}: {n!r}," for v, n in sorted(registry.results.items())),
        "}",
        "",
        *(f"{n} = {registry.constants[n]!r}" for n in wanted),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xml", type=Path, required=True, help="vk.xml of Vulkan 1.4.300 or later")
    parser.add_argument("--check", action="store_true", help="compare with the committed file, write nothing")
    args = parser.parse_args()
    text = generate(args.xml)
    if args.check:
        if OUTPUT.read_text(encoding="utf-8") != text:
            raise SystemExit(f"gen_vk_supplement: {OUTPUT} is stale: run without --check")
        return
    OUTPUT.write_text(text, encoding="utf-8")
    print(f"wrote {OUTPUT} ({len(text)} bytes)")


if __name__ == "__main__":
    main()
