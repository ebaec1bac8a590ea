"""The embedded model's data: the generator repeats itself, train and test are disjoint, answers are right, and the
committed files are what they say. No torch."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import re
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import gguf
import jinja2.sandbox
import numpy as np
import pytest

from runtime.data import TINY_QWEN3
from scripts.tiny import chat, generate
from scripts.tiny.families import FAMILIES, calendar
from scripts.tiny.split import has_held_number, is_test_key, normalise, number_is_held, word_is_held

DATA = Path(__file__).resolve().parent.parent / "data"
QUESTIONS = DATA / "tiny_questions.jsonl"
ORACLE = DATA / "tiny_qwen3_oracle.npz"
STREAM_DIGEST = "d469c9c253f878a08ec6a648196cf2d2f915ce12e4fdda9363bbf454d72b265b"


def _take(plain: int, tools: int, shard: int = 0) -> list[generate.Item]:
    streams = generate.train_stream(shard)
    return [*itertools.islice(streams[0], plain), *itertools.islice(streams[1], tools)]


@pytest.fixture(scope="module")
def training() -> list[generate.Item]:
    return [*_take(3000, 700), *_take(3000, 700, shard=77)]


@pytest.fixture(scope="module")
def tests() -> list[generate.Item]:
    return generate.test_items()


@pytest.fixture(scope="module")
def fields() -> dict:
    reader = gguf.GGUFReader(TINY_QWEN3)
    return {name: field.contents() for name, field in reader.fields.items()} | {"tensors": reader.tensors}


def test_the_stream_repeats_itself_in_every_process_and_python():
    text = "".join(generate.to_line(item) + "\n" for item in _take(400, 100))
    assert hashlib.sha256(text.encode()).hexdigest() == STREAM_DIGEST


def test_the_committed_questions_are_the_generated_ones(tests):
    assert QUESTIONS.read_text(encoding="utf-8") == "".join(generate.to_line(item) + "\n" for item in tests)


def test_a_thousand_different_questions_over_all_families(tests):
    assert len(tests) == 1000
    assert len({generate.question_hash(item) for item in tests}) == 1000
    counts = Counter(item.family for item in tests)
    assert set(counts) == set(FAMILIES)
    assert min(counts.values()) >= 90


def _has_result(item: generate.Item) -> bool:
    return any(m["role"] == "tool" for m in item.messages)


def test_no_training_item_is_a_test_question(training, tests):
    # a tool's result is part of what is asked, and stands outside the user's words
    asked = {normalise(item.question) for item in tests if not _has_result(item)}
    keys = {item.key for item in tests}
    with_result = {generate.question_hash(item) for item in tests}
    for item in training:
        assert not is_test_key(item.key)
        assert item.key not in keys
        assert generate.question_hash(item) not in with_result
        assert _has_result(item) or normalise(item.question) not in asked
    assert all(is_test_key(item.key) for item in tests)


def _held(operand: str) -> bool:
    return number_is_held(operand) if operand.isdigit() else word_is_held(operand)


def test_at_least_three_in_ten_test_operands_occur_in_no_training_item(training, tests):
    operands = [operand.lower() for item in tests for operand in item.operands]
    unseen = [operand for operand in operands if _held(operand)]
    assert len(unseen) >= 0.3 * len(operands)
    read = set().union(*(generate.text_operands(generate.item_text(item)) for item in training))
    assert not read & set(unseen)
    assert not any(has_held_number(generate.item_text(item)) for item in training)
    # the control: operands that are not held out do occur, so the look-up above can find something
    assert read & {operand for operand in operands if not _held(operand)}


def _value(node: ast.AST) -> int:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand)
    left, right = _value(node.left), _value(node.right)
    return {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}[type(node.op)]


def test_equations_in_answers_hold(training, tests):
    checked = 0
    for item in [*training, *tests]:
        for chain in re.findall(r"[\d +*=-]*=[\d +*=-]+\d", item.answer):
            values = {_value(ast.parse(side.strip(), mode="eval").body) for side in chain.split("=")}
            assert len(values) == 1, item
            checked += 1
    assert checked > 1000


def test_sorted_and_spelled_answers_are_right(training, tests):
    for item in [*training, *tests]:
        if item.family in ("sort_numbers", "sort_words"):
            listed = item.answer.removeprefix("Sorted: ").removesuffix(".").split(", ")
            values = [int(v) for v in listed] if item.family == "sort_numbers" else listed
            assert values in (sorted(values), sorted(values, reverse=True))
            assert Counter(listed) == Counter(item.operands)
        elif match := re.search(r"The word (\w+) is spelled ([a-z-]+)(?:: (\d+) letters|, backwards ([a-z-]+))?",
                                item.answer):
            word, letters, count, backwards = match.groups()
            assert letters.split("-") == list(word)
            assert count is None or int(count) == len(word)
            assert backwards is None or backwards.split("-") == list(reversed(word))


def _parse(text: str) -> date:
    day, month, year = text.split()
    return date(int(year), calendar.MONTHS.index(month) + 1, int(day))


def test_dates_in_answers_are_right(training, tests):
    seen = Counter()
    for item in [*training, *tests]:
        if match := re.match(r"The day (after|before) (\d+ \w+ \d+) is (\d+ \w+ \d+)\.", item.answer):
            assert _parse(match[3]) - _parse(match[2]) == timedelta(days=1 if match[1] == "after" else -1)
            seen["day"] += 1
        elif match := re.search(r"(\d+) days? (after|before) (\w+) is (\w+)\.$", item.answer):
            steps = int(re.search(r"\d+", item.question)[0]) * (1 if match[2] == "after" else -1)
            start = calendar.WEEKDAYS.index(match[3])
            assert calendar.WEEKDAYS[(start + steps) % 7] == match[4]
            seen["weekday"] += 1
    assert min(seen["day"], seen["weekday"]) > 50


def _template(source: str) -> jinja2.Template:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(source)


def test_the_template_in_the_file_renders_as_training_did(fields, training):
    source = fields["tokenizer.chat_template"]
    assert source == chat.CHAT_TEMPLATE
    template = _template(source)
    records = [(list(item.messages), list(item.tools)) for item in training if item.opening or len(item.messages) > 1]
    assert any(tools for _, tools in records) and any(m[0]["role"] == "system" for m, _ in records)
    for messages, tools in records[:1500]:
        rendered = template.render(messages=messages, tools=tools, add_generation_prompt=True)
        assert rendered == chat.render(messages, tools)


def test_the_model_file_is_a_small_qwen3_in_q8_0(fields):
    assert TINY_QWEN3.stat().st_size <= 8_000_000
    assert fields["general.architecture"] == "qwen3"
    assert fields["tokenizer.ggml.pre"] == "qwen2"
    assert 2048 <= len(fields["tokenizer.ggml.tokens"]) <= 4096
    weights = 0
    for tensor in fields["tensors"]:
        weights += int(np.prod(tensor.shape))
        kind = gguf.GGMLQuantizationType.Q8_0 if len(tensor.shape) == 2 else gguf.GGMLQuantizationType.F32
        assert tensor.tensor_type == kind, tensor.name
        assert len(tensor.shape) == 1 or tensor.shape[0] % 256 == 0, tensor.name
    assert 4e6 <= weights <= 7e6


def test_special_tokens_have_the_types_of_qwen(fields):
    kinds = dict(zip(fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"], strict=True))
    for name, control in chat.SPECIAL_TOKENS:
        assert kinds[name] == (gguf.TokenType.CONTROL if control else gguf.TokenType.USER_DEFINED), name
    assert Counter(kinds.values())[gguf.TokenType.NORMAL] == len(kinds) - len(chat.SPECIAL_TOKENS)
    assert fields["tokenizer.ggml.tokens"][fields["tokenizer.ggml.eos_token_id"]] == chat.IM_END


def test_the_oracle_agrees_with_itself():
    assert ORACLE.stat().st_size <= 4_000_000
    with np.load(ORACLE) as oracle:
        logits, greedy, margins, starts = (oracle[name] for name in ("logits", "greedy", "margins", "starts"))
        assert logits.shape[0] == len(starts) - 1 == len(greedy) == 200
        assert starts[-1] == len(oracle["ids"])
    lengths = np.diff(starts)
    assert lengths.min() <= 12 and lengths.max() >= 250
    assert (logits.argmax(1) == greedy[:, 0]).all()
    top = np.sort(logits, 1)
    assert np.allclose(top[:, -1] - top[:, -2], margins[:, 0], atol=1e-4)
    assert margins[greedy >= 0].min() >= 0.5
