"""The real command with the real engine and the embedded model: a user's first minutes."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import openai

ROOT = Path(__file__).parents[3]


def test_the_openai_client_gets_right_sums_from_the_embedded_model(device, seed):
    command = [sys.executable, "-m", "runtime.serve", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), line + process.stderr.read()
        numbers = random.Random(seed)
        pairs = [(numbers.randint(10, 99), numbers.randint(10, 99)) for _ in range(8)]
        with openai.OpenAI(base_url=line.split()[0] + "/v1", api_key="none", max_retries=0, timeout=60) as client:
            right = sum(answer(client, f"What is {a} + {b}?") == a + b for a, b in pairs)
        assert right >= 7, f"{right} of 8 sums are right"
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=30)
        assert (process.returncode, stdout, stderr) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def answer(client: openai.OpenAI, question: str) -> int | None:
    """The last number of a streamed greedy answer."""
    messages = [{"role": "user", "content": question}]
    stream = client.chat.completions.create(
        model="tiny-qwen3", messages=messages, temperature=0, max_tokens=40, stream=True
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    found = re.findall(r"\d+", text)
    return int(found[-1]) if found else None


def test_the_chat_in_a_pipe_answers(device):
    command = [sys.executable, "-m", "runtime.chat", "--temperature", "0"]
    result = subprocess.run(command, cwd=ROOT, input="What is 7 + 5?\n", text=True, capture_output=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "") and "12" in result.stdout
