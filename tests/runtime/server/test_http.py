"""The bytes on the wire: event streams, errors, keys, limits, llama-server's routes, the page and the metrics."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import httpx
import pytest

from runtime.server.settings import Settings
from runtime.server.unserved import KINDS, UNSERVED
from tests.runtime.server.live import Live, events, until

VALUES = {"a boolean": True, "an integer": 5, "a number": 0.5, "a string": "x", "an array": ["x"], "an object": {"x": 1}}


@pytest.fixture(scope="module")
def live():
    with Live() as server:
        yield server


def error(response: httpx.Response, status: int) -> dict:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()["error"]
    assert {"message", "type", "param", "code"} <= body.keys() and body["code"] == status
    assert "\n" not in body["message"]
    return body


# event streams --------------------------------------------------------------------------------------------------------
def test_the_event_stream_of_a_chat(live):
    live.says("ab")
    response = live.chat(stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    *chunks, marker = events(response.text)
    assert marker == "[DONE]"
    first, *middle, last, usage = map(json.loads, chunks)  # tokens that were there together share a chunk
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": None}, "logprobs": None, "finish_reason": None}
    ]
    assert [chunk["choices"][0]["delta"] for chunk in middle] in ([{"content": "a"}, {"content": "b"}], [{"content": "ab"}])
    assert last["choices"][0]["delta"] == {} and last["choices"][0]["finish_reason"] == "stop"
    assert last["timings"]["predicted_n"] == 2 and last["timings"]["prompt_ms"] == 2.0
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 2


def test_half_characters_are_held_back():
    with Live(delay=0.03) as live:  # slow enough that every byte comes alone
        live.says("é👋")
        deltas = [json.loads(e)["choices"][0]["delta"] for e in events(live.chat(stream=True).text)[1:-2]]
        assert [delta["content"] for delta in deltas] == ["é", "👋"]


def test_a_character_that_is_never_completed(live):
    live.engine.script = lambda request: iter([*b"a\xf0\x9f"])
    assert live.chat().json()["choices"][0]["message"]["content"] == "a\ufffd"


def test_an_idle_stream_gets_comments():
    with Live(Settings(ping_s=0.05, watch_s=0.05), delay=0.2) as live:
        live.says("ab")
        text = live.chat(stream=True).text
        assert ": waiting\n\n" in text and text.endswith("data: [DONE]\n\n")


# stop strings ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("stream", [False, True])
def test_stop_strings_across_tokens(live, stream):
    live.says_tokens("Hello", " world", "ST", "OP", " a", "<|im_end|>")
    response = live.chat(stop=["never", "ldSTO"], stream=stream)
    if stream:
        chunks = [json.loads(e) for e in events(response.text)[:-1]]
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
        reason, made = chunks[-1]["choices"][0]["finish_reason"], chunks[-1]["timings"]["predicted_n"]
    else:
        choice = response.json()["choices"][0]
        text, reason, made = choice["message"]["content"], choice["finish_reason"], response.json()["usage"]["completion_tokens"]
    assert (text, reason, made) == ("Hello wor", "stop", 4)
    with until() as late:  # the engine is told
        while live.engine.streams[-1].finish is None:
            late()


def test_a_partial_stop_at_the_end_is_text(live):
    live.says("abc ST")
    assert live.chat(stop="STOP").json()["choices"][0]["message"]["content"] == "abc ST"


# errors ---------------------------------------------------------------------------------------------------------------
def test_unknown_routes_and_methods(live):
    assert error(live.http.get("/v1/nothing"), 404)["type"] == "not_found_error"
    assert "POST" in live.http.get("/v1/completions").headers["allow"]
    error(live.http.get("/v1/completions"), 405)
    error(live.http.post("/health"), 405)


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '"x"', '{"messages": NaN}', "\xff", '"\\ud800"', "[" * 5000])
def test_bodies_that_are_no_json_object(live, body):
    error(live.http.post("/v1/chat/completions", content=body.encode("latin-1")), 400)


@pytest.mark.parametrize(
    "field, value",
    [
        ("messages", None),
        ("messages", []),
        ("messages", "hi"),
        ("messages[0]", ["hi"]),
        ("messages[0].role", [{"content": "x"}]),
        ("messages[0].role", [{"role": 1, "content": "x"}]),
        ("messages[0].role", [{"role": "king", "content": "x"}]),
        ("messages[0].content", [{"role": "user"}]),
        ("messages[0].content", [{"role": "user", "content": 1}]),
        ("messages[0].content[0]", [{"role": "user", "content": ["x"]}]),
        ("messages[0].content[0].text", [{"role": "user", "content": [{"type": "text"}]}]),
        ("messages[0].tool_calls[0].function", [{"role": "assistant", "content": "", "tool_calls": [{}]}]),
        ("messages", [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]),
        ("tools", "add"),
        ("tools[0].function", [{"type": "function"}]),
        ("tools[0].function.name", [{"type": "function", "function": {}}]),
        ("tool_choice", "sometimes"),
        ("model", 5),
        ("stream", "yes"),
        ("stream_options", []),
        ("stream_options.include_usage", {"include_usage": 1}),
        ("max_tokens", "10"),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("max_tokens", -2),
        ("n_predict", -5),
        ("temperature", "hot"),
        ("temperature", []),
        ("top_p", 2),
        ("min_p", -1),
        ("top_k", 0.5),
        ("seed", "x"),
        ("seed", -7),
        ("seed", 1 << 63),
        ("stop", 5),
        ("stop[1]", ["a", None]),
        ("stop", ["x"] * 65),
        ("cache_prompt", 1),
        ("reasoning_format", "strange"),
        ("reasoning_effort", 3),
        ("parallel_tool_calls", "no"),
        ("chat_template_kwargs", []),
        ("chat_template_kwargs.enable_thinking", {"enable_thinking": "false"}),
        ("chat_template_kwargs.messages", {"messages": []}),
    ],
)
def test_a_wrong_type_or_value_names_the_field(live, field, value):
    name = re.split(r"[.\[]", field)[0]
    body = {"messages": [{"role": "user", "content": "x"}]} | {name: value}
    assert error(live.http.post("/v1/chat/completions", json=body), 400)["param"] == field


def test_two_limits_that_differ(live):
    assert error(live.chat(max_tokens=5, max_completion_tokens=6), 400)["param"] == "max_tokens"
    assert live.chat(max_tokens=5, max_completion_tokens=5).status_code == 200


@pytest.mark.parametrize("row", UNSERVED, ids=lambda row: row.name)
def test_fields_that_are_not_served_are_refused_unless_neutral(live, row):
    live.says("ok")
    body = error(live.chat(**{row.name: VALUES[re.split(" or ", row.kind)[0]]}), 501)
    assert body["param"] == row.name and body["type"] == "not_supported_error"
    for neutral in (None, *row.neutral):
        assert live.chat(**{row.name: neutral}).status_code == 200
    wrong = [value for kind, value in VALUES.items() if kind not in row.kind and (kind, row.kind) != ("an integer", "a number")]
    for value in wrong:
        assert error(live.chat(**{row.name: value}), 400)["param"] == row.name


def test_every_kind_of_the_table_is_used():
    assert {row.kind for row in UNSERVED} == set(KINDS)
    assert len({row.name for row in UNSERVED}) == len(UNSERVED)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "add"}}])
def test_forced_calls_are_refused(live, choice):
    assert error(live.chat(tool_choice=choice), 501)["param"] == "tool_choice"


def test_parts_that_are_no_text_are_refused(live):
    content = [{"type": "image_url", "image_url": {"url": "data:"}}]
    body = {"messages": [{"role": "user", "content": content}]}
    assert error(live.http.post("/v1/chat/completions", json=body), 501)["param"] == "messages[0].content[0].type"


def test_unknown_fields_are_ignored(live):
    live.says("ok")
    assert live.chat(user="me", metadata={"a": "b"}, never_heard_of=[1]).status_code == 200


def test_a_prefill_cannot_go_into_an_open_thought(live):
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    body = {"messages": messages, "chat_template_kwargs": {"think": True}}
    assert "enable_thinking" in error(live.http.post("/v1/chat/completions", json=body), 400)["message"]


@pytest.mark.parametrize("prompt", [None, 5, {}, True, [], "", [1.5], [None], [[1], 2], [-1], [100_000], ["a", "b"], [[1], [2]]])
def test_prompts_that_are_none(live, prompt):
    batch = prompt in (["a", "b"], [[1], [2]])
    for path in ("/v1/completions", "/completion"):
        assert error(live.http.post(path, json={"prompt": prompt}), 501 if batch else 400)["param"].startswith("prompt")


@pytest.mark.parametrize("prompt, ids", [("ab", [97, 98]), (["ab"], [97, 98]), ([97, 98], [97, 98]), ([97, "b"], [97, 98]), ([[97]], [97])])
def test_prompts_of_every_form(live, prompt, ids):
    live.says("c")
    assert live.http.post("/v1/completions", json={"prompt": prompt}).json()["choices"][0]["text"] == "c"
    assert live.engine.requests[-1].prompt == ids


def test_body_size():
    with Live(Settings(max_body=1000, watch_s=0.05)) as live:
        live.says("ok")
        assert error(live.chat("x" * 2000), 413)["type"] == "invalid_request_error"

        def pieces():
            for _ in range(10):
                yield b" " * 200

        error(live.http.post("/v1/chat/completions", content=pieces()), 413)
        assert live.chat("x").status_code == 200


# keys -----------------------------------------------------------------------------------------------------------------
def test_api_keys():
    with Live(Settings(api_keys=("secret", "zweiter-schlüssel"), watch_s=0.05)) as live:
        live.says("ok")
        for path in ("/health", "/v1/health", "/"):
            assert live.http.get(path).status_code == 200
        for path in ("/v1/models", "/props", "/metrics", "/nothing"):
            assert error(live.http.get(path), 401)["type"] == "authentication_error"
        for header in ({"Authorization": "Bearer wrong"}, {"Authorization": "secret"}, {"X-Api-Key": "secre"}, {"X-Api-Key": ""}):
            error(live.http.get("/v1/models", headers=header), 401)
        for header in ({"Authorization": "Bearer secret"}, {"authorization": "bearer secret"}, {"X-Api-Key": "secret"}):
            assert live.http.get("/v1/models", headers=header).status_code == 200
        umlaut = [(b"X-Api-Key", "zweiter-schlüssel".encode())]
        assert live.http.get("/v1/models", headers=umlaut).status_code == 200


# llama-server's routes ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "script, fields, stop_type, word",
    [("a\nb", {}, "eos", ""), ("abcd", {"n_predict": 2}, "limit", ""), ("abXcd", {"stop": ["X"]}, "word", "X")],
)
def test_native_completion(live, script, fields, stop_type, word):
    live.says(script)
    ask = {"prompt": "P", "return_tokens": True, "seed": 3} | fields
    whole = live.http.post("/completion", json=ask).json()
    text = script.split("X")[0] if word else script[:2] if stop_type == "limit" else script
    assert (whole["content"], whole["stop"], whole["stop_type"], whole["stopping_word"]) == (text, True, stop_type, word)
    assert whole["tokens"] == list((text + word).encode()) and whole["tokens_predicted"] == len(whole["tokens"])
    assert whole["tokens_evaluated"] == 1 and whole["prompt"] == "P" and whole["truncated"] is False
    assert whole["has_new_line"] is ("\n" in text) and whole["generation_settings"]["seed"] == 3
    chunks = [json.loads(e) for e in events(live.http.post("/completion", json=ask | {"stream": True}).text)]
    assert "".join(chunk["content"] for chunk in chunks) == text
    assert [token for chunk in chunks for token in chunk["tokens"]] == whole["tokens"]
    assert [chunk["stop"] for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1]["stop_type"] == stop_type and "timings" in chunks[-1]


def test_the_end_of_the_context(live):
    live.says("x" * 600)
    whole = live.http.post("/completion", json={"prompt": "y" * 500}).json()
    assert (whole["tokens_predicted"], whole["truncated"], whole["stop_type"]) == (12, True, "limit")


def test_nothing_is_made_when_nothing_is_asked(live):
    live.says("abc")
    whole = live.http.post("/completion", json={"prompt": "y", "n_predict": 0}).json()
    assert (whole["content"], whole["tokens_predicted"], whole["stop_type"]) == ("", 0, "limit")


def test_tokenize_and_back(live):
    post = live.http.post
    text = "a<|im_end|>é"
    ids = post("/tokenize", json={"content": text}).json()["tokens"]
    assert ids == live.tokenizer.encode(text) and post("/detokenize", json={"tokens": ids}).json() == {"content": text}
    raw = post("/tokenize", json={"content": text, "parse_special": False}).json()["tokens"]
    assert raw == list(text.encode())
    pieces = post("/tokenize", json={"content": "aé", "with_pieces": True}).json()["tokens"]
    assert pieces == [{"id": 97, "piece": "a"}, {"id": 0xC3, "piece": [0xC3]}, {"id": 0xA9, "piece": [0xA9]}]
    assert error(post("/tokenize", json={}), 400)["param"] == "content"
    for tokens in ([1.5], [True], [-1], [100_000], "x", None):
        assert error(post("/detokenize", json={"tokens": tokens}), 400)["param"].startswith("tokens")


def test_apply_template(live):
    body = {"messages": [{"role": "user", "content": "x"}]}
    prompt = live.http.post("/apply-template", json=body).json()["prompt"]
    assert prompt == "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"
    prompt = live.http.post("/apply-template", json=body | {"add_generation_prompt": False}).json()["prompt"]
    assert prompt == "<|im_start|>user\nx<|im_end|>\n"



def test_props_and_health(live):
    props = live.http.get("/props").json()
    assert props["n_ctx"] == props["default_generation_settings"]["n_ctx"] == 512
    assert props["chat_template"] == "{# ChatML #}" and props["eos_token"] == "<|im_end|>" and props["total_slots"] == 1
    for path in ("/health", "/v1/health"):
        assert live.http.get(path).json() == {"status": "ok"}
    assert live.http.head("/health").status_code == 200


# page and metrics -----------------------------------------------------------------------------------------------------
def test_the_page_is_self_contained_and_its_policy_fits_it(live):
    response = live.http.get("/")
    text, policy = response.text, response.headers["content-security-policy"]
    assert response.headers["content-type"].startswith("text/html") and "default-src 'none'" in policy
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
    for tag in ("script", "style"):
        (inline,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    controls = re.findall(r'<(?:input|textarea|select) id="(\w+)"', text)
    assert controls and all(f'<label for="{name}">' in text for name in controls)
    assert "innerHTML" not in text and ' style="' not in text and " onclick" not in text


def test_metrics(live):
    live.says("abc")

    def number(name: str) -> float:
        return float(re.search(rf"^{re.escape(name)} (\S+)$", live.http.get("/metrics").text, re.MULTILINE)[1])

    before = number("runtime_completion_tokens_total")
    assert live.chat().status_code == 200
    assert number("runtime_completion_tokens_total") == before + 3
    assert number('runtime_requests_total{route="/v1/chat/completions",status="200"}') >= 1
    assert number('runtime_answers_total{finish="stop"}') >= 1
    live.http.get("/some/probe")
    assert number('runtime_requests_total{route="other",status="404"}') >= 1
    assert number("runtime_up") == 1 and number("runtime_engine_tokens_made") > 0
