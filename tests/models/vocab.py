"""Small byte-level BPE vocabularies for generated GGUF files, as llama.cpp's "gpt2" tokenizer model reads them.

Token types (tokenizer.ggml.token_type): 1 normal, 3 control, 4 user defined, 5 unused.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5

# In the byte alphabet "\u0120" is a space, "\u010a" a newline, "\u00f0\u0141" the bytes F0 9F: a piece of a character.
MERGES = (
    *("t h", "th e", "i n", "in g", "e r", "a n", "an d", "o u", "r e", "l l", "h e", "he ll", "hell o"),
    *("\u0120 t", "\u0120 the", "\u0120 a", "\u0120 and", "\u0120 \u0120", "\u010a \u010a"),
    *("\u00f0 \u0141", "\u00c3 \u00a9"),
)
SPECIALS = (
    ("<|endoftext|>", CONTROL),
    ("<|im_start|>", CONTROL),
    ("<|im_end|>", CONTROL),
    ("<|fim_prefix|>", CONTROL),
    ("<|fim_suffix|>", CONTROL),
    ("<|fim_middle|>", CONTROL),
    ("<think>", USER_DEFINED),
    ("</think>", USER_DEFINED),
    ("<tool_call>", USER_DEFINED),
    ("</tool_call>", USER_DEFINED),
)
CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)


@dataclass(frozen=True)
class Vocabulary:
    """tokens[i] in the byte alphabet, token_types[i], merges "left right", and the ids of the specials by text."""

    tokens: list[str]
    token_types: list[int]
    merges: list[str]
    special: dict[str, int]


@functools.cache
def byte_alphabet() -> tuple[str, ...]:
    """GPT-2's stand-in for every byte: printable Latin-1 stands for itself, the rest counts up from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = iter(range(0x100, 0x200))
    return tuple(chr(b) if b in printable else chr(next(rest)) for b in range(256))


def _assemble(merges: list[str], size: int) -> Vocabulary:
    tokens = list(byte_alphabet()) + [m.replace(" ", "") for m in merges]
    types = [NORMAL] * len(tokens)
    special = {text: len(tokens) + i for i, (text, _) in enumerate(SPECIALS)}
    tokens += [text for text, _ in SPECIALS]
    types += [kind for _, kind in SPECIALS]
    if size < len(tokens):
        raise ValueError(f"vocab {size}: this vocabulary needs {len(tokens)}")
    padding = size - len(tokens)
    return Vocabulary(tokens + [f"[PAD{i}]" for i in range(padding)], types + [UNUSED] * padding, merges, special)


def byte_vocabulary(size: int) -> Vocabulary:
    """256 bytes, a few merges, the Qwen specials, then unused padding up to `size`; ValueError below 287."""
    return _assemble(list(MERGES), size)


def large_vocabulary(size: int) -> Vocabulary:
    """Every pair of bytes, then triples, by merges: for load-time tests at a real size (151,936 is Qwen's)."""
    alphabet, wanted = byte_alphabet(), size - 256 - len(SPECIALS) - 100
    merges = [f"{a} {b}" for a in alphabet for b in alphabet][:wanted]
    merges += [f"{a}{b} {c}" for a in alphabet for b in alphabet for c in "abc"][: max(0, wanted - len(merges))]
    return _assemble(merges, size)
