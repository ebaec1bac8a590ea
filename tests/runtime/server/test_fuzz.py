"""Bodies of every shape: the server answers with JSON, never with a 500, and is healthy afterwards."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.gguf import open_gguf
from runtime.server.launch import TINY_MODEL
from runtime.server.unserved import UNSERVED
from runtime.text import ChatTemplate, Tokenizer
from tests.runtime.server.live import Live

ROUTES = ("/v1/chat/completions", "/v1/completions", "/completion", "/tokenize", "/detokenize", "/apply-template")
FIELDS = """messages prompt content tokens tools tool_choice stop stream stream_options max_tokens max_completion_tokens n_predict
temperature top_p top_k min_p seed model cache_prompt reasoning_format reasoning_effort parallel_tool_calls chat_template_kwargs
add_generation_prompt return_tokens add_special parse_special with_pieces""".split() + [row.name for row in UNSERVED]
WORDS = "role content user assistant tool system type text function name arguments tool_calls self enable_thinking hi refuse".split()

texts = st.one_of(st.sampled_from(WORDS), st.text(max_size=8))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.integers(), st.floats(), texts, st.sampled_from([1e308, -1, 0, "<think>"])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=10,
)
part = st.fixed_dictionaries({"type": st.just("text"), "text": texts})
call = st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": texts}, optional={"arguments": values})})
message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool"])},
    optional={"content": st.one_of(texts, st.lists(part, max_size=2), values), "tool_calls": st.lists(call, max_size=2)},
)
bodies = st.one_of(
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=5),
    st.fixed_dictionaries(
        {"messages": st.lists(message, min_size=1, max_size=3), "prompt": texts, "content": texts},
        optional={name: values for name in ("tools", "stop", "stream", "max_tokens", "seed", "chat_template_kwargs", "top_k")},
    ),
)


@pytest.fixture(scope="module")
def live():
    with Live() as server:
        server.says("<think>a</think>b<tool_call>{}</tool_call>")
        yield server


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(route=st.sampled_from(ROUTES), body=bodies)
def test_json_bodies(live, route, body):
    check(live, route, json.dumps(body).encode())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(route=st.sampled_from(ROUTES), body=st.one_of(st.binary(max_size=40), bodies.map(lambda b: json.dumps(b)[:-1].encode())))
def test_broken_bodies(live, route, body):
    check(live, route, body)


def test_message_bodies_through_a_real_template():
    """The embedded model's own tokenizer and template; the engine stays a fake."""
    with open_gguf(TINY_MODEL) as gguf:
        tokenizer = Tokenizer.from_gguf(gguf)
        template = ChatTemplate.from_gguf(gguf, tokenizer)

    @settings(max_examples=30, deadline=None)
    @given(body=bodies.filter(lambda body: "messages" in body))
    def run(body):
        check(real, "/v1/chat/completions", json.dumps(body).encode())

    with Live(text=(tokenizer, template), n_ctx=4096) as real:
        real.says("<tool_call>\n{}")
        assert real.chat().json()["choices"][0]["message"]["content"] == "<tool_call>\n{}"
        run()
    template.close()


def check(live: Live, route: str, body: bytes) -> None:
    response = live.http.post(route, content=body, headers={"content-type": "application/json"})
    if response.headers["content-type"].startswith("text/event-stream"):
        assert '"error"' not in response.text
    elif response.status_code != 200:
        error = response.json()["error"]
        assert response.status_code in (400, 501), response.text
        assert error["code"] == response.status_code and "\n" not in error["message"]
    else:
        response.json()
    assert live.http.get("/health").status_code == 200
