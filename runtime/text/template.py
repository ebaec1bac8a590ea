"""Chat templates of a GGUF file (tokenizer.chat_template, tokenizer.chat_template.tool_use): messages to prompt text.

Templates are jinja2 with the additions of Hugging Face's (raise_exception, strftime_now, tojson, loop controls),
rendered in a sandbox in a process of its own (runtime.text.template_worker).
"""

from __future__ import annotations

from runtime.text.errors import TextError
from runtime.text.messages import Abilities, prepare, probe
from runtime.text.template_process import TemplateProcess

KEY = "tokenizer.chat_template"
TOOL_USE = "tool_use"
DEFAULT = "default"

# For a file without a template: the plain ChatML form.
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class ChatTemplate:
    """Renders messages with a model's template. Safe to share between threads. Made by `from_gguf`.

    source: text of the default template, None where the file has none and ChatML stands in.
    """

    def __init__(
        self,
        tokenizer,
        source: str | None,
        tool_use: str | None = None,
        *,
        seconds: float = 10.0,
        characters: int = 16 << 20,
    ):
        """seconds, characters: limits of one rendering. Raises TextError for a template that does not compile or
        passes a limit.
        """
        self.source = source
        self._tokenizer = tokenizer
        sources = {DEFAULT: CHATML if source is None else source}
        if tool_use is not None:
            sources[TOOL_USE] = tool_use
        self._process = TemplateProcess(sources, seconds, characters)
        self._abilities: dict[str, Abilities] = {}
        self._able(DEFAULT)

    @classmethod
    def from_gguf(cls, gguf, tokenizer, **limits) -> ChatTemplate:
        """The template of an open GGUF file. Raises TextError."""
        source, tool_use = (gguf.get(key, None) for key in (KEY, f"{KEY}.{TOOL_USE}"))
        for key, value in ((KEY, source), (f"{KEY}.{TOOL_USE}", tool_use)):
            if value is not None and not isinstance(value, str):
                raise TextError(f"{key} is not a string; convert the model again")
        return cls(tokenizer, source, tool_use, **limits)

    def render(
        self, messages: list[dict], tools: list[dict] | None = None, add_generation_prompt: bool = True, **kwargs
    ) -> str:
        """The prompt text. messages, tools: OpenAI's shapes. kwargs: further variables of the template, such as
        enable_thinking.

        Raises TextError in one line: bad messages, the template's own raise_exception, an error in it, or a limit
        passed.
        """
        name = TOOL_USE if tools and TOOL_USE in self._process.names else DEFAULT
        if tools and name == DEFAULT and self.source is None:
            raise TextError(
                "tools: the model file has no chat template, so tools cannot be described to it; leave them out"
            )
        ready = prepare(messages, self._able(name))
        variables = self._variables(kwargs)
        if tools:
            variables["tools"] = tools
        return self._trimmed(
            self._process.render(
                name, variables | {"messages": ready, "add_generation_prompt": bool(add_generation_prompt)}
            )
        )

    def close(self) -> None:
        """End the process that renders; a later render starts it again."""
        self._process.close()

    def _able(self, name: str) -> Abilities:
        if name not in self._abilities:
            self._abilities[name] = probe(
                lambda messages: self._process.render(
                    name, self._variables({}) | {"messages": messages, "add_generation_prompt": False}
                )
            )
        return self._abilities[name]

    def _variables(self, kwargs: dict) -> dict:
        tok = self._tokenizer
        effort = kwargs.get("reasoning_effort")
        thinking = kwargs.get("enable_thinking", effort != "none")
        if not isinstance(thinking, bool):
            raise TextError(f"enable_thinking: need true or false, not {type(thinking).__name__}")
        texts = {
            name: "" if token is None else tok.token_text(token)
            for name, token in (("bos_token", tok.bos), ("eos_token", tok.eos))
        }
        return texts | kwargs | {"enable_thinking": thinking}

    def _trimmed(self, text: str) -> str:
        """Without the bos and eos texts that encoding adds again."""
        tok = self._tokenizer
        if tok.add_bos and tok.bos is not None:
            text = text.removeprefix(tok.token_text(tok.bos))
        if tok.add_eos and tok.eos is not None:
            text = text.removesuffix(tok.token_text(tok.eos))
        return text
