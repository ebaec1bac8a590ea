"""The one exception of this package, and how a text that came out of a file is shown in it."""

from __future__ import annotations

CONVERT = "convert the model again"
DAMAGED = "the file is damaged or cut short: download or convert it again"


class GGUFError(Exception):
    """A file is not usable. One line: file, field, reason, remedy."""

    def __init__(self, path, field: str, reason: str, remedy: str):
        line = f"{path}: {field}: {reason}; {remedy}"
        super().__init__(line if line.isprintable() else line.encode("unicode_escape").decode())
        self.path, self.field, self.reason, self.remedy = str(path), field, reason, remedy


def shown(text: str | bytes, limit: int = 80) -> str:
    """A printable one-line form of text from a file, shortened."""
    cut = text if len(text) <= limit else text[:limit]
    return repr(cut) + ("..." if len(text) > limit else "")
