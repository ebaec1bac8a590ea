"""Loading, queueing, hanging up, dying engines, shutting down."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.runtime.server.fake import FakeEngine
from tests.runtime.server.live import Live, events, until

ASK = {"messages": [{"role": "user", "content": "hi"}]}


def message(response: httpx.Response, status: int = 503) -> str:
    assert response.status_code == status, response.text
    return response.json()["error"]["message"]


def test_loading():
    with Live(loading=True) as live:
        for response in (live.http.get("/health"), live.chat(), live.http.get("/v1/models"), live.http.get("/props")):
            assert message(response) == "Loading model"
            assert response.json()["error"]["type"] == "unavailable_error"
        assert live.http.get("/").status_code == 200 and "runtime_up 0.0" in live.http.get("/metrics").text
        live.service.ready(live.engine, live.tokenizer, live.template)
        live.says("ok")
        assert live.http.get("/health").status_code == 200 and live.chat().status_code == 200


def test_requests_wait_for_each_other():
    with Live(delay=0.002) as live, ThreadPoolExecutor(8) as pool:
        live.engine.script = lambda request: iter(request.prompt[6:16])  # the user text
        texts = [f"prompt{i:04}" for i in range(24)]
        answers = list(pool.map(lambda text: live.chat(text, stream=text.endswith("1")), texts))
        for text, answer in zip(texts, answers, strict=True):
            assert answer.status_code == 200
            if "event-stream" in answer.headers["content-type"]:
                deltas = [json.loads(e)["choices"][0]["delta"] for e in events(answer.text)[:-1]]
                content = "".join(delta.get("content") or "" for delta in deltas)
            else:
                content = answer.json()["choices"][0]["message"]["content"]
            assert content == text
        with until() as late:
            while live.service.live:
                late()


@pytest.mark.parametrize("stream", [False, True])
def test_hanging_up_cancels(stream):
    with Live(delay=0.01, n_ctx=100_000) as live:
        with httpx.Client(base_url=live.url, timeout=20) as client:
            with pytest.raises(httpx.ReadTimeout):
                with client.stream("POST", "/v1/chat/completions", json=ASK | {"stream": stream}, timeout=0.3) as response:
                    next(response.iter_raw())
                    raise httpx.ReadTimeout("seen enough")
        with until() as late:
            while live.engine.streams[-1].finish != "cancelled" or live.service.live:
                late()
        live.says("next")
        assert live.chat().json()["choices"][0]["message"]["content"] == "next"


def test_hanging_up_in_the_queue_cancels():
    with Live(delay=0.01, n_ctx=100_000) as live, httpx.Client(base_url=live.url) as first:
        with first.stream("POST", "/v1/chat/completions", json=ASK | {"stream": True}):
            live.engine.running.acquire(timeout=5)
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(live.url + "/v1/chat/completions", json=ASK, timeout=0.2)
            with until() as late:
                while not live.engine.streams[-1].cancelled:
                    late()
        with until() as late:
            while live.engine.streams[-1].finish != "cancelled":
                late()
        assert live.engine.streams[-1].completion_tokens == 0


@pytest.mark.parametrize("silently", [False, True])
def test_a_dying_engine(silently):
    with Live(delay=0.01, n_ctx=100_000) as live, ThreadPoolExecutor(3) as pool:
        live.engine.silently = silently
        live.engine.die_after = 20
        waiting = [pool.submit(live.chat, stream=stream) for stream in (True, False, False)]
        streamed, *whole = (future.result(10) for future in waiting)
        *_, last = events(streamed.text)
        assert json.loads(last)["error"]["message"] == FakeEngine.DEATH
        for answer in whole:
            assert message(answer) == FakeEngine.DEATH
        assert message(live.http.get("/health")) == FakeEngine.DEATH and message(live.chat()) == FakeEngine.DEATH
        assert "runtime_up 0.0" in live.http.get("/metrics").text
        assert live.server.death in (None, FakeEngine.DEATH)
        with until() as late:  # and the server ends by itself
            while live._thread.is_alive():
                late()
        assert live.server.death == FakeEngine.DEATH


def test_one_failed_request_is_not_the_end():
    with Live() as live:
        live.engine._serve = lambda stream: stream.done("error", "out of memory") and "error"
        assert message(live.chat(), 500) == "out of memory"
        assert live.http.get("/health").status_code == 200


def test_shutting_down_ends_what_runs():
    with Live(delay=0.01, n_ctx=100_000) as live, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(live.chat, stream=stream) for stream in (True, False)]
        with until() as late:
            while len(live.engine.streams) < 2 or not live.engine.made:
                late()
        live.stop()
        streamed, whole = (future.result(5) for future in waiting)
        assert json.loads(events(streamed.text)[-1])["error"]["message"] == "the server is shutting down"
        assert message(whole) == "the server is shutting down"
        assert all(stream.cancelled for stream in live.engine.streams)


def test_a_fault_of_ours_is_a_500_and_one_line_in_the_log(caplog):
    with Live() as live:
        live.template.render = lambda *_, **__: 1 / 0
        response = live.chat()
        assert response.status_code == 500 and "ZeroDivisionError" in response.json()["error"]["message"]
        assert response.json()["error"]["type"] == "server_error"
        live.template = None
        live.says("ok")
        live.tokenizer.token_bytes = lambda *_, **__: 1 / 0
        streamed = live.http.post("/v1/completions", json={"prompt": "x", "stream": True})
        assert "ZeroDivisionError" in json.loads(events(streamed.text)[-1])["error"]["message"]
        assert live.http.get("/health").status_code == 200 and live.service.live == 0
    lines = [record.getMessage() for record in caplog.records if record.name == "runtime.server"]
    assert len(lines) == 2 and all("\n" not in line and "fake.py" not in line.split("(")[0] for line in lines)


def test_health_answers_while_a_long_prompt_is_read():
    """Tokenising happens off the event loop."""
    with Live() as live:
        entered, leave = threading.Event(), threading.Event()

        def slow(text, **_):
            entered.set()
            assert leave.wait(10)
            return [1]

        live.says("ok")
        live.tokenizer.encode = slow
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(live.chat)
            assert entered.wait(5) and live.http.get("/health").status_code == 200
            leave.set()
            assert answer.result(5).status_code == 200


def test_a_client_that_reads_nothing_holds_up_nobody():
    """Its stream is buffered or waits; other requests go on, and hanging up frees it."""

    async def main(live: Live) -> None:
        body = json.dumps(ASK | {"stream": True}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        _, writer = await asyncio.open_connection("127.0.0.1", live.server.servers[0].sockets[0].getsockname()[1])
        writer.write(head + body)
        await writer.drain()
        async with httpx.AsyncClient(base_url=live.url, timeout=20) as client:
            while not live.engine.streams or not live.engine.streams[0].completion_tokens:
                await asyncio.sleep(0.01)
            assert (await client.get("/health")).status_code == 200
            writer.close()
            answer = await client.post("/v1/completions", json={"prompt": "x", "max_tokens": 3})
            assert answer.status_code == 200

    with Live(n_ctx=10_000_000, delay=0.0001) as live:
        asyncio.run(main(live))
