"""python -m runtime.chat [MODEL.gguf]: a chat in the terminal, straight on the engine, without a server.

A terminal gets Markdown, colours and line editing; a pipe gets plain text and one message a line. Ctrl-C stops a reply
and keeps the chat.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from runtime.engine.request import Request, RequestError, Sampling
from runtime.server.launch import (
    LineParser,
    Loaded,
    add_model_options,
    bounded,
    model_path,
    open_model,
    progress_bar,
    refuse_unserved,
)
from runtime.server.reply import ReplyParser, opens_thinking
from runtime.text.errors import TextError, one_line

PROG = "runtime.chat"
HELP = """\
/help    this list
/clear   forget the conversation
/exit    leave (also Ctrl-D)
Ctrl-C stops a reply. A line that ends with \\ goes on in the next one."""


class EngineDied(Exception):
    """The engine cannot answer any more; its reason."""


def parse(argv: list[str] | None):
    parser = LineParser(PROG, description="Chat with a GGUF model in the terminal.")
    add_model_options(parser)
    add = parser.add_argument
    default = Sampling()
    add("--system", metavar="TEXT", help="system message")
    add("-n", "--max-tokens", type=bounded(int, 1, 2**31 - 1), metavar="N", help="longest reply, in tokens")
    warmth = f"0: always the likeliest token ({default.temperature})"
    add("--temperature", "--temp", type=bounded(float, 0, 100), default=default.temperature, metavar="T", help=warmth)
    add("--top-k", type=bounded(int, 0, 2**31 - 1), default=default.top_k, metavar="K", help=f"({default.top_k})")
    add("--top-p", type=bounded(float, 0, 1), default=default.top_p, metavar="P", help=f"({default.top_p})")
    add("--min-p", type=bounded(float, 0, 1), default=default.min_p, metavar="P", help=f"({default.min_p})")
    add("--seed", type=bounded(int, -1, 2**63 - 1), default=-1, metavar="S", help="-1: random")
    add("--no-think", action="store_true", help="ask the template for replies without reasoning")
    add("--plain", action="store_true", help="plain text on a terminal too")
    return parser.parse_args(argv)


@dataclass
class Chat:
    """A conversation; `ask` adds one turn to it."""

    model: Loaded
    sampling: Sampling
    system: str | None = None
    max_tokens: int = -1
    template_kwargs: dict = field(default_factory=dict)
    turns: list[dict] = field(default_factory=list)

    def clear(self) -> None:
        self.turns.clear()

    def ask(self, text: str, view) -> bool:
        """Stream one reply into `view`; True when Ctrl-C ended it. RequestError or TextError take the turn back."""
        self.turns.append({"role": "user", "content": text})
        try:
            stream, parser = self._start()
        except (RequestError, TextError):
            self.turns.pop()
            raise
        try:
            with _ctrl_c_cancels(stream):
                reply = self._read(stream, parser, view)
        finally:
            stream.cancel()
            view.end(stream)
        self.turns.append({"role": "assistant", "content": reply})
        if stream.finish == "error":
            raise EngineDied(stream.error or "the engine failed without a reason")
        return stream.finish == "cancelled"

    def _start(self):
        tokenizer, template, engine = self.model.tokenizer, self.model.template, self.model.engine
        opening = [{"role": "system", "content": self.system}] if self.system else []
        prompt = template.render([*opening, *self.turns], add_generation_prompt=True, **self.template_kwargs)
        ids = tokenizer.encode(prompt)
        request = Request(ids, self.max_tokens, self.sampling, frozenset(tokenizer.eog), "chat")
        request.check(engine.n_ctx, engine.vocab_size)
        return engine.submit(request), ReplyParser(opened=opens_thinking(prompt))

    def _read(self, stream, parser: ReplyParser, view) -> str:
        """Show the reply as it comes; what of it is content."""
        from runtime.text import Detokenizer

        detokenizer, content = Detokenizer(self.model.tokenizer), []

        def show(deltas) -> None:
            for delta in deltas:
                view.show(delta.kind, delta.text)
                if delta.kind == "content":
                    content.append(delta.text)

        for token in stream:
            show(parser.push(detokenizer.push(token)))
        show(parser.push(detokenizer.flush()) + parser.finish())
        return "".join(content)


@contextlib.contextmanager
def _ctrl_c_cancels(stream) -> Iterator[None]:
    """The first Ctrl-C asks the engine to stop, so that no lock is torn open; a second one leaves the program."""

    def on_signal(number, frame) -> None:
        if stream.cancelled:
            raise KeyboardInterrupt
        stream.cancel()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def lines(terminal: bool):
    """Messages: of a terminal with editing, of a pipe one a line. Ctrl-C drops the line that is being written."""
    if not terminal:
        for line in sys.stdin:
            yield line.rstrip("\r\n")
        return
    try:
        import readline  # noqa: F401  (input() uses it once it is loaded)
    except ImportError:  # a Python without it: plain line input
        pass
    while True:
        try:
            text = input("\n> ")
            while text.endswith("\\"):
                text = text[:-1] + "\n" + input(". ")
        except KeyboardInterrupt:
            print("\n(/exit or Ctrl-D leaves)")
            continue
        except EOFError:
            print()
            return
        yield text


def talk(chat: Chat, view, terminal: bool) -> None:
    """The loop; returns when the user leaves. EngineDied ends it."""
    for line in lines(terminal):
        text = line.strip()
        if not text:
            continue
        if text in ("/exit", "/quit"):
            return
        if text == "/help":
            view.note(HELP)
        elif text == "/clear":
            chat.clear()
            view.note("The conversation is forgotten.")
        elif text.startswith("/"):
            view.note(f"There is no {text.split()[0]}: /help lists the commands.")
        else:
            _turn(chat, text, view, terminal)


def _turn(chat: Chat, text: str, view, terminal: bool) -> None:
    try:
        stopped = chat.ask(text, view)
        if stopped and not terminal:  # a script that is interrupted does not go on with its next line
            raise KeyboardInterrupt
    except RequestError as error:
        hint = " (/clear forgets the conversation)" if error.n_ctx else ""
        view.note(f"{error}{hint}")
    except TextError as error:
        view.note(str(error))
    engine = chat.model.engine
    if not engine.alive:
        raise EngineDied(engine.error or "the engine has stopped without a reason")


def run(args) -> None:
    from runtime.chat_view import make_view

    refuse_unserved(args)
    path = model_path(args)
    with progress_bar() as progress:
        loaded = open_model(args, path, progress)
    try:
        sampling = Sampling(args.temperature, args.top_k, args.top_p, args.min_p, args.seed)
        kwargs = {"enable_thinking": False} if args.no_think else {}
        chat = Chat(loaded, sampling, args.system, args.max_tokens or -1, kwargs)
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
        view = make_view(rich=sys.stdout.isatty() and not args.plain)
        if terminal:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with it ignored
            engine = loaded.engine
            view.note(f"{engine.model_name}, context {engine.n_ctx} tokens. /help lists the commands.")
        talk(chat, view, terminal)
    finally:
        loaded.engine.close()
        loaded.template.close()


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    try:
        run(args)
    except KeyboardInterrupt:
        print(f"{PROG}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # whoever read the output has left; without this, the interpreter complains again while it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        print(f"{PROG}: {one_line(error) or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
