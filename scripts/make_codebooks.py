#!/usr/bin/env python3
"""Write kernels/formats/codebooks.py from the tables of PyPI gguf.

usage: python scripts/make_codebooks.py
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import numpy as np
from gguf import quants

TARGET = Path(__file__).resolve().parent.parent / "kernels" / "formats" / "codebooks.py"
TABLES = {"IQ2_XXS": 2, "IQ2_XS": 2, "IQ2_S": 2, "IQ3_XXS": 4, "IQ3_S": 4, "IQ1": 2}  # bits of a code
HEAD = '''"""The codebooks of ggml's IQ1, IQ2 and IQ3 formats: which groups of weights a number in the file stands for.

Written by scripts/make_codebooks.py from the tables of PyPI gguf 0.19 (MIT), which are ggml's; do not edit. A word is one entry:
the codes of its weights, the first in the lowest bits. Eight codes of two bits (IQ1, IQ2) or four of four bits (IQ3) fill 16
bits, an eighth to a quarter of the bytes that ggml's own tables hold, so that a whole codebook is a few lines of a cache. The
formats say what value a code has.
"""

from __future__ import annotations
'''
TAIL = '''

def words(table: str) -> tuple[int, ...]:
    """The entries of a table as 16-bit numbers."""
    return tuple(int(table[i : i + 4], 16) for i in range(0, len(table), 4))
'''


def table(name: str, bits: int) -> str:
    """Hexadecimal, four digits an entry."""
    cls = getattr(quants, "IQ1_S" if name == "IQ1" else name)
    cls.init_grid()
    grid = cls.grid.reshape(cls.grid_shape)
    codes = np.searchsorted(np.array(cls.grid_map, np.float32), grid)
    assert np.array_equal(np.array(cls.grid_map, np.float32)[codes], grid)
    entries = (codes << (bits * np.arange(grid.shape[1]))).sum(1)
    return "".join(f"{e:04x}" for e in entries)


def main() -> int:
    """Write the module."""
    out = HEAD
    for name, bits in TABLES.items():
        out += f"\n{name} = (\n" + "".join(f'    "{line}"\n' for line in textwrap.wrap(table(name, bits), 112)) + ")\n"
    TARGET.write_text(out + TAIL, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
