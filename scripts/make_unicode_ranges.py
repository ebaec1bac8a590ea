#!/usr/bin/env python3
"""Write runtime/text/unicode_ranges.py from the Unicode Character Database of this interpreter, which must be
version 15.1 (Python 3.13).

usage: python3.13 scripts/make_unicode_ranges.py
"""

from __future__ import annotations

import sys
import textwrap
import unicodedata
from pathlib import Path

VERSION = "15.1.0"
TARGET = Path(__file__).resolve().parent.parent / "runtime" / "text" / "unicode_ranges.py"
HEAD = '''"""Unicode {version} general categories L, N and M as code point ranges.

Written by scripts/make_unicode_ranges.py; do not edit. The pre-token patterns need the categories of one fixed Unicode
version, the one of llama.cpp's tables: the classes of the regex engine in `tokenizers` and of Python's own unicodedata
move with their releases. Each table is pairs in base 36: code points skipped, then code points taken.
"""

from __future__ import annotations

UNICODE_VERSION = "{version}"
'''
TAIL = '''

def ranges(table: str) -> list[tuple[int, int]]:
    """The (first, last) code points of a table's ranges, ascending."""
    out, at = [], 0
    numbers = iter([int(word, 36) for word in table.split()])
    for skip, take in zip(numbers, numbers):
        at += skip + take
        out.append((at - take, at - 1))
    return out
'''


def base36(n: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    out = digits[n % 36]
    while n := n // 36:
        out = digits[n % 36] + out
    return out


def table(major: str) -> str:
    """The ranges of one major category, as pairs of skip and take in base 36."""
    words, edge, inside = [], 0, False
    for point in range(0x110001):
        member = point < 0x110000 and unicodedata.category(chr(point))[0] == major
        if member != inside:
            words.append(base36(point - edge))
            edge, inside = point, member
    return " ".join(words)


def main() -> int:
    if unicodedata.unidata_version != VERSION:
        print(
            f"this Python has Unicode {unicodedata.unidata_version}, not {VERSION}: run it with Python 3.13",
            file=sys.stderr,
        )
        return 1
    text = HEAD.format(version=VERSION)
    for name, major in (("LETTER", "L"), ("NUMBER", "N"), ("MARK", "M")):
        lines = textwrap.wrap(table(major), 112)
        text += f"\n{name} = (\n" + "".join(f'    "{line} "\n' for line in lines) + ")\n"
    TARGET.write_text(text + TAIL)
    print(f"wrote {TARGET}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
