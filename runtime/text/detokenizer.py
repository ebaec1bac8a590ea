"""Ids to text one at a time, whole characters only."""

from __future__ import annotations

import codecs


class Detokenizer:
    """Turns a stream of ids into text. The texts of all pushes and the flush, joined, equal `Tokenizer.decode` of
    all the ids.

    special: control tokens render too.
    """

    def __init__(self, tokenizer, special: bool = False):
        self._token_bytes, self._special = tokenizer.token_bytes, special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The characters this id completes, maybe none. Bytes that cannot become a character are U+FFFD. Raises
        TextError for a bad id.
        """
        return self._decoder.decode(self._token_bytes(token, self._special))

    def flush(self) -> str:
        """The end: U+FFFD if half a character was left, else nothing. The detokenizer is fresh afterwards."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
