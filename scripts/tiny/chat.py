"""The conversation format: ChatML with Hermes tool calls, once as the Jinja template that goes into the GGUF file
(key tokenizer.chat_template) and once as plain Python, which is what makes millions of training rows affordable.
tests/scripts/test_tiny_data.py holds the two equal.
"""

from __future__ import annotations

import json

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

# The added tokens of Qwen3 in its order; True: a control token, False: shown when detokenised (USER_DEFINED).
SPECIAL_TOKENS: tuple[tuple[str, bool], ...] = (
    (END_OF_TEXT, True), (IM_START, True), (IM_END, True), ("<|object_ref_start|>", True), ("<|object_ref_end|>", True),
    ("<|box_start|>", True), ("<|box_end|>", True), ("<|quad_start|>", True), ("<|quad_end|>", True),
    ("<|vision_start|>", True), ("<|vision_end|>", True), ("<|vision_pad|>", True), ("<|image_pad|>", True),
    ("<|video_pad|>", True), ("<tool_call>", False), ("</tool_call>", False), ("<|fim_prefix|>", True),
    ("<|fim_middle|>", True), ("<|fim_suffix|>", True), ("<|fim_pad|>", True), ("<|repo_name|>", True),
    ("<|file_sep|>", True), ("<tool_response>", False), ("</tool_response>", False), ("<think>", False),
    ("</think>", False),
)

TOOLS_BEFORE = "These tools can be called, one JSON object a line:\n<tools>\n"
TOOLS_AFTER = ('\n</tools>\nTo call one, answer with its name and its arguments:\n<tool_call>\n'
               '{"name": NAME, "arguments": {...}}\n</tool_call>')

CHAT_TEMPLATE = r"""
{%- set start = 0 %}
{%- if messages[0].role == 'system' %}{% set start = 1 %}{% endif %}
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if start == 1 and messages[0].content %}{{- messages[0].content + '\n\n' }}{% endif %}
    {{- @BEFORE@ }}
    {%- for tool in tools %}
        {{- tool | tojson }}
        {%- if not loop.last %}{{- '\n' }}{% endif %}
    {%- endfor %}
    {{- @AFTER@ + '<|im_end|>\n' }}
{%- elif start == 1 %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages[start:] %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{% endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\n' }}{% endif %}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' }}
        {%- if message.content %}{{- message.content }}{% endif %}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if message.content or not loop.first %}{{- '\n' }}{% endif %}
            {%- set call = tool_call.function if tool_call.function else tool_call %}
            {{- '<tool_call>\n{"name": "' + call.name + '", "arguments": ' }}
            {%- if call.arguments is string %}{{- call.arguments }}{% else %}{{- call.arguments | tojson }}{% endif %}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'user' or message.role == 'system' %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- else %}
        {{- raise_exception('unknown role: ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}
"""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


CHAT_TEMPLATE = CHAT_TEMPLATE.strip().replace("@BEFORE@", _quoted(TOOLS_BEFORE))
CHAT_TEMPLATE = CHAT_TEMPLATE.replace("@AFTER@", _quoted(TOOLS_AFTER))


def dump(value) -> str:
    """JSON as the template's `tojson` writes it (Hugging Face's and llama.cpp's: keys in order, nothing escaped)."""
    return json.dumps(value, ensure_ascii=False)


def head(messages, tools=()) -> str:
    """The system block, or nothing."""
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    if tools:
        system = (system + "\n\n" if system else "") + TOOLS_BEFORE + "\n".join(map(dump, tools)) + TOOLS_AFTER
    elif messages[0]["role"] != "system":
        return ""
    return f"{IM_START}system\n{system}{IM_END}\n"


def turn(message) -> str:
    """One turn; consecutive tool results (which the generator never makes) are not joined here."""
    role, content = message["role"], message["content"]
    if role == "tool":
        return f"{IM_START}user\n<tool_response>\n{content}\n</tool_response>{IM_END}\n"
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        content += "\n" if content or index else ""
        arguments = dump(function["arguments"])
        content += f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {arguments}}}\n</tool_call>'
    return f"{IM_START}{role}\n{content}{IM_END}\n"


def render(messages, tools=(), add_generation_prompt: bool = True) -> str:
    body = "".join(turn(m) for m in messages if m is not messages[0] or m["role"] != "system")
    return head(messages, tools) + body + (f"{IM_START}assistant\n" if add_generation_prompt else "")
