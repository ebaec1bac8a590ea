"""A server of a test's own, over the fakes, and what reads its answers."""

from __future__ import annotations

import contextlib
import threading
import time

import httpx

from runtime.serve import listen, make_server, url
from runtime.server.app import create_app
from runtime.server.settings import Settings
from tests.runtime.server.fake import ByteTokenizer, ChatML, FakeEngine

QUICK = Settings(watch_s=0.05)


class Live:
    """A server of its own on a free port, with the fakes behind it."""

    def __init__(self, settings: Settings = QUICK, loading: bool = False, text=None, **engine):
        self.tokenizer, self.template = text or (ByteTokenizer(), ChatML())
        self.engine = FakeEngine(self.tokenizer, **engine)
        self.app = create_app(None if loading else self.engine, self.tokenizer, self.template, settings)
        self.service = self.app.state.service
        self._sock = listen("127.0.0.1", 0)
        self.url = url(self._sock)
        self.server = make_server(self.app, False)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._sock]}, daemon=True)

    def __enter__(self):
        self._thread.start()
        self.http = httpx.Client(base_url=self.url, timeout=20)
        self.http.post("/tokenize", json={"content": "a"})  # starts the text thread, before a test counts threads
        return self

    def __exit__(self, *_):
        self.http.close()
        self.stop()
        self.engine.close()

    def stop(self):
        self.server.should_exit = True
        self._thread.join(15)
        assert not self._thread.is_alive()

    def says(self, text: str, end: str = "<|im_end|>"):
        """Make the engine answer this, one byte or tag a token."""
        ids = self.tokenizer.encode(text + end)
        self.engine.script = lambda request: iter(ids)

    def says_tokens(self, *texts: str):
        ids = [self.tokenizer.id(t) if t in self.tokenizer.texts else t for t in texts]
        self.engine.script = lambda request: iter(ids)

    def chat(self, content: str = "hi", **fields):
        return self.http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": content}]} | fields)


@contextlib.contextmanager
def until(seconds: float = 5.0):
    """A deadline to poll against: `with until() as late: while not condition(): late()`."""
    end = time.monotonic() + seconds

    def late():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)

    yield late


def events(text: str) -> list[str]:
    """The data of each event of an event stream."""
    parts = [part for part in text.split("\n\n") if part and not part.startswith(":")]
    assert all(part.startswith("data: ") for part in parts), parts
    return [part[len("data: ") :] for part in parts]
