"""What a server asks of an engine, and what comes back: Sampling, Request, Stream, RequestError, Engine protocol.

Two threads meet here. The step loop (producer) calls `Stream.put` and `Stream.done`; a server task or a terminal
(consumer) iterates the stream, awaits `take`/`next`, or cancels it. This file imports no numpy, Vulkan or web package.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

FINISHES = ("stop", "length", "cancelled", "error")
SEED_LIMIT = 1 << 63
LARGEST_F32 = (2 - 2**-23) * 2.0**127


class RequestError(ValueError):
    """A request that cannot be run, in one line. `field`: at fault; the numbers: when it is too long."""

    def __init__(
        self,
        message: str,
        field: str | None = None,
        n_prompt_tokens: int | None = None,
        n_ctx: int | None = None,
    ):
        super().__init__(message)
        self.field = field
        self.n_prompt_tokens = n_prompt_tokens
        self.n_ctx = n_ctx


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. temperature <= 0: argmax; top_k <= 0: the whole vocabulary; seed -1: random.

    Raises RequestError naming the field when a value is outside its range.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int = -1

    def __post_init__(self) -> None:
        if not abs(self.temperature) <= LARGEST_F32:  # also false for NaN
            raise RequestError(f"temperature must be a number that float32 holds, not {self.temperature}", "temperature")
        for name in ("top_p", "min_p"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:  # also false for NaN
                raise RequestError(f"{name} must be between 0 and 1, not {value}", name)
        if not -(1 << 31) <= self.top_k < 1 << 31:
            raise RequestError(f"top_k must fit 32 bits, not {self.top_k}", "top_k")
        if not -1 <= self.seed < SEED_LIMIT:
            raise RequestError(f"seed must be -1 (random) or between 0 and 2^63 - 1, not {self.seed}", "seed")

    @property
    def greedy(self) -> bool:
        return self.temperature <= 0.0

    def resolved(self) -> Sampling:
        """The same, with seed -1 replaced by a fresh random one of 32 bits (exact in every JSON reader)."""
        return self if self.seed >= 0 else replace(self, seed=secrets.randbits(32))


@dataclass
class Request:
    """One prompt to continue. max_tokens -1: until the context ends; 0: the prompt is read and nothing is made."""

    prompt: list[int]
    max_tokens: int = -1
    sampling: Sampling = field(default_factory=Sampling)
    stop_tokens: frozenset[int] = frozenset()
    id: str = ""

    def check(self, n_ctx: int, vocab_size: int) -> None:
        """Raise RequestError when an engine of this size cannot run it. O(prompt)."""
        n = len(self.prompt)
        if n == 0:
            raise RequestError("the prompt is empty: give at least one token", "prompt")
        low, high = min(self.prompt), max(self.prompt)
        if low < 0 or high >= vocab_size:
            bad = low if low < 0 else high
            raise RequestError(f"prompt holds token id {bad}, the vocabulary ends at {vocab_size - 1}", "prompt")
        if n >= n_ctx:
            raise RequestError(
                f"the prompt has {n} tokens and the context {n_ctx}: shorten it or start with a larger --ctx",
                "prompt",
                n_prompt_tokens=n,
                n_ctx=n_ctx,
            )
        if self.max_tokens < -1:
            raise RequestError(f"max_tokens must be -1 or more, not {self.max_tokens}", "max_tokens")


class Stream:
    """The tokens of one running request: one producer, one consumer.

    Producer (the step loop): look at `cancelled` before each step; `put` every token but a stop token; then
    `done(finish, error)`, of which the first call counts. It may set `cached_tokens` and `prompt_ms` (prefill without
    the wait in the queue, milliseconds) before the first put, and `predicted_ms` (first token to last) before done:
    otherwise both are measured here. An engine that dies sets its own `error` and `alive` before it ends its streams.
    Consumer: `for token in stream`, or `await stream.take()` / `await stream.next()`.
    `finish` may be set while tokens are still to be read. `seed` is the one to sample with.
    """

    def __init__(self, request: Request):
        self.request = request
        self.seed = request.sampling.resolved().seed
        self.finish: str | None = None
        self.error: str | None = None
        self.prompt_tokens = len(request.prompt)
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.prompt_ms = 0.0
        self.predicted_ms = 0.0
        self.created = time.perf_counter()
        self._first_put: float | None = None
        self._tokens: deque[int] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self.cancelled = False  # a plain flag, so that a signal handler may set it

    # producer ------------------------------------------------------------------------------------------------------
    def put(self, token: int) -> None:
        """Hand one token to the consumer; dropped once the stream is done. Any thread."""
        with self._changed:
            if self.finish is not None:
                return
            self._tokens.append(int(token))
            self.completion_tokens += 1
            self._clock(time.perf_counter())
            waiter = self._notify()
        _wake(waiter)

    def _clock(self, now: float) -> None:
        if self._first_put is None:
            self._first_put = now
            self.prompt_ms = self.prompt_ms or (now - self.created) * 1e3
        else:
            self.predicted_ms = (now - self._first_put) * 1e3

    def done(self, finish: str, error: str | None = None) -> bool:
        """End the stream for one of FINISHES; `error` is the reason, one line. False when it had ended. Any thread."""
        if finish not in FINISHES:
            raise ValueError(f"finish must be one of {FINISHES}, not {finish!r}")
        with self._changed:
            if self.finish is not None:
                return False
            self.error = error
            self.finish = finish
            waiter = self._notify()
        _wake(waiter)
        return True

    def _notify(self):
        """Wake a blocked iterator; return the task to be woken once the lock is free. The lock is held."""
        self._changed.notify_all()
        waiter, self._waiter = self._waiter, None
        return waiter

    # consumer ------------------------------------------------------------------------------------------------------
    def cancel(self) -> None:
        """Ask the engine to stop at its next step. Any thread or signal handler; tokens made can still be read."""
        self.cancelled = True

    def __iter__(self) -> Iterator[int]:
        """Token ids as they are made; blocks between them."""
        while True:
            with self._changed:
                # a bounded wait: on some platforms Ctrl-C cannot interrupt an unbounded one
                while not self._tokens and self.finish is None:
                    self._changed.wait(0.5)
                if not self._tokens:
                    return
                token = self._tokens.popleft()
            yield token

    async def take(self) -> list[int]:
        """All tokens made since the last call, at least one; [] when the stream has ended."""
        while True:
            loop = asyncio.get_running_loop()
            with self._changed:
                if self._tokens:
                    tokens = list(self._tokens)
                    self._tokens.clear()
                    return tokens
                if self.finish is not None:
                    return []
                future = loop.create_future()
                self._waiter = (loop, future)
            await future

    async def next(self) -> int | None:
        """The next token, None at the end."""
        tokens = await self.take()
        if not tokens:
            return None
        with self._changed:
            self._tokens.extendleft(reversed(tokens[1:]))
        return tokens[0]


def _wake(waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None) -> None:
    if waiter is None:
        return
    loop, future = waiter
    try:
        loop.call_soon_threadsafe(_resolve, future)
    except RuntimeError:
        pass  # the loop is closed: nobody waits any more


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


Progress = Callable[[int, int, str], None]
"""progress(done, total, what): bytes (or other units) done so far of a total, and what is being done."""


class Engine(Protocol):
    """What serve and chat use of an engine.

    `Engine.open(path, ctx=, kv=, device=, arm=, max_alloc_mib=, progress=)` in engine.py makes one.
    """

    n_ctx: int
    vocab_size: int
    model_name: str
    alive: bool
    error: str | None

    def submit(self, request: Request) -> Stream:
        """Queue it; never blocks for long. RequestError when it cannot be run."""

    def close(self) -> None:
        """End running streams as cancelled and give the device back."""

    def stats(self) -> dict:
        """Numbers for /metrics: name -> int | float."""
