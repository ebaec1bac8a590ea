"""Chat templates: the forms of the Qwen line, what clients send, and what jinja offers."""

from __future__ import annotations

import pytest

from runtime.text import ChatTemplate, TextError
from runtime.text.template_process import TemplateProcess

# Minimal templates with the jinja features of the model makers' own; written for these tests.
HERMES = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0]['content'] }}{%- else %}{{- 'You are a default.' }}{%- endif %}
    {{- '\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou are a default.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not (loop.first and tools)) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}{{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
THINKING = """{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not (message.content.startswith('<tool_response>') and
        message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- set f = call.function if call.function else call %}
            {{- '\\n<tool_call>\\n{"name": "' ~ f.name ~ '", "arguments": ' }}
            {%- if f.arguments is string %}{{- f.arguments }}{%- else %}{{- f.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""
XML_CALLS = """{% macro extra(object, handled) %}
    {%- if object is mapping %}
        {%- for key in object %}{%- if key not in handled %}{{- '\\n<' ~ key ~ '>' ~ (object[key] | tojson | safe if object[key] is mapping or
            (object[key] is sequence and object[key] is not string) else object[key] | string) ~ '</' ~ key ~ '>' }}{%- endif %}{%- endfor %}
    {%- endif %}
{% endmacro %}
{%- for tool in tools or [] %}
    {%- set tool = tool.function if tool.function is defined else tool %}
    {{- '<function>\\n<name>' ~ tool.name ~ '</name>' }}{{- extra(tool, ['name']) }}{{- '\\n</function>\\n' }}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls is defined and message.tool_calls is iterable and message.tool_calls | length > 0 %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content is defined and message.content is string and message.content | trim | length > 0 %}{{- '\\n' + message.content | trim + '\\n' }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- set tool_call = tool_call.function if tool_call.function is defined else tool_call %}
            {{- '\\n<tool_call>\\n<function=' + tool_call.name + '>\\n' }}
            {%- for args_name, args_value in tool_call.arguments | items %}
                {{- '<parameter=' + args_name + '>\\n' }}
                {%- set args_value = args_value | tojson | safe if args_value is mapping else args_value | string %}
                {{- args_value }}
                {{- '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>user\\n' }}{%- endif %}
        {{- '<tool_response>\\n' + message.content + '\\n</tool_response>\\n' }}
        {%- if not loop.last and loop.nextitem.role != "tool" %}{{- '<|im_end|>\\n' }}{%- elif loop.last %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
PARTS = """{%- macro text_of(content) %}
    {%- if content is string %}{{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for item in content %}
            {%- if 'text' in item %}{{- item.text }}{%- else %}{{- raise_exception('Unexpected item type in content.') }}{%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}{{- '' }}
    {%- else %}{{- raise_exception('Unexpected content type.') }}{%- endif %}
{%- endmacro %}
{%- if not messages or not messages | selectattr('role', 'equalto', 'user') | list %}{{- raise_exception('No user query found in messages.') }}{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'system' and not loop.first %}{{- raise_exception('System message must be at the beginning.') }}{%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + text_of(message.content) | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{- '<think>\\n' }}{%- endif %}
{%- endif %}
"""
NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}"
)
HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "a < b & \u65e5",
            "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
        },
    }
]
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":{"c":"<\u00e9>"}}'}}
TURNS = [
    *HELLO,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "2"},
    {"role": "tool", "content": "3"},
]


def test_hermes_form(template):
    t = template(HERMES)
    assert (
        t.render(HELLO)
        == "<|im_start|>system\nYou are a default.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert t.render(HELLO, add_generation_prompt=False).endswith("hello<|im_end|>\n")
    text = t.render([{"role": "system", "content": "S"}, *TURNS], tools=TOOLS)
    assert text == (
        '<|im_start|>system\nS\n<tools>\n{"type": "function", "function": {"name": "add", "description": "a < b & \u65e5", "parameters": '
        '{"type": "object", "properties": {"a": {"type": "number"}}}}}\n</tools><|im_end|>\n<|im_start|>user\nhello<|im_end|>\n'
        '<|im_start|>assistant\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": {"c": "<\u00e9>"}}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_thinking_form(template):
    t = template(THINKING)
    turns = [
        *HELLO,
        {"role": "assistant", "content": "<think>\nold\n</think>\n\nanswer"},
        {"role": "user", "content": "more"},
    ]
    assert t.render(turns) == (
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nanswer<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert t.render(HELLO, enable_thinking=False).endswith("assistant\n<think>\n\n</think>\n\n")
    assert t.render(HELLO, enable_thinking=True) == t.render(HELLO)
    assert t.render(HELLO, reasoning_effort="none") == t.render(HELLO, enable_thinking=False)
    kept = t.render(
        [*HELLO, {"role": "assistant", "content": "x", "reasoning_content": "why", "tool_calls": [CALL]}],
        add_generation_prompt=False,
    )
    assert "<think>\nwhy\n</think>\n\nx\n<tool_call>\n" in kept and '"arguments": {"a": 1, ' in kept
    with pytest.raises(TextError, match="enable_thinking: need true or false, not str"):
        t.render(HELLO, enable_thinking="false")


def test_xml_call_form(template):
    text = template(XML_CALLS).render(TURNS, tools=TOOLS)
    assert text == (
        '<function>\n<name>add</name>\n<description>a < b & \u65e5</description>\n<parameters>{"type": "object", "properties": {"a": {"type": "number"}}}'
        "</parameters>\n</function>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n"
        '<parameter=b>\n{"c": "<\u00e9>"}\n</parameter>\n</function>\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n2\n</tool_response>\n'
        "<tool_response>\n3\n</tool_response>\n<|im_end|>\n<|im_start|>assistant\n"
    )


def test_parts_form(template):
    t = template(PARTS)
    two = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert t.render(two) == "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n<think>\n"
    assert template(HERMES).render(two).count("user\na\nb<|im_end|>") == 1  # a template for strings gets one string
    for messages, words in (
        ([{"role": "system", "content": "s"}], "No user query found in messages."),
        ([*HELLO, {"role": "system", "content": "s"}], "System message must be at the beginning."),
    ):
        with pytest.raises(TextError) as caught:
            t.render(messages)
        assert str(caught.value) == f"chat template: {words}"


def test_chatml_where_the_file_has_none(template):
    t = template(None)
    assert t.source is None
    assert t.render([{"role": "developer", "content": "S"}, *HELLO]) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )
    with pytest.raises(TextError, match="tools: the model file has no chat template"):
        t.render(HELLO, tools=TOOLS)


def test_tool_use_variant(template):
    t = template("plain {{ messages[0].content }}", tool_use="tools {{ tools|length }} {{ messages[0].content }}")
    assert (
        t.render(HELLO) == "plain hello"
        and t.render(HELLO, tools=[]) == "plain hello"
        and t.render(HELLO, tools=TOOLS) == "tools 1 hello"
    )


def test_from_gguf(small, template):
    meta = small([("<|im_end|>", 3)], eos_token_id=258) | {
        "tokenizer.chat_template": "{{ eos_token }}|{{ bos_token }}|{{ messages[0].content }}"
    }
    from runtime.text import Tokenizer

    t = ChatTemplate.from_gguf(meta, Tokenizer.from_gguf(meta))
    assert t.render(HELLO) == "<|im_end|>||hello"
    t.close()
    assert t.render(HELLO) == "<|im_end|>||hello"  # a closed one starts again
    t.close()
    with pytest.raises(TextError, match="tokenizer.chat_template is not a string"):
        ChatTemplate.from_gguf({"tokenizer.chat_template": 5}, template.tokenizer())


def test_bos_is_not_doubled(template):
    source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    assert template(source, tokenizer=template.tokenizer("<s>", "</s>", True, True)).render(HELLO) == "hello"
    assert template(source, tokenizer=template.tokenizer("<s>", "</s>", False, False)).render(HELLO) == "<s>hello</s>"


def test_messages_are_made_ready(template):
    seen = template("{{ messages|tojson }}")
    given = [
        {"role": "developer", "content": "d"},
        {"role": "assistant"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": ""}}]},
    ]
    copy = [dict(m) for m in given]
    text = seen.render(given, tools=None)
    assert text == (
        '[{"role": "system", "content": "d"}, {"role": "assistant", "content": ""}, '
        '{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]'
    )
    assert given == copy
    kept = [*HELLO, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{broken"}}]}]
    assert '"arguments": "{broken"' in seen.render(kept)
    printed = template(
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}{% endfor %}{% endfor %}"
    )
    assert (
        printed.render([*HELLO, {"role": "assistant", "tool_calls": [CALL]}]) == "hello" + CALL["function"]["arguments"]
    )


def test_system_is_folded_where_unsupported(template):
    t = template(NO_SYSTEM)
    assert t.render([{"role": "system", "content": "S"}, *HELLO]) == "[user]S\nhello"
    assert t.render([{"role": "system", "content": "S"}]) == "[user]S"


BAD_MESSAGES = (
    ([], "at least one message"),
    ("x", "at least one message"),
    ([5], "messages[0]: need an object with a role"),
    ([{"content": "x"}], "need an object with a role"),
    ([{"role": "user", "content": 5}], "messages[0].content: need a string"),
    ([{"role": "user", "content": [{"type": "image_url"}]}], "'image_url' is no text part"),
    ([*HELLO, {"role": "user", "content": ["x"]}], "messages[1].content[0]"),
    ([{"role": "assistant", "tool_calls": 5}], "tool_calls: need a list"),
    ([{"role": "assistant", "tool_calls": [5]}], "tool_calls[0]: need an object"),
    ([{"role": "user", "content": "x", "name": {1, 2}}], "not plain JSON"),
)


def test_bad_messages(template):
    t = template(None)
    for messages, words in BAD_MESSAGES:
        with pytest.raises(TextError) as caught:
            t.render(messages)
        assert words in str(caught.value) and "\n" not in str(caught.value)


OFFERED = (
    ("{{ {'b': '<&>\u00e9', 'a': 1}|tojson }}", '{"b": "<&>\u00e9", "a": 1}'),
    ("{{ [1, {'k': 2}]|tojson(indent=2) }}", '[\n  1,\n  {\n    "k": 2\n  }\n]'),
    ("{{ {'b': 1, 'a': [1, 2]}|tojson(sort_keys=true, separators=(',', ':')) }}", '{"a":[1,2],"b":1}'),
    ("{{ '\u00e9'|tojson(ensure_ascii=true) }}", '"\\u00e9"'),
    (
        "{% for i in [1, 2, 3, 4] %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "13",
    ),
    ("{% generation %}in{% endgeneration %} out", "in out"),
    ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
    ("{{ strftime_now('%Y')|length }}", "4"),
    ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "1"),
    ("{{ date_string|length }}", "11"),
    (
        "{{ 'a,b'.split(',')|join('-') }}{{ ' x '.strip() }}{{ '%03d' % 7 }}{{ messages[0].get('none', 'd') }}",
        "a-bx007d",
    ),
    ("{{ undefined_thing }}|", "|"),
    ("{{ extra.deep[1] }}", "two"),
    ("{{ '<b>' }}{{ '<b>'|e }}", "<b>&lt;b&gt;"),
)


def test_what_templates_are_offered():
    process = TemplateProcess({source: source for source, _ in OFFERED}, seconds=20, characters=1 << 20)
    for source, text in OFFERED:
        assert process.render(source, {"messages": HELLO, "extra": {"deep": ["one", "two"]}}) == text
    process.close()


def test_long_conversations_pass(template):
    long = [{"role": ("user", "assistant")[n % 2], "content": "\u65e5\u672c " * 500} for n in range(200)]
    assert len(template(HERMES).render(long)) > 200 * 1500
