"""OpenAI's answers: chat.completion(.chunk) and text_completion objects, whole or as the chunks of an event stream.

An Answer is fed the pieces of one Run, in both modes, so a streamed answer and a whole one cannot differ.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from typing import Protocol

from runtime.server.reply import Delta, ReplyParser, ToolCall
from runtime.server.run import Piece, Run


class Answer(Protocol):
    """What net.py needs of a format. `satisfied`: the rest of the text is not wanted."""

    done_marker: bool  # whether an event stream ends with `data: [DONE]`
    satisfied: bool

    def start(self) -> list[dict]:
        """Chunks before the first token."""

    def piece(self, piece: Piece) -> list[dict]:
        """Chunks of one piece."""

    def end(self, run: Run) -> list[dict]:
        """Chunks after the last piece."""

    def whole(self, run: Run) -> dict:
        """The answer at once; after the last piece, instead of end()."""


class ChatAnswer:
    """POST /v1/chat/completions."""

    done_marker = True

    def __init__(self, model: str, parser: ReplyParser, include_usage: bool, parallel_calls: bool = True):
        self.satisfied = False
        self._parser = parser
        self._include_usage = include_usage
        self._parallel = parallel_calls
        self._head = _head("chatcmpl-", model)
        self._texts: dict[str, list[str]] = {"reasoning": [], "content": []}
        self._calls: list[ToolCall] = []

    def start(self) -> list[dict]:
        return [self._chunk({"role": "assistant", "content": None})]

    def piece(self, piece: Piece) -> list[dict]:
        return self._take(self._parser.push(piece.text))

    def end(self, run: Run) -> list[dict]:
        chunks = self._take(self._parser.finish())
        last = self._chunk({}, self._reason(run)) | {"timings": run.timings()}
        return [*chunks, last, *_usage_chunk(self._head, "chat.completion.chunk", run, self._include_usage)]

    def whole(self, run: Run) -> dict:
        self._take(self._parser.finish())
        content = "".join(self._texts["content"])
        message: dict = {"role": "assistant", "content": content if content or not self._calls else None}
        if self._texts["reasoning"]:
            message["reasoning_content"] = "".join(self._texts["reasoning"])
        if self._calls:
            message["tool_calls"] = [_call_object(call) for call in self._calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason(run)}
        return _whole(self._head, "chat.completion", choice, run)

    def _take(self, deltas: Iterable[Delta]) -> list[dict]:
        chunks = []
        for delta in deltas:
            if self.satisfied:  # text after the one call that was allowed
                break
            if delta.call is None:
                self._texts[delta.kind].append(delta.text)
                name = "content" if delta.kind == "content" else "reasoning_content"
                chunks.append(self._chunk({name: delta.text}))
                continue
            index = len(self._calls)
            self._calls.append(delta.call)
            chunks.append(self._chunk({"tool_calls": [{"index": index} | _call_object(delta.call)]}))
            self.satisfied = not self._parallel
        return chunks

    def _reason(self, run: Run) -> str:
        return "tool_calls" if self._calls and run.finish == "stop" else run.finish

    def _chunk(self, delta: dict, finish: str | None = None) -> dict:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._head | {"object": "chat.completion.chunk", "choices": [choice]}


class TextAnswer:
    """POST /v1/completions."""

    done_marker = True
    satisfied = False

    def __init__(self, model: str, include_usage: bool):
        self._include_usage = include_usage
        self._head = _head("cmpl-", model)
        self._texts: list[str] = []

    def start(self) -> list[dict]:
        return []

    def piece(self, piece: Piece) -> list[dict]:
        self._texts.append(piece.text)
        return [self._chunk(piece.text, None)] if piece.text else []

    def end(self, run: Run) -> list[dict]:
        last = self._chunk("", run.finish) | {"timings": run.timings()}
        return [last, *_usage_chunk(self._head, "text_completion", run, self._include_usage)]

    def whole(self, run: Run) -> dict:
        return _whole(self._head, "text_completion", _text_choice("".join(self._texts), run.finish), run)

    def _chunk(self, text: str, finish: str | None) -> dict:
        return self._head | {"object": "text_completion", "choices": [_text_choice(text, finish)]}


def _head(prefix: str, model: str) -> dict:
    return {"id": prefix + secrets.token_hex(16), "created": int(time.time()), "model": model}


def _text_choice(text: str, finish: str | None) -> dict:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}


def _call_object(call: ToolCall) -> dict:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _whole(head: dict, kind: str, choice: dict, run: Run) -> dict:
    return head | {"object": kind, "choices": [choice], "usage": run.usage(), "timings": run.timings()}


def _usage_chunk(head: dict, kind: str, run: Run, wanted: bool) -> list[dict]:
    return [head | {"object": kind, "choices": [], "usage": run.usage()}] if wanted else []
