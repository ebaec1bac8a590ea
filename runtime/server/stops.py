"""Stop strings in streamed text: the match is removed, and text that may still become one is held back."""

from __future__ import annotations

from collections.abc import Sequence


def partial_at_end(text: str, words: Sequence[str]) -> int:
    """Length of the longest tail of `text` that is a proper beginning of one of `words`; 0 when there is none."""
    longest = 0
    for word in words:
        at = text.find(word[0], max(0, len(text) - len(word) + 1))
        while at != -1 and len(text) - at > longest:
            if word.startswith(text[at:]):
                longest = len(text) - at
                break
            at = text.find(word[0], at + 1)
    return longest


class StopMatcher:
    """Feed text as it comes; what is returned can be shown. The word that is complete first wins, then the longest,
    so the result does not depend on where the pieces are cut. `word` is the one that matched, None until then."""

    def __init__(self, words: Sequence[str]):
        self.words = tuple(word for word in words if word)
        self.word: str | None = None
        self._held = ""

    def push(self, text: str) -> str:
        """The text that is free to go. Once `word` is set, whatever follows is dropped."""
        if self.word is not None:
            return ""
        if not self.words:
            return text
        text = self._held + text
        found = [(at + len(word), at, word) for word in self.words if (at := text.find(word)) != -1]
        if found:
            _, at, self.word = min(found)
            self._held = ""
            return text[:at]
        free = len(text) - partial_at_end(text, self.words)
        self._held = text[free:]
        return text[:free]

    def flush(self) -> str:
        """What was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held
