"""A model's raw text -> reasoning, content and tool calls, piece by piece.

Tags: <think>...</think> (Qwen3, QwQ, DeepSeek-R1; some templates open it in the prompt) and Hermes tool calls,
<tool_call>{"name": N, "arguments": {...}}</tool_call> (Qwen2.5, Qwen3). A call that is not that shape stays content.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from runtime.server.stops import partial_at_end

THINK, THINK_END = "<think>", "</think>"
CALL, CALL_END = "<tool_call>", "</tool_call>"
TAGS = (THINK, THINK_END, CALL, CALL_END)


@dataclass(frozen=True)
class ToolCall:
    """One call; `arguments` is a JSON object as text, as OpenAI has it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Delta:
    """One more bit of the reply: kind "reasoning" or "content" with `text`, or "call" with `call`."""

    kind: str
    text: str = ""
    call: ToolCall | None = None


class BadCall(ValueError):
    """The text between the tags is no tool call; `open` when it ends inside a JSON string, so that more may follow."""

    def __init__(self, message: str, open: bool = False):
        super().__init__(message)
        self.open = open


def _no_constant(name: str):
    raise ValueError(f"{name} is no JSON")


def parse_call(text: str) -> ToolCall:
    """The JSON of one Hermes call. BadCall when it is malformed or of another shape."""
    try:
        data = json.loads(text, parse_constant=_no_constant)
        if isinstance(data, dict) and isinstance(data.get("arguments"), str):
            data["arguments"] = json.loads(data["arguments"], parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise BadCall(str(error), open=error.msg.startswith("Unterminated string")) from None
    except (ValueError, RecursionError) as error:
        raise BadCall(str(error)) from None
    if not isinstance(data, dict) or not isinstance(data.get("name"), str) or not data["name"]:
        raise BadCall("no name")
    arguments = data.get("arguments", {})
    if not isinstance(arguments, dict):
        raise BadCall("the arguments are no object")
    text = json.dumps(arguments, ensure_ascii=False)
    try:
        (data["name"] + text).encode()
    except UnicodeEncodeError:
        raise BadCall("half a surrogate pair") from None
    return ToolCall("call_" + secrets.token_hex(12), data["name"], text)


def opens_thinking(prompt: str) -> bool:
    """True when a rendered prompt ends within an open <think>."""
    return prompt.rstrip().endswith(THINK)


class ReplyParser:
    """push(text) and finish() return the deltas that are certain. Two pieces of one kind may follow each other.

    tools: look for calls. reasoning: split <think>; `opened` when the prompt has opened it already.
    Space around the tags is dropped, any other space is kept.
    """

    def __init__(self, tools: bool = False, reasoning: bool = True, opened: bool = False):
        self._tools = tools
        self._text = ""
        self._body = 0  # in the call state: where the JSON begins, after space and tag
        self._scan = 0  # and where to look for the end tag
        self._state: Callable[[bool], list[Delta] | None]
        if reasoning and opened:
            self._state = self._think
        else:
            self._state = self._start if reasoning else self._content
        self._fresh = True  # nothing of this block was shown: its leading space is dropped

    def push(self, text: str) -> list[Delta]:
        self._text += text
        return self._run(last=False)

    def finish(self) -> list[Delta]:
        """The rest, at the end of the text: an unfinished call that is whole JSON counts, any other is content."""
        return self._run(last=True)

    def _run(self, last: bool) -> list[Delta]:
        deltas: list[Delta] = []
        while self._text:
            found = self._state(last)
            if found is None:  # needs more text
                break
            deltas += [delta for delta in found if delta.text or delta.call]
        return deltas

    # one method a state: takes what it can from self._text; None when it must wait ----------------------------------
    def _start(self, last: bool) -> list[Delta] | None:
        text = self._text.lstrip()
        if text.startswith(THINK):
            self._text = text[len(THINK) :]
            self._state = self._think
        elif THINK.startswith(text) and not last:
            return None
        else:
            self._state = self._content
        return []

    def _think(self, last: bool) -> list[Delta] | None:
        if self._fresh:
            self._text = self._text.lstrip()
        at = self._text.find(THINK_END)
        if at != -1:
            shown, self._text = self._text[:at].rstrip(), self._text[at + len(THINK_END) :]
            self._state = self._gap
            return [Delta("reasoning", shown)]
        shown = self._free(THINK_END, last).rstrip()
        self._text = "" if last else self._text[len(shown) :]
        return self._show("reasoning", shown)

    def _gap(self, last: bool) -> list[Delta] | None:
        """Between blocks: space is dropped."""
        self._text = self._text.lstrip()
        if self._text:
            self._state = self._content
        return []

    def _content(self, last: bool) -> list[Delta] | None:
        if not self._tools:
            shown, self._text = self._text, ""
            return [Delta("content", shown)]
        at = self._text.find(CALL)
        if at != -1:
            shown = self._text[:at].rstrip()
            self._text = self._text[len(shown) :]  # with the space, which belongs to the text should this be no call
            self._state = self._call
            self._body = self._scan = at - len(shown) + len(CALL)
            return [Delta("content", shown)]
        shown = self._free(CALL, last)
        if not last:  # the space before a call is not shown: wait for what follows it
            shown = shown.rstrip()
        self._text = self._text[len(shown) :]
        return self._show("content", shown)

    def _call(self, last: bool) -> list[Delta] | None:
        at = self._text.find(CALL_END, self._scan)
        if at == -1 and not last:
            self._scan = max(self._body, len(self._text) - len(CALL_END) + 1)
            return None
        end = len(self._text) if at == -1 else at
        after = end if at == -1 else at + len(CALL_END)
        try:
            call = parse_call(self._text[self._body : end])
        except BadCall as error:
            if error.open and at != -1:  # the end tag stands inside a JSON string
                self._scan = after
                return []
            shown, self._text = self._text[:after], self._text[after:]
            self._state = self._content
            return [Delta("content", shown)]
        self._text = self._text[after:]
        self._state = self._gap
        return [Delta("call", call=call)]

    def _free(self, tag: str, last: bool) -> str:
        """The text that cannot belong to `tag` any more."""
        return self._text if last else self._text[: len(self._text) - partial_at_end(self._text, (tag,))]

    def _show(self, kind: str, shown: str) -> list[Delta] | None:
        if not shown:
            return None
        self._fresh = False
        return [Delta(kind, shown)]
