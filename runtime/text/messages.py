"""Chat messages, brought to the form that a template can take.

Clients speak OpenAI's shapes; templates are written for Hugging Face's. What a template takes is found by rendering
probes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from runtime.text.errors import TextError, Unusable, one_line

_MARK = "q7Zprobe"


@dataclass(frozen=True)
class Abilities:
    """What a template takes: content as a list of parts, call arguments as objects, messages of role system."""

    parts: bool
    object_arguments: bool
    system: bool


def probe(render: Callable[[list[dict]], str]) -> Abilities:
    """Find the abilities of a template. render: messages -> text; a TextError means that this form is not taken, an
    Unusable passes through.
    """
    user = {"role": "user", "content": "hello"}

    def shows(*messages: dict, never: tuple[str, ...] = ()) -> bool:
        try:
            text = render(list(messages))
        except Unusable:
            raise
        except TextError:
            return False
        return _MARK in text and not any(word in text for word in never)

    call = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": {_MARK: "value"}}}
    return Abilities(
        # a template that prints the list itself shows Python's or JSON's spelling of it
        parts=shows({"role": "user", "content": [{"type": "text", "text": _MARK}]}, never=("'type'", '"type"')),
        object_arguments=shows(
            user, {"role": "assistant", "content": "", "tool_calls": [call]}, user, never=(f"'{_MARK}':",)
        ),
        system=shows({"role": "system", "content": _MARK}, user),
    )


def prepare(messages: list[dict], able: Abilities) -> list[dict]:
    """New messages for the template; the given ones stay as they are. Raises TextError naming the message at fault."""
    if not isinstance(messages, list) or not messages:
        raise TextError("messages: need a list with at least one message")
    out = [_message(message, f"messages[{i}]", able) for i, message in enumerate(messages)]
    return out if able.system else _fold_system(out)


def _message(message: dict, where: str, able: Abilities) -> dict:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise TextError(f"{where}: need an object with a role")
    role = "system" if message["role"] == "developer" else message["role"]
    new = {**message, "role": role, "content": _content(message.get("content"), where, able)}
    if message.get("tool_calls"):
        if not isinstance(message["tool_calls"], list):
            raise TextError(f"{where}.tool_calls: need a list")
        new["tool_calls"] = [
            _call(call, f"{where}.tool_calls[{i}]", able) for i, call in enumerate(message["tool_calls"])
        ]
    return new


def _content(content, where: str, able: Abilities):
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise TextError(f"{where}.content: need a string or a list of text parts")
    for i, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else part
            raise TextError(f"{where}.content[{i}]: {one_line(repr(kind), 60)} is no text part; only text is served")
    return content if able.parts else "\n".join(part["text"] for part in content)


def _call(call: dict, where: str, able: Abilities) -> dict:
    """A tool call; arguments that are the JSON text of an object become the object where the template takes one."""
    if not isinstance(call, dict):
        raise TextError(f"{where}: need an object")
    if isinstance(call.get("function"), dict):
        return {**call, "function": _call(call["function"], where + ".function", able)}
    arguments = call.get("arguments")
    if able.object_arguments and isinstance(arguments, str):
        try:
            value = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return {**call, "arguments": value}
    return call


def _fold_system(messages: list[dict]) -> list[dict]:
    """For templates without a system role: its text goes before the next message's, or becomes a user message."""
    out: list[dict] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "system":
            waiting.append(_joined(message["content"]))
        elif waiting:
            out.append({**message, "content": "\n".join([*waiting, _joined(message["content"])])})
            waiting = []
        else:
            out.append(message)
    if waiting:
        out.append({"role": "user", "content": "\n".join(waiting)})
    return out


def _joined(content) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)
