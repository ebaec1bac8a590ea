"""python -m runtime.serve with the embedded model and the real engine: health, sums, errors that leave it healthy, an end.

The OpenAI client talks to the same command in tests/runtime/server/test_embedded.py.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import openai
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(device):
    """Base address of a running server; it must end with status 0 and say nothing."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "runtime.serve", "--port", "0", "--ctx", "512"], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), line + process.stderr.read()
        print(f"up after {time.monotonic() - began:.1f} s: {line}")
        yield line.split()[0]
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=30)
        assert (process.returncode, stderr) == (0, "")
    finally:
        process.kill()
        process.communicate()


def test_health_and_models(server):
    with httpx.Client(base_url=server, timeout=20) as http:
        health = http.get("/health")
        assert health.status_code == 200 and health.json()["status"] == "ok"
        models = http.get("/v1/models").json()
        assert models["data"][0]["id"]


def test_sums_are_right_with_and_without_streaming(server, seed):
    numbers = random.Random(seed)
    pairs = [(numbers.randint(10, 99), numbers.randint(10, 99)) for _ in range(6)]
    right = 0
    with openai.OpenAI(base_url=server + "/v1", api_key="none", max_retries=0, timeout=60) as client:
        for a, b in pairs:
            ask = {"model": "any", "messages": [{"role": "user", "content": f"What is {a} + {b}?"}], "temperature": 0, "max_tokens": 40}
            whole = client.chat.completions.create(**ask)
            stream = client.chat.completions.create(**ask, stream=True)
            streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
            text = whole.choices[0].message.content
            assert streamed == text and whole.choices[0].finish_reason == "stop"
            assert whole.usage.completion_tokens > 0 and whole.usage.prompt_tokens > 5
            right += re.findall(r"\d+", text)[-1:] == [str(a + b)]
    assert right >= 5, f"{right} of 6 sums are right"


def test_a_seed_repeats_a_sampled_reply(server):
    with httpx.Client(base_url=server, timeout=60) as http:
        body = {"prompt": "The", "temperature": 2.0, "top_k": 0, "top_p": 1, "min_p": 0, "max_tokens": 24}
        say = lambda seed: http.post("/v1/completions", json=body | {"seed": seed}).json()["choices"][0]["text"]  # noqa: E731
        assert say(5) == say(5)
        assert len({say(seed) for seed in range(4)}) > 1


@pytest.mark.parametrize("body", [b"{", b"[]", json.dumps({"messages": "hi"}).encode(), json.dumps({"messages": []}).encode(),
                                  json.dumps({"messages": [{"role": "user", "content": "a " * 2000}]}).encode(),
                                  json.dumps({"messages": [{"role": "user", "content": "a"}], "max_tokens": "many"}).encode()])
def test_a_wrong_request_is_a_4xx_and_the_server_stays_healthy(server, body):
    with httpx.Client(base_url=server, timeout=60) as http:
        answer = http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
        assert 400 <= answer.status_code < 500 and answer.json()["error"]["message"]
        assert http.get("/health").status_code == 200
