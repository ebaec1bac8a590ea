"""Pre-tokenisation: how a text is cut into words before BPE, per `tokenizer.ggml.pre`.

Both patterns of the Qwen line, cut leftmost and greedy:
  qwen2   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+
  qwen35  the same with combining marks joining the letters: [\\p{L}\\p{M}]+ and [^\\s\\p{L}\\p{M}\\p{N}]+
They are written out here over explicit code points. A class such as \\p{L} means another set in every release of a
regex engine, and (?i:'s) also takes U+017F; the ids must not move with either. The sets are Unicode 15.1's, which
llama.cpp uses.
"""

from __future__ import annotations

import functools

from runtime.text.errors import TextError
from runtime.text.unicode_ranges import LETTER, MARK, NUMBER, ranges

# Names of `tokenizer.ggml.pre` that cut like qwen2.
PATTERN_OF = {
    "qwen2": "qwen2",
    "deepseek-r1-qwen": "qwen2",
    "kormo": "qwen2",
    "f2llmv2": "qwen2",
    "megrez": "qwen2",
    "qwen35": "qwen35",
}

# White_Space of the Unicode property list; unchanged since Unicode 6.3.
WHITE_SPACE = (
    (0x9, 0xD),
    (0x20, 0x20),
    (0x85, 0x85),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
)


def _members(spans) -> str:
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in spans)


@functools.cache
def pattern(pre: str) -> str:
    """The pattern of a `tokenizer.ggml.pre`, for an engine that knows \\x{H}. TextError for a name not served."""
    if pre not in PATTERN_OF:
        known = ", ".join(sorted(PATTERN_OF))
        raise TextError(
            f"tokenizer.ggml.pre is {pre[:80]!r}: this pre-tokenizer is not served; convert a model of one of: {known}"
        )
    letter, number, space = _members(ranges(LETTER)), _members(ranges(NUMBER)), _members(WHITE_SPACE)
    word = letter + _members(ranges(MARK)) if PATTERN_OF[pre] == "qwen35" else letter
    return "|".join(
        (
            "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])",
            f"[^\\r\\n{letter}{number}]?[{word}]+",
            f"[{number}]",
            f" ?[^{space}{word}{number}]+[\\r\\n]*",
            f"[{space}]*[\\r\\n]+",
            f"[{space}]+(?![^{space}])",
            f"[{space}]+",
        )
    )
