"""The generation fields that all completion routes share, read from a body into Params."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.engine.request import RequestError, Sampling
from runtime.server.errors import ApiError, from_request_error
from runtime.server.fields import Fields, wrong
from runtime.server.unserved import refuse_unserved

MAX_TOKEN_NAMES = ("max_completion_tokens", "max_tokens", "n_predict")
MAX_STOPS = 64


@dataclass(frozen=True)
class Params:
    """max_tokens -1: until the context ends. stop: strings that end the answer and are not part of it."""

    sampling: Sampling
    max_tokens: int = -1
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False


def read_params(fields: Fields, defaults: Sampling) -> Params:
    """Raise ApiError 400 for a wrong type or value, 501 for a known field that is not served."""
    fields.string("model", None)
    fields.boolean("cache_prompt", True)  # either way the answer is the same
    refuse_unserved(fields)
    options = fields.object("stream_options") or {}
    return Params(
        sampling=read_sampling(fields, defaults),
        max_tokens=_max_tokens(fields),
        stop=_stops(fields),
        stream=fields.boolean("stream", False),
        include_usage=Fields(options, "stream_options.").boolean("include_usage", False),
    )


def read_sampling(fields: Fields, defaults: Sampling) -> Sampling:
    try:
        return Sampling(
            temperature=fields.number("temperature", defaults.temperature),
            top_k=fields.integer("top_k", defaults.top_k),
            top_p=fields.number("top_p", defaults.top_p),
            min_p=fields.number("min_p", defaults.min_p),
            seed=fields.integer("seed", defaults.seed),
        )
    except RequestError as error:
        raise from_request_error(error) from None


def _max_tokens(fields: Fields) -> int:
    given = [(name, fields.integer(name, None)) for name in MAX_TOKEN_NAMES]
    given = [(name, value) for name, value in given if value is not None]
    if not given:
        return -1
    name, value = given[0]
    if value < -1:
        raise ApiError(400, f"'{name}' must be -1 (until the context ends) or more, not {value}", name)
    for other, again in given[1:]:
        if again != value:
            raise ApiError(400, f"'{name}' is {value} and '{other}' is {again}: give one of them", other)
    return value


def _stops(fields: Fields) -> tuple[str, ...]:
    value = fields.one_of("stop", (str, list), "a string or an array of strings")
    words = [value] if isinstance(value, str) else value or []
    if len(words) > MAX_STOPS:
        raise ApiError(400, f"'stop' has {len(words)} strings, at most {MAX_STOPS} are served", "stop")
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise wrong(f"stop[{i}]", "a string", word)
    return tuple(word for word in words if word)
