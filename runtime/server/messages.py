"""Chat messages and tools: checked here, so that an error names the member; runtime.text fits them to the template."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.server.errors import ApiError
from runtime.server.fields import Fields, json_kind
from runtime.server.reply import opens_thinking

ROLES = ("system", "developer", "user", "assistant", "tool")
REASONING_FORMATS = ("auto", "deepseek", "none")
RESERVED_KWARGS = ("self", "messages", "tools", "add_generation_prompt")


@dataclass(frozen=True)
class ChatPrompt:
    """What the template is given, and how the reply is to be read."""

    messages: list[dict]
    tools: list[dict] | None = None
    kwargs: dict = field(default_factory=dict)
    add_generation_prompt: bool = True
    split_reasoning: bool = True
    parallel_calls: bool = True

    def render(self, template) -> str:
        """The prompt. A trailing assistant message is left open, to be continued. ApiError 400 from the template."""
        from runtime.text.errors import TextError, Unusable

        messages, tail = self.messages, ""
        if messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls") and self.add_generation_prompt:
            tail = messages[-1]["content"]
            tail = tail if isinstance(tail, str) else "\n".join(part["text"] for part in tail)
            messages = messages[:-1]
        try:
            text = template.render(
                messages, tools=self.tools, add_generation_prompt=self.add_generation_prompt, **self.kwargs
            )
        except Unusable as error:  # it took too long or too much memory
            raise ApiError(500, str(error)) from None
        except TextError as error:
            raise ApiError(400, str(error), "messages") from None
        if tail and opens_thinking(text):
            message = "the template opens <think> and the last message is the assistant's: set enable_thinking to false"
            raise ApiError(400, message, "messages")
        return text + tail


def read_chat(fields: Fields) -> ChatPrompt:
    """The chat part of a body. ApiError 400 naming the member at fault, 501 for what is not served."""
    messages = [_message(entry) for entry in fields.objects("messages")]
    if not messages:
        raise fields.missing("messages", "a non-empty array of messages")
    if len(messages) > 1 and messages[-1]["role"] == messages[-2]["role"] == "assistant":
        raise ApiError(400, "two assistant messages at the end: only one can be continued", "messages")
    tools = [_tool(entry) for entry in fields.objects("tools")]
    if not _tools_wanted(fields):
        tools = []
    style = fields.string("reasoning_format", "auto")
    if style not in REASONING_FORMATS:
        message = f"'reasoning_format' must be one of {', '.join(REASONING_FORMATS)}, not {style!r}"
        raise ApiError(400, message, "reasoning_format")
    return ChatPrompt(
        messages=messages,
        tools=tools or None,
        kwargs=_template_kwargs(fields),
        add_generation_prompt=fields.boolean("add_generation_prompt", True),
        split_reasoning=style != "none",
        parallel_calls=fields.boolean("parallel_tool_calls", True),
    )


def _message(entry: Fields) -> dict:
    role = entry.string("role", None)
    if role is None:
        raise entry.missing("role", f"one of {', '.join(ROLES)}")
    if role not in ROLES:
        raise ApiError(400, f"'{entry.at}role' must be one of {', '.join(ROLES)}, not {role!r}", entry.at + "role")
    if "content" not in entry and role != "assistant":
        raise entry.missing("content", "a string or an array of text parts")
    message = {"role": role, "content": _content(entry)}
    for name in ("name", "tool_call_id", "reasoning_content"):
        value = entry.string(name, None)
        if value is not None:
            message[name] = value
    calls = [_past_call(call) for call in entry.objects("tool_calls")]
    if calls:
        message["tool_calls"] = calls
    return message


def _content(entry: Fields) -> str | list[dict]:
    value = entry.one_of("content", (str, list), "a string or an array of text parts")
    if not isinstance(value, list):
        return value or ""
    for part in entry.objects("content"):
        kind = part.string("type", None)
        if kind != "text":
            raise ApiError(501, f"'{part.at}type' is {kind!r}: this server reads text parts only", part.at + "type")
        if part.string("text", None) is None:
            raise part.missing("text", "a string")
    return value


def _past_call(call: Fields) -> dict:
    """A tool call of an earlier turn."""
    call.string("id", None)
    function = call.object("function")
    if function is None:
        raise call.missing("function", "an object with name and arguments")
    inner = Fields(function, call.at + "function.")
    if inner.string("name", None) is None:
        raise inner.missing("name", "a string")
    inner.one_of("arguments", (str, dict), "a JSON text or an object")
    return call.data


def _tool(entry: Fields) -> dict:
    kind = entry.string("type", "function")
    if kind != "function":
        raise ApiError(501, f"'{entry.at}type' is {kind!r}: only functions are served", entry.at + "type")
    function = entry.object("function")
    if function is None:
        raise entry.missing("function", "an object with name and parameters")
    inner = Fields(function, entry.at + "function.")
    if not inner.string("name", None):
        raise inner.missing("name", "a non-empty string")
    inner.string("description", None)
    inner.object("parameters")
    return entry.data


def _tools_wanted(fields: Fields) -> bool:
    """False for tool_choice none. A forced call would need constrained sampling: 501."""
    choice = fields.one_of("tool_choice", (str, dict), "a string or an object")
    if choice in (None, "auto", "none"):
        return choice != "none"
    if isinstance(choice, dict) or choice == "required":
        raise ApiError(501, "'tool_choice' can be \"auto\" or \"none\": a call cannot be forced yet", "tool_choice")
    raise ApiError(400, f"'tool_choice' must be auto, none, required or an object, not {choice!r}", "tool_choice")


def _template_kwargs(fields: Fields) -> dict:
    kwargs = dict(fields.object("chat_template_kwargs") or {})
    for name in RESERVED_KWARGS:
        if name in kwargs:
            raise ApiError(400, f"'chat_template_kwargs.{name}' is set by the server", f"chat_template_kwargs.{name}")
    effort = fields.string("reasoning_effort", None)
    if effort == "none":
        kwargs.setdefault("enable_thinking", False)
    elif effort is not None:
        kwargs.setdefault("reasoning_effort", effort)
    thinking = kwargs.get("enable_thinking")
    if thinking is not None and not isinstance(thinking, bool):
        where = "chat_template_kwargs.enable_thinking"
        raise ApiError(400, f"'{where}' must be a boolean, not {json_kind(thinking)}", where)
    return kwargs
