"""Reasoning and tool calls in raw text: the same result wherever the text is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.server.reply import TAGS, BadCall, ReplyParser, parse_call

CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'


def parse(text: str, cuts=(), **options) -> list[tuple[str, str]]:
    """[(kind, text)], neighbours of one kind joined; a call as "name arguments"."""
    parser, deltas, at = ReplyParser(**options), [], 0
    for cut in [*sorted(cuts), len(text)]:
        deltas += parser.push(text[at:cut])
        at = max(at, cut)
    out: list[list[str]] = []
    for delta in deltas + parser.finish():
        shown = delta.text if delta.call is None else f"{delta.call.name} {delta.call.arguments}"
        if out and delta.kind != "call" and out[-1][0] == delta.kind:
            out[-1][1] += shown
        else:
            out.append([delta.kind, shown])
    return [tuple(one) for one in out]


@pytest.mark.parametrize(
    "text, options, wanted",
    [
        ("plain  text \n", {}, [("content", "plain  text \n")]),
        ("  lead", {}, [("content", "  lead")]),
        ("", {}, []),
        ("<think>\na\n\nb\n</think>\n\n c", {}, [("reasoning", "a\n\nb"), ("content", "c")]),
        ("a </think> b", {"opened": True}, [("reasoning", "a"), ("content", "b")]),
        ("never closed ", {"opened": True}, [("reasoning", "never closed")]),
        ("<think></think>x", {}, [("content", "x")]),
        ("<think>a</think>x", {"reasoning": False}, [("content", "<think>a</think>x")]),
        ("<think>a</think>x", {"reasoning": False, "opened": True}, [("content", "<think>a</think>x")]),
        ("not first <think>a</think>", {}, [("content", "not first <think>a</think>")]),
        ("<thin", {}, [("content", "<thin")]),
        (CALL, {}, [("content", CALL)]),
        (CALL, {"tools": True}, [("call", 'f {"x": 1}')]),
        (f"Yes.\n\n{CALL}\n{CALL}\n", {"tools": True}, [("content", "Yes."), *[("call", 'f {"x": 1}')] * 2]),
        (f"{CALL}\n then", {"tools": True}, [("call", 'f {"x": 1}'), ("content", "then")]),
        (f"<think>\n{CALL}</think>{CALL}", {"tools": True}, [("reasoning", CALL), ("call", 'f {"x": 1}')]),
        (CALL.removesuffix("</tool_call>"), {"tools": True}, [("call", 'f {"x": 1}')]),
        ("a <tool_call>{bad}</tool_call> b", {"tools": True}, [("content", "a <tool_call>{bad}</tool_call> b")]),
        ('<tool_call>{"name": "f"', {"tools": True}, [("content", '<tool_call>{"name": "f"')]),
        ("a\n<tool", {"tools": True}, [("content", "a\n<tool")]),
        ("a\n", {"tools": True}, [("content", "a\n")]),
        (
            '<tool_call>{"name": "f", "arguments": {"t": "</tool_call>"}}</tool_call>',
            {"tools": True},
            [("call", 'f {"t": "</tool_call>"}')],
        ),
    ],
)
def test_replies(text, options, wanted):
    assert parse(text, **options) == wanted
    assert parse(text, range(len(text)), **options) == wanted


PIECES = st.sampled_from([*TAGS, CALL, "<tool_call>{}</tool_call>", '{"name": "', '"', "<", "a", " ", "\n", "é"])


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(PIECES, max_size=10),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    options=st.fixed_dictionaries({name: st.booleans() for name in ("tools", "reasoning", "opened")}),
)
def test_any_cutting_gives_one_result(pieces, cuts, options):
    text = "".join(pieces)
    whole = parse(text, **options)
    assert parse(text, [min(cut, len(text)) for cut in cuts], **options) == whole
    if not options["reasoning"] and not any(kind == "call" for kind, _ in whole):
        assert "".join(shown for _, shown in whole) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"name": 1}',
        '{"name": ""}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "no json"}',
        '{"name": "f", "arguments": {"x": NaN}}',
        '{"name": "f", "arguments": {}} more',
        '{"name": "f", "arguments": {"x": "\\ud800"}}',
        "[" * 100_000,
    ],
)
def test_malformed_calls(text):
    with pytest.raises(BadCall):
        parse_call(text)


def test_arguments_given_as_text_are_read():
    call = parse_call('{"name": "f", "arguments": "{\\"x\\": 12345678901234567890123}"}')
    assert json.loads(call.arguments) == {"x": 12345678901234567890123} and call.id.startswith("call_")
