"""OpenAI's own Python client against a live server: what a user's script sees."""

from __future__ import annotations

import json

import openai
import pytest

from tests.runtime.server.live import Live

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture(scope="module")
def live():
    with Live() as server:
        yield server


@pytest.fixture(scope="module")
def client(live):
    with openai.OpenAI(base_url=live.url + "/v1", api_key="unused", max_retries=0, timeout=20) as client:
        client.models.list()
        yield client


def ask(client, text="hi", **kwargs):
    return client.chat.completions.create(model="any", messages=[{"role": "user", "content": text}], **kwargs)


def test_models(client):
    assert [model.id for model in client.models.list()] == ["fake"]


def test_a_chat_answer(live, client):
    live.says("4 is the sum.")
    answer = ask(client, "2+2")
    assert answer.object == "chat.completion" and answer.model == "fake" and answer.id.startswith("chatcmpl-")
    choice = answer.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "4 is the sum.", "stop")
    prompt = "<|im_start|>user\n2+2<|im_end|>\n<|im_start|>assistant\n"
    assert live.engine.requests[-1].prompt == live.tokenizer.encode(prompt)
    usage = answer.usage
    assert usage.prompt_tokens == len(live.tokenizer.encode(prompt)) and usage.completion_tokens == 13
    assert usage.total_tokens == usage.prompt_tokens + 13 and usage.prompt_tokens_details.cached_tokens == 1


def test_a_streamed_chat_answer_is_the_whole_one(live, client):
    live.says("Grüße, 世界! 👋")
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    first, *middle, last, usage = chunks
    assert first.choices[0].delta.role == "assistant" and first.choices[0].delta.content is None
    assert "".join(chunk.choices[0].delta.content for chunk in middle) == "Grüße, 世界! 👋"
    assert all(chunk.choices[0].finish_reason is None for chunk in (first, *middle))
    assert last.choices[0].finish_reason == "stop" and last.choices[0].delta.content is None
    assert usage.choices == [] and usage.usage.completion_tokens == len("Grüße, 世界! 👋".encode())
    assert {chunk.id for chunk in chunks} == {first.id} and {chunk.object for chunk in chunks} == {first.object}


def test_no_usage_chunk_unless_asked(live, client):
    live.says("ok")
    assert all(chunk.choices for chunk in ask(client, stream=True))


def test_text_completions(live, client):
    live.says("B C")
    answer = client.completions.create(model="any", prompt="A ", max_tokens=10)
    assert (answer.object, answer.choices[0].text, answer.choices[0].finish_reason) == ("text_completion", "B C", "stop")
    assert live.engine.requests[-1].prompt == list(b"A ") and live.engine.requests[-1].max_tokens == 10
    chunks = list(client.completions.create(model="any", prompt="A ", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "B C"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]


def test_length(live, client):
    live.says("abcdefghij")
    answer = ask(client, max_completion_tokens=4)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("abcd", "length")


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls(live, client, stream):
    first = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "zwei ü"}}\n</tool_call>'
    live.says(f'Adding.\n{first}\n<tool_call>{{"name": "add", "arguments": {{}}}}</tool_call>')
    answer = ask(client, tools=TOOLS, stream=stream)
    if stream:
        deltas = [chunk.choices[0] for chunk in answer]
        assert "".join(d.delta.content or "" for d in deltas) == "Adding."
        calls = [call for d in deltas for call in d.delta.tool_calls or ()]
        assert [call.index for call in calls] == [0, 1]
        finish = deltas[-1].finish_reason
    else:
        assert answer.choices[0].message.content == "Adding."
        calls, finish = answer.choices[0].message.tool_calls, answer.choices[0].finish_reason
    assert finish == "tool_calls" and all(call.type == "function" for call in calls)
    assert len({call.id for call in calls}) == 2
    assert [call.function.name for call in calls] == ["add", "add"]
    assert [json.loads(call.function.arguments) for call in calls] == [{"a": 1, "b": "zwei ü"}, {}]
    assert live.template.seen[-1]["tools"] == TOOLS


@pytest.mark.parametrize("stream", [False, True])
def test_a_malformed_call_is_content(live, client, stream):
    live.says('<tool_call>\n{"name": add}\n</tool_call>')
    answer = ask(client, tools=TOOLS, stream=stream)
    if stream:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in answer)
    else:
        assert answer.choices[0].message.tool_calls is None and answer.choices[0].finish_reason == "stop"
        text = answer.choices[0].message.content
    assert text == '<tool_call>\n{"name": add}\n</tool_call>'


def test_one_call_only(live, client):
    live.says('<tool_call>{"name": "add", "arguments": {}}</tool_call>' * 3)
    answer = ask(client, tools=TOOLS, parallel_tool_calls=False)
    assert len(answer.choices[0].message.tool_calls) == 1 and answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None


def test_tools_are_left_out_with_tool_choice_none(live, client):
    live.says('<tool_call>{"name": "add", "arguments": {}}</tool_call>')
    answer = ask(client, tools=TOOLS, tool_choice="none")
    assert live.template.seen[-1]["tools"] is None
    assert answer.choices[0].message.content.startswith("<tool_call>")


def test_a_tool_conversation_reaches_the_template_as_it_is(live, client):
    live.says("3")
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief"}]},
        {"role": "user", "content": "1+2"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]
    client.chat.completions.create(model="any", messages=messages, tools=TOOLS)
    messages[2]["content"] = ""
    assert live.template.seen[-1]["messages"] == messages and live.template.seen[-1]["tools"] == TOOLS


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("opened", [False, True])
def test_reasoning(live, client, stream, opened):
    live.says(("" if opened else "<think>\n") + "2 and 2\n</think>\n\nIt is 4.")
    answer = ask(client, stream=stream, extra_body={"chat_template_kwargs": {"think": opened}})
    if stream:
        deltas = [chunk.choices[0].delta for chunk in answer]
        reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
        content = "".join(delta.content or "" for delta in deltas)
    else:
        reasoning, content = answer.choices[0].message.reasoning_content, answer.choices[0].message.content
    assert (reasoning, content) == ("2 and 2", "It is 4.")


def test_raw_reasoning(live, client):
    live.says("<think>\nhm\n</think>\n\n4")
    answer = ask(client, extra_body={"reasoning_format": "none"})
    assert answer.choices[0].message.content == "<think>\nhm\n</think>\n\n4"


def test_a_trailing_assistant_message_is_continued(live, client):
    live.says("def")
    messages = [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "ab"}]
    client.chat.completions.create(model="any", messages=messages)
    wanted = "<|im_start|>user\nabc<|im_end|>\n<|im_start|>assistant\nab"
    assert live.engine.requests[-1].prompt == live.tokenizer.encode(wanted)


def test_sampling_and_seed_reach_the_engine(live, client):
    live.says("ok")
    extra = {"top_k": 7, "min_p": 0.1}
    answer = ask(client, temperature=0.5, top_p=0.75, seed=42, extra_body=extra)
    sampling = live.engine.requests[-1].sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p, sampling.seed) == (0.5, 0.75, 7, 0.1, 42)
    assert answer.timings["seed"] == 42
    assert ask(client).timings["seed"] == live.engine.streams[-1].seed >= 0


def test_errors_are_the_clients_own_types(live, client):
    with pytest.raises(openai.BadRequestError, match="temperature") as caught:
        ask(client, temperature="hot")
    assert caught.value.param == "temperature" and caught.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError, match="no user query found"):
        ask(client, "refuse")
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, "x" * 600)
    assert caught.value.type == "exceed_context_size_error" and caught.value.body["n_ctx"] == 512
    prompt = live.template.render([{"role": "user", "content": "x" * 600}])
    assert caught.value.body["n_prompt_tokens"] == len(live.tokenizer.encode(prompt))


def test_an_error_in_the_middle_of_a_stream_is_raised():
    with Live() as live, openai.OpenAI(base_url=live.url + "/v1", api_key="k", max_retries=0) as client:
        live.engine.die_after = 3
        got = []
        with pytest.raises(openai.APIError, match="device lost"):
            for chunk in ask(client, stream=True):
                got.append(chunk.choices[0].delta.content or "")
        assert len("".join(got)) == 3
