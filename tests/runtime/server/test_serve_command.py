"""python -m runtime.serve: options, refusals, start, signals, a dying engine; each in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from runtime.server.launch import bounded

COMMAND = Path(__file__).with_name("command.py")
ROOT = Path(__file__).parents[3]
ASK = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}


def start(command: str, *options: str, mode: str = "", **kwargs) -> subprocess.Popen:
    env = os.environ | {"RUNTIME_TEST_MODE": mode, "PYTHONUNBUFFERED": "1"}
    env.pop("RUNTIME_API_KEY", None)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | kwargs
    return subprocess.Popen([sys.executable, str(COMMAND), command, *options], env=env, text=True, cwd=ROOT, **pipes)


def one_line(process: subprocess.Popen, status: int, timeout: float = 20) -> str:
    """Wait; the exit status is this and stderr one line, no traceback."""
    _, stderr = process.communicate(timeout=timeout)
    assert process.returncode == status, stderr
    assert stderr.count("\n") == 1 and "Traceback" not in stderr, stderr
    return stderr


class Served:
    """A running serve command on a free port."""

    def __init__(self, *options: str, mode: str = ""):
        self.process = start("serve", "model.gguf", "--port", "0", *options, mode=mode)
        self.line = self.process.stdout.readline()
        found = re.match(r"(http://\S+) serves model \(context (\d+) tokens, loaded in [\d.]+ s\)$", self.line)
        assert found, (self.line, self.process.poll())
        self.url, self.ctx = found[1], int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize(
    "options, said",
    [
        (["--port", "70000"], "--port"),
        (["--port", "http"], "--port"),
        (["--ctx", "-5"], "--ctx"),
        (["--ctx", "many"], "--ctx"),
        (["--parallel", "0"], "--parallel"),
        (["--max-alloc-mib", "0"], "--max-alloc-mib"),
        (["--kv", "q4_0"], "--kv"),
        (["--unheard-of"], "--unheard-of"),
        (["--api"], "--api"),
        (["a.gguf", "b.gguf"], "b.gguf"),
    ],
)
def test_options_that_do_not_parse(options, said, capsys):
    from runtime.serve import main

    with pytest.raises(SystemExit) as caught:
        main(options)
    stderr = capsys.readouterr().err
    assert caught.value.code == 2 and stderr.count("\n") == 1 and said in stderr


@pytest.mark.parametrize(
    "options, said",
    [
        (["--kv", "q8_0"], "--kv q8_0 is not served yet"),
        (["--parallel", "2"], "--parallel above 1 is not served yet"),
        (["-np", "4"], "--parallel above 1 is not served yet"),
        (["-ngl", "few"], "-ngl"),
        (["a.gguf", "-m", "b.gguf"], "two models"),
        (["a.gguf", "--api-key", " , "], "--api-key holds no key"),
        (["a.gguf", "--api-key-file", "/nonexistent"], "/nonexistent"),
        (["a.gguf", "--host", "256.0.0.1"], "cannot listen"),
    ],
)
def test_refusals(options, said, capsys, monkeypatch):
    from runtime.serve import main

    monkeypatch.delenv("RUNTIME_API_KEY", raising=False)
    assert main(options) == 1
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1 and said in stderr and stderr.startswith("runtime.serve: ")


@pytest.mark.parametrize("given, fine", [("0", False), ("27", False), ("28", True), ("99", True), ("all", True), ("-1", True)])
def test_gpu_layers(given, fine):
    from types import SimpleNamespace

    from runtime.server import launch

    gguf = SimpleNamespace(arch="qwen3", get=lambda key, default: {"qwen3.block_count": 28}.get(key, default))
    launch.refuse_unserved(SimpleNamespace(kv="f16", parallel=1, gpu_layers=given))
    if fine:
        launch._refuse_few_layers(given, gguf)
    else:
        with pytest.raises(launch.StartError, match="28 layers"):
            launch._refuse_few_layers(given, gguf)


def test_bounded_numbers():
    for text in ("nan", "inf", "1e9", "", "x"):
        with pytest.raises(Exception, match="must be a number from 0 to 1"):
            bounded(float, 0, 1)(text)
    assert bounded(float, 0, 1)("0.5") == 0.5 and bounded(int, -1, 5)("-1") == -1


def test_a_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = start("serve", "model.gguf", "--port", str(port))
        assert f"127.0.0.1:{port}" in one_line(process, 1)


@pytest.mark.parametrize(
    "options, said", [(["/nonexistent/model.gguf"], "/nonexistent/model.gguf"), (["-ngl", "3"], "the model has 6 layers")]
)
def test_the_real_command_on_what_it_cannot_serve(options, said):
    command = [sys.executable, "-m", "runtime.serve", "--port", "0", *options]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert said in one_line(process, 1)


@pytest.mark.parametrize("mode, said", [("refuse", "served: qwen2, qwen3"), ("broken", "VK_ERROR_DEVICE_LOST")])
def test_a_model_that_cannot_be_loaded(mode, said):
    assert said in one_line(start("serve", "m.gguf", "--port", "0", mode=mode), 1)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_running_answer_and_exits_0(sig):
    with Served("-c", "100000", "--api-key", "k1,k2", mode="slow") as served:
        assert served.ctx == 100_000
        assert httpx.get(served.url + "/v1/models").status_code == 401
        headers = {"X-Api-Key": "k2"}
        ask = ASK | {"stream": True, "max_tokens": None}
        with httpx.stream("POST", served.url + "/v1/chat/completions", json=ask, headers=headers, timeout=10) as response:
            lines = response.iter_lines()
            while "content" not in next(lines):
                pass
            served.process.send_signal(sig)
            assert "shutting down" in "".join(lines)
        stdout, stderr = served.process.communicate(timeout=10)
        assert (served.process.returncode, stdout, stderr) == (0, "", "")


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.1])
def test_a_second_signal_adds_nothing(pause):
    with Served("-c", "100000", mode="slow") as served:
        for _ in range(2):
            served.process.send_signal(signal.SIGTERM)
            time.sleep(pause)
        stdout, stderr = served.process.communicate(timeout=10)
        assert (served.process.returncode, stdout, stderr) == (0, "", "")


def test_the_port_answers_while_the_model_loads_and_a_signal_ends_that_too():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = start("serve", "m.gguf", "--port", str(port), mode="hangs")
    try:
        deadline = time.monotonic() + 15
        while True:
            try:
                response = httpx.get(f"http://127.0.0.1:{port}/health")
                break
            except httpx.ConnectError:
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.05)
        assert response.status_code == 503 and response.json()["error"]["message"] == "Loading model"
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_dying_engine_ends_the_process():
    with Served(mode="dies") as served:
        answer = httpx.post(served.url + "/v1/chat/completions", json=ASK, timeout=10)
        assert answer.status_code == 503 and "device lost" in answer.json()["error"]["message"]
        assert "device lost" in httpx.get(served.url + "/health").json()["error"]["message"]
        assert "device lost" in one_line(served.process, 1, timeout=10)


def test_a_warning_for_an_open_server():
    with Served("--host", "0.0.0.0") as served:
        served.process.terminate()
        _, stderr = served.process.communicate(timeout=10)
        assert "without an --api-key" in stderr and stderr.count("\n") == 1


def test_imports_are_quick_and_lazy():
    code = (
        "import sys, runtime.serve, runtime.chat; early = set(sys.modules); import runtime.server.app, uvicorn;"
        "heavy = {'numpy', 'vulkan', 'tokenizers', 'jinja2', 'rich', 'torch', 'openai'};"
        "web = {'starlette', 'uvicorn', 'prometheus_client'};"
        "print(sorted((heavy & set(sys.modules)) | (web & early)))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr
