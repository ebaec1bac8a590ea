"""The vocabulary of a GGUF file: tokens, their kinds, merges and special ids, all checked (keys tokenizer.ggml.*)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller

from runtime.text import ending
from runtime.text.errors import TextError, one_line

# tokenizer.ggml.token_type
UNDEFINED, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(7)

_KEYS = "tokenizer.ggml."
_AGAIN = "convert the model again"
_CUT = methodcaller("partition", " ")


@dataclass(frozen=True)
class Vocabulary:
    """What a tokenizer is made of.

    tokens[i]: text of token i, in the byte alphabet for NORMAL ones. kinds[i]: its token_type. merges: (left,
    right), best first. ids: text -> id. controls: ids that render as nothing (CONTROL, UNKNOWN, and what ends a
    generation whatever its type says).
    """

    pre: str
    tokens: list[str]
    kinds: list[int]
    merges: list[tuple[str, str]]
    ids: dict[str, int]
    bos: int | None
    eos: int | None
    add_bos: bool
    add_eos: bool
    eog: frozenset[int]
    controls: frozenset[int]
    matched: tuple[int, ...]


def read_vocabulary(gguf) -> Vocabulary:
    """Read and check everything. gguf: anything with get(key, default). Raises TextError naming the key at fault."""
    model = gguf.get(_KEYS + "model", None)
    if model is None:
        raise TextError(
            f"{_KEYS}model is missing: the file has no tokenizer; use a model file that carries its vocabulary"
        )
    if model != "gpt2":
        raise TextError(f'{_KEYS}model is {one_line(repr(model), 80)}: only "gpt2" (byte-level BPE) is served')
    pre = gguf.get(_KEYS + "pre", None)
    if not isinstance(pre, str):
        fault = "missing" if pre is None else "no string"
        raise TextError(f"{_KEYS}pre is {fault}: the way to cut words is unknown; {_AGAIN} with a current converter")
    tokens = [text or f"[EMPTY_{i}]" for i, text in enumerate(_strings(gguf, "tokens"))]
    if not tokens:
        raise TextError(f"{_KEYS}tokens is empty; {_AGAIN}")
    ids = {text: i for i, text in enumerate(tokens)}
    if len(ids) != len(tokens):
        _refuse_duplicates(tokens)
    kinds = _kinds(gguf, len(tokens))
    named = {name: _id(gguf, name, len(tokens)) for name in ending.KEYS}
    eog, forced = ending.end_of_generation(ids, named)
    special = [i for i, kind in enumerate(kinds) if kind in (CONTROL, UNKNOWN, USER_DEFINED)]
    bos, eos = _id(gguf, "bos", len(tokens)), named["eos"]
    add_bos, add_eos = _flag(gguf, "add_bos_token"), _flag(gguf, "add_eos_token")
    for wanted, token, name in ((add_bos, bos, "bos"), (add_eos, eos, "eos")):
        if wanted and token is None:
            raise TextError(f"{_KEYS}add_{name}_token is true but {_KEYS}{name}_token_id is missing; {_AGAIN}")
    matched = sorted({*special, *forced}, key=lambda i: (-len(tokens[i].encode("utf-8", "surrogateescape")), i))
    return Vocabulary(
        pre=pre,
        tokens=tokens,
        kinds=kinds,
        merges=_merges(gguf),
        ids=ids,
        bos=bos,
        eos=eos,
        add_bos=add_bos,
        add_eos=add_eos,
        eog=eog,
        controls=forced.union(i for i in special if kinds[i] != USER_DEFINED),
        matched=tuple(matched),
    )


def _strings(gguf, name: str) -> list[str]:
    """A string array as list of str; the reader's bulk pass where it has one."""
    value = gguf.get(_KEYS + name, None)
    if value is None:
        raise TextError(f"{_KEYS}{name} is missing; {_AGAIN}")
    try:
        if hasattr(value, "bytes_list"):
            return [raw.decode("utf-8") for raw in value.bytes_list()]
        values = list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [None]
        values = [v.decode("utf-8") if isinstance(v, bytes) else v for v in values]
    except UnicodeDecodeError as error:
        raise TextError(
            f"{_KEYS}{name} holds {one_line(repr(error.object), 80)}, which is not UTF-8; {_AGAIN}"
        ) from None
    if not all(isinstance(v, str) for v in values):
        raise TextError(f"{_KEYS}{name} is not an array of strings; {_AGAIN}")
    return values


def _refuse_duplicates(tokens: list[str]) -> None:
    seen: dict[str, int] = {}
    for i, text in enumerate(tokens):
        if text in seen:
            raise TextError(
                f"{_KEYS}tokens: {one_line(repr(text), 80)} is both token {seen[text]} and token {i}; {_AGAIN}"
            )
        seen[text] = i


def _kinds(gguf, count: int) -> list[int]:
    value = gguf.get(_KEYS + "token_type", None)
    if value is None:
        return [NORMAL] * count
    kinds = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(kinds, list) or len(kinds) != count:
        raise TextError(f"{_KEYS}token_type does not hold one number for each of the {count} tokens; {_AGAIN}")
    for i, kind in enumerate(kinds):
        if kind not in (UNDEFINED, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE):
            raise TextError(f"{_KEYS}token_type of token {i} is {one_line(repr(kind), 40)}, known are 0 to 6; {_AGAIN}")
    return kinds


def _merges(gguf) -> list[tuple[str, str]]:
    """The pairs, each once: where a file repeats one, its first rank holds."""
    lines = dict.fromkeys(_strings(gguf, "merges"))
    pairs = [(left, right) for left, _, right in map(_CUT, lines) if left and right]
    return pairs if len(pairs) == len(lines) else [_pair(line) for line in lines]


def _pair(line: str) -> tuple[str, str]:
    """One merge; its first character is never the space that separates."""
    left, _, right = line[1:].partition(" ")
    if not (line and right):
        shown = one_line(repr(line), 80)
        raise TextError(f"{_KEYS}merges holds {shown}, which is not two parts with a space between; {_AGAIN}")
    return line[0] + left, right


def _id(gguf, name: str, count: int) -> int | None:
    key = f"{_KEYS}{name}_token_id"
    value = gguf.get(key, None)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise TextError(f"{key} is {one_line(repr(value), 40)}, the vocabulary has ids 0 to {count - 1}; {_AGAIN}")
    return value


def _flag(gguf, name: str) -> bool:
    value = gguf.get(_KEYS + name, False)
    if not isinstance(value, bool):
        raise TextError(f"{_KEYS}{name} is {one_line(repr(value), 40)}, not a boolean; {_AGAIN}")
    return value
