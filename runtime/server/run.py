"""One running request as text: the engine's stream, detokenised, cut at the stop strings, counted and timed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from runtime.engine.request import Engine, Stream
from runtime.server.errors import ApiError
from runtime.server.params import Params
from runtime.server.stops import StopMatcher


@dataclass(frozen=True)
class Piece:
    """Text that is free to go (may be ""), and the tokens read since the last piece."""

    text: str
    tokens: list[int]


class Run:
    """Iterate `pieces()` once; then finish ("stop" | "length"), stop_word and completion_tokens are final."""

    def __init__(self, stream: Stream, detokenizer, params: Params, engine: Engine):
        self.stream = stream
        self.params = params
        self.engine = engine
        self.finish: str | None = None
        self.completion_tokens = 0
        self._detokenizer = detokenizer
        self._matcher = StopMatcher(params.stop)
        self._halted = False

    @property
    def stop_word(self) -> str | None:
        return self._matcher.word

    @property
    def truncated(self) -> bool:
        """True when the context ended before max_tokens did."""
        wanted = self.params.max_tokens
        return self.finish == "length" and (wanted < 0 or self.completion_tokens < wanted)

    def halt(self) -> None:
        """Stop here, as if a stop string had been met."""
        self._halted = True
        self.stream.cancel()

    async def pieces(self) -> AsyncIterator[Piece]:
        """The answer as it is made. ApiError when the engine could not finish it."""
        while not self._halted and (tokens := await self.stream.take()):
            text, read = "", []
            for token in tokens:
                read.append(token)
                text += self._matcher.push(self._detokenizer.push(token))
                if self.stop_word is not None:
                    self.halt()
                    break
            self.completion_tokens += len(read)
            yield Piece(text, read)
        if not self._halted:
            self._check_end()
            tail = self._matcher.push(self._detokenizer.flush()) + self._matcher.flush()
            if tail:
                yield Piece(tail, [])
        self.finish = "stop" if self._halted else self.stream.finish

    def _check_end(self) -> None:
        if self.stream.finish == "error":
            status = 500 if self.engine.alive else 503
            raise ApiError(status, self.stream.error or "the engine failed without a reason")
        if self.stream.finish == "cancelled":
            raise ApiError(503, self.stream.error or "the request was cancelled")

    def usage(self) -> dict:
        """OpenAI's usage object."""
        stream = self.stream
        return {
            "prompt_tokens": stream.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": stream.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": stream.cached_tokens},
        }

    def timings(self) -> dict:
        """llama-server's timings object, and the seed that was used. Milliseconds."""
        stream = self.stream
        fresh = stream.prompt_tokens - stream.cached_tokens
        return {
            "cache_n": stream.cached_tokens,
            "prompt_n": fresh,
            "prompt_ms": stream.prompt_ms,
            "prompt_per_token_ms": _ratio(stream.prompt_ms, fresh),
            "prompt_per_second": _ratio(fresh * 1e3, stream.prompt_ms),
            "predicted_n": self.completion_tokens,
            "predicted_ms": stream.predicted_ms,
            "predicted_per_token_ms": _ratio(stream.predicted_ms, self.completion_tokens),
            "predicted_per_second": _ratio(self.completion_tokens * 1e3, stream.predicted_ms),
            "seed": stream.seed,
        }


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0
