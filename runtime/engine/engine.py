"""The step loop: one thread owns the device and runs requests one after the other; the server talks to it through queues.

Tokens are sampled on the device, which also prepares its next step, so several steps are queued ahead and the host only
reads token ids. A prompt that begins like the last sequence starts behind what the cache already holds.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from pathlib import Path

from ..gguf import open_gguf
from ..models import read_model
from ..plan import Plan, make_plan
from ..vk import Device
from .executor import Executor
from .request import Progress, Request, RequestError, Stream

_AHEAD = 8  # steps queued on a GPU: hides the host's round trip of 37 us behind steps of about 1 ms (H200, 2026-11-30)
_AHEAD_CPU = 2


class Engine:
    """A loaded model that answers requests. Implements request.Engine."""

    def __init__(self, device: Device, plan: Plan, progress: Progress | None = None):
        self.device, self.plan = device, plan
        self.executor = Executor(device, plan, progress)
        self.n_ctx, self.vocab_size, self.model_name = plan.n_ctx, plan.model.config.n_vocab, plan.model.name
        self.alive, self.error = True, None
        self._ahead = _AHEAD_CPU if device.caps.is_cpu else _AHEAD
        self._queue: queue.SimpleQueue[Stream | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._pages = self.executor.pages.take(plan.pages)
        self.executor.set_table(0, self._pages)
        self._history: list[int] = []  # tokens whose keys and values the cache holds
        self._counts = {"requests": 0, "prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0, "prompt_seconds": 0.0, "predicted_seconds": 0.0}
        self._warm_up()
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, path: str | Path, *, ctx: int | None = None, kv: str = "f16", device: int | str | None = None, arm: str | None = None,
             max_alloc_mib: int | None = None, progress: Progress | None = None) -> Engine:
        """Read, plan, load. Raises GGUFError, ModelError, PlanError, VulkanError: one line each."""
        with open_gguf(path) as file:
            model = read_model(file)
            vulkan = Device(device)
            try:
                plan = make_plan(model, vulkan.caps, free_bytes(vulkan), ctx=ctx, kv=kv, arm=arm, max_alloc_mib=max_alloc_mib)
                return cls(vulkan, plan, progress)
            except BaseException:
                vulkan.close()
                raise

    def _warm_up(self) -> None:
        """Every kind of step a request is made of, once, so that no request waits for the driver's compiler."""
        executor = self.executor
        for pick in ("greedy", "sample"):
            executor.set_state(0, temperature=1.0)
            executor.prefill([0] * min(2 if self.device.caps.is_cpu else 16, self.n_ctx - 1 or 1), 0, 0, 0, pick=pick)
            if self.n_ctx > 1:
                executor.decode(1, pick)
        executor.prefill([0], 0, 0, 0, pick="greedy")
        executor.wait()

    # the caller's side
    def submit(self, request: Request) -> Stream:
        """Queue a request. RequestError when it cannot be run, or when the engine is dead or closing."""
        if not self.alive or self._closing.is_set():
            raise RequestError(self.error or "the engine is closing", None)
        request.check(self.n_ctx, self.vocab_size)
        stream = Stream(request)
        self._queue.put(stream)
        if not self.alive or self._closing.is_set():  # the loop may have ended between the check and the put
            self._end(stream)
        return stream

    def close(self) -> None:
        """End everything and give the device back."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._queue.put(None)
        self._thread.join(timeout=30)
        self.alive = False
        self.device.close()

    def stats(self) -> dict:
        """Totals since the start, and what the model takes."""
        return dict(self._counts) | {"n_ctx": self.n_ctx, "kv_pages": self.plan.pages, "device_bytes": self.plan.total, "queued": self._queue.qsize()}

    # the loop's side
    def _loop(self) -> None:
        while True:
            stream = self._queue.get()
            if stream is None or self._closing.is_set():
                break
            try:
                self._run(stream)
            except Exception as error:  # noqa: BLE001 whatever happens to the device ends the engine, not the process
                self.error, self.alive = " ".join(str(error).split()) or type(error).__name__, False
                stream.done("error", self.error)
                break
        self._drain(stream)

    def _drain(self, stream: Stream | None) -> None:
        """Nobody waits for an answer that will not come."""
        self._end(stream)
        with contextlib.suppress(queue.Empty):
            while True:
                self._end(self._queue.get_nowait())

    def _end(self, stream: Stream | None) -> None:
        """End a stream that will not run any further; None is close()'s mark."""
        if stream is not None:
            stream.done(*(("error", self.error) if self.error else ("cancelled", None)))

    def _run(self, stream: Stream) -> None:
        request, executor = stream.request, self.executor
        if stream.cancelled:
            stream.done("cancelled")
            return
        room = self.n_ctx - len(request.prompt)
        limit = room if request.max_tokens < 0 else min(room, request.max_tokens)
        sampling = request.sampling
        pick = "greedy" if sampling.greedy else "sample"
        start = self._reuse(request.prompt)
        stream.cached_tokens = start
        executor.set_state(0, temperature=sampling.temperature, top_p=sampling.top_p, min_p=sampling.min_p, top_k=max(0, sampling.top_k), seed=stream.seed)
        began = time.perf_counter()
        self._history = request.prompt[:start]
        executor.prefill(request.prompt[start:], start, 0, 0, pick=pick if limit else "none", stop=lambda: stream.cancelled or self._closing.is_set())
        self._history = list(request.prompt) if executor.fed == len(request.prompt) - start else request.prompt[: start + executor.fed]
        executor.wait()
        stream.prompt_ms = (time.perf_counter() - began) * 1e3
        stopped = stream.cancelled or self._closing.is_set()  # the prefill may have ended early, and then nothing was drawn
        if stopped or not limit:
            stream.done("cancelled" if stopped else "length")
        else:
            self._decode(stream, pick, limit)
        self._count(stream, start)

    def _reuse(self, prompt: list[int]) -> int:
        """How many tokens of the prompt the cache holds already; at least one is always fed."""
        n = 0
        for ours, theirs in zip(self._history, prompt[:-1], strict=False):
            if ours != theirs:
                break
            n += 1
        return n

    def _decode(self, stream: Stream, pick: str, limit: int) -> None:
        """Read what the steps draw; keep the queue `ahead` steps long. The first token was drawn by the prefill."""
        executor, stops = self.executor, stream.request.stop_tokens
        pending: deque[int] = deque([executor.last])
        asked, got, finish = 1, 0, None
        while finish is None:
            while asked < limit and len(pending) < self._ahead + 1:
                pending.append(executor.decode(1, pick))
                asked += 1
            executor.wait(pending.popleft())
            token = executor.drawn(0, got)
            got += 1
            if stream.cancelled or self._closing.is_set():
                finish = "cancelled"
            elif token in stops:
                finish = "stop"
            else:
                stream.put(token)
                self._history.append(token)
                finish = "length" if got >= limit else None
        if finish == "length" and self._history:
            self._history.pop()  # the last token was drawn, but never fed
        stream.done(finish)
        executor.wait()  # steps that were queued ahead end before the next request writes their buffers

    def _count(self, stream: Stream, start: int) -> None:
        counts = self._counts
        counts["requests"] += 1
        counts["prompt_tokens"] += stream.prompt_tokens
        counts["cached_tokens"] += start
        counts["completion_tokens"] += stream.completion_tokens
        counts["prompt_seconds"] += stream.prompt_ms / 1e3
        counts["predicted_seconds"] += stream.predicted_ms / 1e3


def free_bytes(device: Device) -> int:
    """Device-local bytes that may still be taken: the budget the driver reports, less what is used."""
    memory = device.memory()
    free = memory.budget - memory.used
    if device.caps.is_cpu:  # the "device" is the host: what the OS says is the truth
        try:
            meminfo = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
            free = min(free, int(meminfo["MemAvailable"].split()[0]) << 10)
        except (OSError, KeyError, ValueError):
            pass
    return max(0, free)
