"""The exceptions of runtime.text; callers need TextError only."""

from __future__ import annotations


class TextError(Exception):
    """A tokenizer or chat-template problem in one line: what, why, and the remedy."""


class Unusable(TextError):
    """A template that does not compile, does not end, or takes its process down; other messages would not help."""


def one_line(text: object, limit: int = 400) -> str:
    """The text on a single line, cut to `limit` characters; messages of templates and libraries can hold anything."""
    flat = " ".join(str(text).split())
    flat = "".join(c if c.isprintable() else "?" for c in flat)
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
