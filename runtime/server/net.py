"""Sending an answer: whole JSON or server-sent events, while the client's connection is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import orjson
from starlette.types import Receive, Scope, Send

from runtime.server.answers import Answer
from runtime.server.errors import ApiError, ClientGone
from runtime.server.log import report
from runtime.server.run import Run
from runtime.server.service import Service

EVENT_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a buffering proxy would hold the tokens back
]


async def while_connected(work: Awaitable, receive: Receive):
    """Await `work`; cancel it and raise ClientGone when the client hangs up. The request's body must have been read."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        for future in (task, gone):
            future.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def collect(run: Run, answer: Answer) -> dict:
    """The whole answer. ApiError when the engine could not finish."""
    async for piece in run.pieces():
        answer.piece(piece)
        if answer.satisfied:
            run.halt()
    return answer.whole(run)


class EventStream:
    """An ASGI response that sends the answer's chunks as they are made, and comment lines while nothing comes.

    An error after the first byte is an event {"error": ...}, after which no [DONE] follows: clients raise on it.
    """

    def __init__(self, service: Service, run: Run, answer: Answer):
        self._service = service
        self._run = run
        self._answer = answer
        self._sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(self._send(send), receive)
        except ClientGone:
            pass
        finally:
            self._service.finished(self._run)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
        pings = asyncio.ensure_future(self._ping(send))
        try:
            await self._events(send)
        except ApiError as error:
            await self._body(send, event(error.body()))
        except Exception as error:  # a fault of ours: the client must not take what it has for the whole answer
            await self._body(send, event(report(error).body()))
        finally:
            pings.cancel()
            await asyncio.gather(pings, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self, send: Send) -> None:
        run, answer = self._run, self._answer
        await self._body(send, b"".join(map(event, answer.start())))
        async for piece in run.pieces():
            await self._body(send, b"".join(map(event, answer.piece(piece))))
            if answer.satisfied:
                run.halt()
        marker = b"data: [DONE]\n\n" if answer.done_marker else b""
        await self._body(send, b"".join(map(event, answer.end(run))) + marker)

    async def _body(self, send: Send, body: bytes) -> None:
        if body:
            self._sent += 1
            await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _ping(self, send: Send) -> None:
        while True:
            before = self._sent
            await asyncio.sleep(self._service.settings.ping_s)
            if self._sent == before:
                await self._body(send, b": waiting\n\n")


def event(chunk: dict) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"
