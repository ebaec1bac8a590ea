"""The model behind the routes: loading, ready, failed or closing; text work off the event loop; the live streams."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from runtime.engine.request import Engine, Request, RequestError, Stream
from runtime.server.errors import ApiError, from_request_error
from runtime.server.metrics import Metrics
from runtime.server.params import Params
from runtime.server.run import Run
from runtime.server.settings import Settings

LOADING = "Loading model"
CLOSING = "the server is shutting down"


class Service:
    """`problem` is None when requests are served, else the reason why not. `ready` may come from any thread."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.engine: Engine | None = None
        self.tokenizer = None
        self.template = None
        self.metrics = Metrics(self)
        self._problem: str | None = LOADING
        self._live: set[Stream] = set()
        # one thread: neither a tokenizer nor a template is promised to be thread-safe
        self._text = ThreadPoolExecutor(1, "text")

    def ready(self, engine: Engine, tokenizer, template) -> None:
        """The model is loaded. A service that is closing stays so."""
        self.engine, self.tokenizer, self.template = engine, tokenizer, template
        if self._problem == LOADING:
            self._problem = None

    def fail(self, reason: str) -> None:
        """The model cannot be served any more: end what is running."""
        self._problem = reason
        for stream in list(self._live):
            stream.cancel()
            stream.done("error", reason)

    def close(self) -> None:
        """Refuse new requests and end the running ones."""
        self._problem = CLOSING
        for stream in list(self._live):
            stream.cancel()
            stream.done("cancelled", CLOSING)
        self._text.shutdown(wait=False, cancel_futures=True)

    @property
    def engine_died(self) -> str | None:
        """The engine's last words when it does not live any more."""
        if self.engine is None or self.engine.alive:
            return None
        return self.engine.error or "the engine has stopped without a reason"

    @property
    def problem(self) -> str | None:
        return self._problem or self.engine_died

    @property
    def live(self) -> int:
        return len(self._live)

    def check(self) -> None:
        """ApiError 503 unless requests are served."""
        problem = self.problem
        if problem is not None:
            raise ApiError(503, problem)

    async def watch(self) -> None:
        """Look at the engine for ever: should its thread die without a word, nobody waits for it."""
        while True:
            await asyncio.sleep(self.settings.watch_s)
            died = self.engine_died
            if died is not None and self._problem is None:
                self.fail(died)

    async def text(self, work: Callable):
        """work() on the text thread. ApiError 503 when the server is closing."""
        try:
            future = asyncio.get_running_loop().run_in_executor(self._text, work)
        except RuntimeError:
            raise ApiError(503, CLOSING) from None
        return await future

    async def start(self, make_prompt: Callable[[], list[int]], params: Params) -> Run:
        """Tokenise and queue one request. ApiError when it cannot be run; `finished(run)` must follow."""
        from runtime.text import Detokenizer

        self.check()
        prompt = await self.text(make_prompt)
        self.check()
        engine = self.engine
        request = Request(
            prompt=prompt,
            max_tokens=params.max_tokens,
            sampling=params.sampling,
            stop_tokens=frozenset(self.tokenizer.eog),
            id=secrets.token_hex(12),
        )
        try:
            request.check(engine.n_ctx, engine.vocab_size)
            stream = engine.submit(request)
        except RequestError as error:
            self.check()  # an engine that has just died refuses too, and that is not the client's fault
            raise from_request_error(error) from None
        self._live.add(stream)
        return Run(stream, Detokenizer(self.tokenizer), params, engine)

    def finished(self, run: Run) -> None:
        """The request has ended, in whatever way."""
        self._live.discard(run.stream)
        run.stream.cancel()  # of no effect on a stream that is done
        self.metrics.count(run)
