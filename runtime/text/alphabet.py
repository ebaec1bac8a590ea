"""The printable alphabet in which byte-level BPE vocabularies are written (GPT-2's bytes_to_unicode;
tokenizer.ggml.model "gpt2").

Printable ASCII and Latin-1 bytes stand for themselves; the other 68 bytes are U+0100, U+0101, ... in byte order.
"""

from __future__ import annotations

_PRINTABLE = frozenset([*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)])


def _byte_characters() -> tuple[str, ...]:
    spare = iter(range(0x100, 0x200))
    return tuple(chr(b if b in _PRINTABLE else next(spare)) for b in range(256))


BYTE_CHARACTERS: tuple[str, ...] = _byte_characters()
"""BYTE_CHARACTERS[b] is the character that stands for byte b."""

_BYTE_OF = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


def to_bytes(text: str) -> bytes:
    """The bytes a token's text stands for. A character outside the alphabet stands for its own UTF-8 bytes."""
    try:
        return bytes(map(_BYTE_OF.__getitem__, text))
    except KeyError:
        parts = (bytes([_BYTE_OF[c]]) if c in _BYTE_OF else c.encode("utf-8", "surrogateescape") for c in text)
        return b"".join(parts)


def from_bytes(raw: bytes) -> str:
    """The alphabet's spelling of some bytes."""
    return "".join(map(BYTE_CHARACTERS.__getitem__, raw))
