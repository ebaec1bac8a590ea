"""Prompts of the text routes: a string, token ids, or both mixed in one array, as llama-server takes them."""

from __future__ import annotations

from runtime.server.errors import ApiError
from runtime.server.fields import Fields, json_kind

WANTED = "a string, an array of token ids, or an array that mixes strings and ids"


def read_prompt(fields: Fields, name: str = "prompt") -> list[str | int]:
    """The parts of the one prompt in the body. ApiError 400 on a wrong type, 501 for a batch of several prompts."""
    value = fields.raw(name)
    if value is None:
        raise fields.missing(name, WANTED)
    if isinstance(value, list) and value and all(isinstance(part, (str, list)) for part in value):
        if len(value) > 1:
            raise ApiError(501, f"'{name}' holds {len(value)} prompts: send one a request", name)
        value = value[0]
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list):
        raise ApiError(400, f"'{name}' must be {WANTED}, not {json_kind(value)}", name)
    for i, part in enumerate(parts):
        if isinstance(part, bool) or not isinstance(part, (str, int)):
            raise ApiError(400, f"'{name}[{i}]' must be a string or a token id, not {json_kind(part)}", name)
    return parts


def encode_parts(tokenizer, parts: list[str | int], add_special: bool = True, parse_special: bool = True) -> list[int]:
    """Token ids of the parts. The special tokens that open a text are added once, before a first part that is text."""
    ids: list[int] = []
    for i, part in enumerate(parts):
        if isinstance(part, int):
            ids.append(part)
        elif part:
            ids += tokenizer.encode(part, parse_special=parse_special, add_special=add_special and i == 0)
    return ids


def read_ids(fields: Fields, name: str, vocab_size: int) -> list[int]:
    """An array of token ids, each within the vocabulary."""
    ids = fields.array(name)
    if ids is None:
        raise fields.missing(name, "an array of token ids")
    for i, token in enumerate(ids):
        if isinstance(token, bool) or not isinstance(token, int):
            raise ApiError(400, f"'{name}[{i}]' must be a token id, not {json_kind(token)}", name)
        if not 0 <= token < vocab_size:
            raise ApiError(400, f"'{name}[{i}]' is {token}, the vocabulary has ids 0 to {vocab_size - 1}", name)
    return ids
