"""Stand-ins for the parts behind the server: an engine with a script, a byte tokenizer, a ChatML template."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Iterable

from runtime.engine.request import Request, Stream
from runtime.text.errors import TextError

SPECIALS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")  # control tokens: rendered as ""
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")  # user-defined: always rendered


class ByteTokenizer:
    """runtime.text's Tokenizer contract: id = byte, then the special tokens, then a few words that no text encodes to."""

    words = ("Hello", " world", "ST", "OP", " a", "EN", "D!")

    def __init__(self):
        self.texts = [*SPECIALS, *TAGS, *self.words]
        self.vocab_size = 256 + len(self.texts)
        self.eog = frozenset((self.id("<|im_end|>"), self.id("<|endoftext|>")))
        self.special_ids = frozenset(self.id(text) for text in SPECIALS + TAGS)
        self.bos, self.eos, self.add_bos = None, self.id("<|im_end|>"), False

    def id(self, text: str) -> int:
        return 256 + self.texts.index(text)

    def encode(self, text, parse_special=True, add_special=True):
        special = SPECIALS + TAGS if parse_special else TAGS
        parts = re.split("(" + "|".join(map(re.escape, special)) + ")", text)
        return [i for part in parts for i in ([self.id(part)] if part in special else part.encode())]

    def token_bytes(self, token, special=False):
        if token < 256:
            return bytes([token])
        text = self.texts[token - 256]
        return b"" if text in SPECIALS and not special else text.encode()

    def decode_bytes(self, ids, special=False):
        return b"".join(self.token_bytes(token, special) for token in ids)

    def decode(self, ids, special=False):
        return self.decode_bytes(ids, special).decode("utf-8", "replace")

    def token_text(self, token):
        return self.decode([token], special=True)


class ChatML:
    """The ChatTemplate contract. `think=True` as keyword argument opens <think>; a user text of "refuse" raises."""

    source = "{# ChatML #}"

    def __init__(self):
        self.seen: list[dict] = []

    def close(self):
        pass

    def render(self, messages, tools=None, add_generation_prompt=True, **kwargs):
        self.seen.append({"messages": messages, "tools": tools, **kwargs})
        if any(message["content"] == "refuse" for message in messages):
            raise TextError("no user query found")
        turns = [f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages]
        opening = "<|im_start|>assistant\n" + ("<think>\n" if kwargs.get("think") else "")
        return "".join(turns) + (opening if add_generation_prompt else "")


def echo(request: Request) -> Iterable[int]:
    """The bytes of the prompt again and again: deterministic, endless."""
    while True:
        yield from (token for token in request.prompt if token < 256)
        yield ord("|")


class FakeEngine:
    """The Engine protocol, one request at a time, in a thread. `script(request)` gives the tokens; a stop token ends.

    delay: seconds a token. die_after: after so many tokens the engine dies with DEATH, `silently` without a word.
    """

    DEATH = "device lost: the driver gave up; restart the server"

    def __init__(self, tokenizer, script: Callable = echo, n_ctx: int = 512, delay: float = 0.0):
        self.n_ctx, self.vocab_size, self.model_name = n_ctx, tokenizer.vocab_size, "fake"
        self.script, self.delay = script, delay
        self.alive, self.error = True, None
        self.die_after: int | None = None
        self.silently = False
        self.requests: list[Request] = []
        self.streams: list[Stream] = []
        self.running = threading.Semaphore(0)  # released when a request gets its turn
        self.made = 0
        self._queue: queue.Queue[Stream | None] = queue.Queue()
        self._thread = threading.Thread(target=self._loop, name="fake engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> Stream:
        request.check(self.n_ctx, self.vocab_size)
        stream = Stream(request)
        self.requests.append(request)
        self.streams.append(stream)
        self._queue.put(stream)
        return stream

    def stats(self):
        return {"tokens made": self.made, "note": "not a number"}

    def close(self):
        for stream in self.streams:
            stream.cancel()
        self._queue.put(None)
        self._thread.join()

    def _loop(self):
        while self.alive and (stream := self._queue.get()) is not None:
            self.running.release()
            finish = self._serve(stream)
            if finish == "dead":
                self.error, self.alive = self.DEATH, False
                if not self.silently:
                    for one in self.streams:
                        one.done("error", self.DEATH)
            else:
                stream.done(finish)

    def _serve(self, stream: Stream) -> str:
        request = stream.request
        stream.cached_tokens, stream.prompt_ms = 1, 2.0
        for n, token in enumerate(self.script(request)):
            if self.die_after is not None and n >= self.die_after:
                return "dead"
            if stream.cancelled:
                return "cancelled"
            if n == request.max_tokens or len(request.prompt) + n >= self.n_ctx:
                return "length"
            if token in request.stop_tokens:
                return "stop"
            stream.put(token)
            self.made += 1
            time.sleep(self.delay)
        return "stop"
