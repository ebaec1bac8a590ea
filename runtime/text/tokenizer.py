"""Byte-level BPE over the vocabulary and merges of a GGUF file, through PyPI `tokenizers`.

The ids equal llama.cpp's: special tokens are cut out of the raw text first, longest first, then each remaining
fragment is split into words (runtime.text.pretokens) and merged. No Unicode normalisation is applied.
"""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers
from tokenizers import models, pre_tokenizers

from runtime.text.alphabet import BYTE_CHARACTERS, from_bytes, to_bytes
from runtime.text.errors import TextError, one_line
from runtime.text.pretokens import pattern
from runtime.text.vocabulary import BYTE, NORMAL, USER_DEFINED, Vocabulary, read_vocabulary


class Tokenizer:
    """Text to ids and back. Made by `from_gguf`; immutable, safe to share between threads.

    vocab_size: tokens in the file. bos, eos: ids or None. add_bos, add_eos: whether `encode` adds them. eog: ids
    that end a generation. special_ids: ids that are matched in raw text (control, unknown and user-defined tokens).
    """

    def __init__(self, vocabulary: Vocabulary):
        self._v = vocabulary
        self.vocab_size = len(vocabulary.tokens)
        self.bos, self.eos = vocabulary.bos, vocabulary.eos
        self.add_bos, self.add_eos = vocabulary.add_bos, vocabulary.add_eos
        self.eog = vocabulary.eog
        self.special_ids = frozenset(vocabulary.matched)
        self._every = [(vocabulary.tokens[i], i) for i in vocabulary.matched]
        self._user = [(text, i) for text, i in self._every if i not in vocabulary.controls]
        splits = pre_tokenizers.Split(tokenizers.Regex(pattern(vocabulary.pre)), "isolated")
        model, self._expand = _bpe(vocabulary)
        self._bpe = tokenizers.Tokenizer(model)
        self._bpe.pre_tokenizer = pre_tokenizers.Sequence(
            [splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )

    @classmethod
    def from_gguf(cls, gguf) -> Tokenizer:
        """The tokenizer of an open GGUF file. Raises TextError when it has none, or one that is not served."""
        return cls(read_vocabulary(gguf))

    def encode(self, text: str, parse_special: bool = True, add_special: bool = True) -> list[int]:
        """Ids of a text.

        parse_special: control tokens written in the text become their ids (user-defined ones always do). add_special: put the bos and eos ids around it where the file asks for that. Raises TextError for a lone
        surrogate in the text.
        """
        fragments = self._fragments(text, self._every if parse_special else self._user)
        words = [part for part in fragments if isinstance(part, str)]
        try:
            coded = iter(self._bpe.encode_batch_fast(words, add_special_tokens=False) if words else ())
        except TypeError:
            _refuse_surrogates(text)
            raise
        out = [self.bos] if add_special and self.add_bos else []
        for part in fragments:
            if isinstance(part, int):
                out.append(part)
            else:
                out += next(coded).ids
        if self._expand:
            out = [i for token in out for i in self._expand.get(token, (token,))]
        if add_special and self.add_eos:
            out.append(self.eos)
        return out

    @staticmethod
    def _fragments(text: str, specials: list[tuple[str, int]]) -> list[str | int]:
        """The text cut at special tokens, each looked for in what the longer ones left: strings and ids in order."""
        parts: list[str | int] = [text] if text else []
        for special, token in specials:
            if special not in text:
                continue
            cut: list[str | int] = []
            for part in parts:
                if isinstance(part, int) or special not in part:
                    cut.append(part)
                    continue
                for n, piece in enumerate(part.split(special)):
                    if n:
                        cut.append(token)
                    if piece:
                        cut.append(piece)
            parts = cut
        return parts

    def token_text(self, token: int) -> str:
        """The token's text as the file spells it (byte alphabet for normal tokens). Raises TextError for an id
        outside the vocabulary.
        """
        return self._v.tokens[self._checked(token)]

    def token_bytes(self, token: int, special: bool = False) -> bytes:
        """The bytes a token renders as, maybe part of a character. Control and unknown tokens are empty unless
        special; unused ones always.
        """
        kind = self._v.kinds[self._checked(token)]
        text = self._v.tokens[token]
        if token in self._v.controls:
            return text.encode("utf-8", "surrogateescape") if special else b""
        if kind == NORMAL:
            return to_bytes(text)
        if kind == USER_DEFINED:
            return text.encode("utf-8", "surrogateescape")
        return _byte_token(text) if kind == BYTE else b""

    def decode_bytes(self, ids: Iterable[int], special: bool = False) -> bytes:
        """The bytes of a sequence of ids."""
        return b"".join(self.token_bytes(token, special) for token in ids)

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """`decode_bytes` as text; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_bytes(ids, special).decode("utf-8", "replace")

    def _checked(self, token: int) -> int:
        if not 0 <= token < self.vocab_size:
            raise TextError(
                f"token {token} is outside the vocabulary of {self.vocab_size}; use ids 0 to {self.vocab_size - 1}"
            )
        return token


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            f"text: {text[error.start]!a} at {error.start} is half a surrogate pair; send whole characters"
        ) from None


def _byte_token(text: str) -> bytes:
    """A BYTE token is spelled <0xHH>."""
    try:
        return bytes([int(text[3:5], 16)]) if text.startswith("<0x") and text.endswith(">") and len(text) == 6 else b""
    except ValueError:
        return b""


def _bpe(v: Vocabulary) -> tuple[models.BPE, dict[int, tuple[int, ...]]]:
    """The BPE model, and what to put for ids that exist only in it.

    The library wants every byte and every part and product of a merge in the vocabulary. Where a file lacks one, an
    id past its end stands for it while merging; what is left of it then becomes its bytes' tokens, and a byte
    without a token is dropped.
    """
    ids, extra = v.ids, {}
    for character in BYTE_CHARACTERS:
        if character not in ids:
            extra.setdefault(character, len(ids) + len(extra))
    try:
        if not extra:
            return models.BPE(ids, v.merges), {}
    except Exception:  # the library's own type; it names the merge at fault, whose parts are added below
        pass
    for left, right in v.merges:
        for text in (left, right, left + right):
            if text not in ids:
                extra.setdefault(text, len(ids) + len(extra))
    try:
        model = models.BPE(ids | extra, v.merges)
    except Exception as error:
        raise TextError(f"tokenizer.ggml.merges: {one_line(error)}; convert the model again") from None
    return model, {i: tuple(ids[c] for c in from_bytes(to_bytes(text)) if c in ids) for text, i in extra.items()}
