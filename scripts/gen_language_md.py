"""Writes the tables of docs/language.md (builtins, diagnostics) from the tables of the compiler; the text around them is kept.

    python scripts/gen_language_md.py            # write
    python scripts/gen_language_md.py --check    # exit 1 when the file is not up to date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from spirvdsl.diagnostics import TABLE
from spirvdsl.lang.builtins import BUILTINS, BuiltinValue
from spirvdsl.lang.types import SCALARS

PATH = Path(__file__).resolve().parent.parent / "docs/language.md"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(tuple(map(_cell, r)) for r in rows)]
    return "".join(f"| {' | '.join(r)} |\n" for r in lines)


def tables() -> dict[str, str]:
    """Generated parts by name."""
    values = [(f"`{n}`", b.__doc__ or "") for n, b in BUILTINS.items() if isinstance(b, BuiltinValue)]
    functions = [(f"`{n}`", b.__doc__ or "") for n, b in BUILTINS.items() if not isinstance(b, BuiltinValue)]
    return {
        "types": ", ".join(f"`{'bool_' if n == 'bool' else n}`" for n in SCALARS) + "\n",
        "values": _table(("Name", "Meaning"), values),
        "functions": _table(("Name", "Meaning"), functions),
        "diagnostics": _table(("Code", "Rule", "Help"), [(code, *text) for code, text in TABLE.items()]),
    }


def render(text: str) -> str:
    """The document with every generated part made anew. KeyError for a part that there is none of."""
    made = tables()
    return re.sub(r"(<!-- (\w+): generated -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{made[m[2]]}{m[3]}", text, flags=re.S)


def main(argv: list[str]) -> int:
    old = PATH.read_text(encoding="utf-8")
    new = render(old)
    if "--check" in argv:
        if old != new:
            print("error: docs/language.md is not up to date: run python scripts/gen_language_md.py", file=sys.stderr)
        return int(old != new)
    PATH.write_text(new, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
