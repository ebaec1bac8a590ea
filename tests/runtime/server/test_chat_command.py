"""python -m runtime.chat: in a pipe, on a terminal, with Ctrl-C, with a dying engine."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from rich.console import Console

from runtime.chat import Chat, main
from runtime.chat_view import MarkdownView, PlainView, split_blocks
from runtime.engine.request import RequestError, Sampling, Stream
from runtime.server.launch import Loaded
from tests.runtime.server.fake import ByteTokenizer, ChatML, FakeEngine
from tests.runtime.server.test_serve_command import start


def piped(text: str, *options: str, mode: str = "") -> tuple[int, str, str]:
    process = start("chat", "model.gguf", *options, mode=mode, stdin=subprocess.PIPE)
    stdout, stderr = process.communicate(text, timeout=20)
    return process.returncode, stdout, stderr


def test_a_pipe_gets_plain_text_only():
    status, stdout, stderr = piped("hi\n\nagain\n", "-n", "3", "--system", "S", "--temp", "0")
    # the fake echoes the bytes of its prompt, whose first message is the system's
    assert (status, stdout, stderr) == (0, "sys\nsys\n", "")


def test_commands_in_a_pipe_and_a_message_that_does_not_fit():
    status, stdout, stderr = piped("/help\nhi\n" + "x" * 600 + "\n/clear\n/what\nhi\n/exit\nnever\n", "-n", "2")
    assert (status, stdout) == (0, "us\nus\n")
    notes = stderr.splitlines()
    assert notes[1].startswith("/clear") and "the context 512" in notes[-3] and "/clear" in notes[-3]
    assert "forgotten" in notes[-2] and "There is no /what" in notes[-1]


@pytest.mark.parametrize("mode, said", [("refuse", "not served"), ("dies", "device lost")])
def test_failures_are_one_line(mode, said):
    status, _, stderr = piped("hi\nagain\n", mode=mode)
    assert status == 1 and said in stderr and stderr.count("\n") == 1 and "Traceback" not in stderr


@pytest.mark.parametrize("options", [["--kv", "q8_0"], ["--temp", "hot"], ["--top-p", "2"], ["--seed", "-2"], ["a", "b"]])
def test_bad_options(options, capsys):
    try:
        status = main(options)
    except SystemExit as error:
        status = error.code
    assert status in (1, 2) and capsys.readouterr().err.count("\n") == 1


class Terminal:
    """The command behind a pseudo-terminal."""

    def __init__(self, *options: str, mode: str):
        self.master, slave = pty.openpty()
        fds = {"stdin": slave, "stdout": slave, "stderr": slave, "start_new_session": True}
        # a session of its own with this terminal as the controlling one: then Ctrl-C is a SIGINT
        self.process = start("chat", "model.gguf", *options, mode=mode, preexec_fn=lambda: _control(slave), **fds)
        os.close(slave)
        self.text = ""

    def write(self, text: str) -> None:
        os.write(self.master, text.encode())

    def expect(self, pattern: str, seconds: float = 15) -> None:
        """Read until the pattern is there; what was read up to it is forgotten."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, (pattern, self.text)
            try:
                self.text += os.read(self.master, 4096).decode(errors="replace")
            except OSError:  # the other side is closed
                raise AssertionError((pattern, self.text)) from None
        self.text = self.text[found.end() :]

    def press_ctrl_c_until(self, pattern: str, presses: int = 10) -> None:
        """CPython's input() loses a SIGINT that comes between showing the prompt and waiting for a key: press again."""
        for left in reversed(range(presses)):
            self.write("\x03")
            try:
                return self.expect(pattern, seconds=1)
            except AssertionError:
                if not left:
                    raise


def _control(slave: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)


@contextmanager
def terminal(*options: str, mode: str = ""):
    one = Terminal(*options, mode=mode)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()
        os.close(one.master)


def test_ctrl_c_ends_a_script():
    process = start("chat", "model.gguf", "--ctx", "100000", mode="slow", stdin=subprocess.PIPE)
    process.stdin.write("hi\nagain\n")
    process.stdin.flush()
    assert process.stdout.read(2) == "us"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=10)
    assert process.returncode == 130 and stdout.endswith(" [stopped]\n") and stderr == "runtime.chat: stopped\n"


@pytest.mark.parametrize("term, options", [("xterm", ()), ("xterm", ("--plain",)), ("dumb", ())])
def test_ctrl_c_stops_the_reply_and_keeps_the_chat(term, options, monkeypatch):
    monkeypatch.setenv("TERM", term)
    with terminal("--ctx", "100000", *options, mode="slow") as chat:
        chat.expect("context 100000 tokens")
        chat.expect("> ")
        chat.write("hello\r")
        chat.expect("user")
        chat.write("\x03")
        chat.expect(r"stopped")
        chat.expect("> ")
        chat.press_ctrl_c_until("/exit or Ctrl-D leaves")  # at the prompt
        chat.write("/help\r")
        chat.expect("forget the conversation")
        chat.write("/exit\r")
        assert chat.process.wait(10) == 0


# the parts ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def model():
    tokenizer = ByteTokenizer()
    engine = FakeEngine(tokenizer)
    yield Loaded(engine, tokenizer, ChatML())
    engine.close()


class Recorder(PlainView):
    def __init__(self):
        super().__init__(io.StringIO())

    @property
    def text(self) -> str:
        return self._out.getvalue()


def test_turns_are_kept_without_reasoning(model):
    ids = model.tokenizer.encode("<think>hm</think>\n\nYes.<|im_end|>")
    model.engine.script = lambda request: iter(ids)
    chat, view = Chat(model, Sampling(seed=5), system="S", max_tokens=50), Recorder()
    chat.ask("a", view)
    chat.ask("b", view)
    assert view.text == "<think>\nhm\n</think>\n\nYes.\n" * 2
    assert [turn["content"] for turn in model.template.seen[-1]["messages"]] == ["S", "a", "Yes.", "b"]
    assert model.engine.requests[-1].sampling.seed == 5 and model.engine.requests[-1].max_tokens == 50
    chat.clear()
    assert chat.turns == []


def test_a_turn_that_cannot_be_asked_is_taken_back(model):
    chat = Chat(model, Sampling())
    with pytest.raises(RequestError):
        chat.ask("x" * 600, Recorder())
    assert chat.turns == []


def test_ctrl_c_keeps_what_was_said(model):
    class Interrupted(Stream):
        def __iter__(self):
            yield from b"half"
            signal.raise_signal(signal.SIGINT)
            assert self.cancelled
            self.done("cancelled")

    stream = None

    def submit(request):
        nonlocal stream
        stream = Interrupted(request)
        return stream

    engine = SimpleNamespace(n_ctx=512, vocab_size=model.engine.vocab_size, submit=submit, alive=True)
    chat, view = Chat(Loaded(engine, model.tokenizer, model.template), Sampling()), Recorder()
    before = signal.getsignal(signal.SIGINT)  # a shell may have started the tests with it ignored
    assert chat.ask("a", view)
    assert chat.turns[-1] == {"role": "assistant", "content": "half"}
    assert signal.getsignal(signal.SIGINT) is before
    assert view.text == "half [stopped]\n"


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("a", ([], "a")),
        ("a\n\nb", (["a\n"], "b")),
        ("a\nb\n\n\n\nc\n", (["a\nb\n"], "c\n")),
        ("```py\na\n\nb\n```\n\nc", (["```py\na\n\nb\n```\n"], "c")),
        ("```\na\n\n", ([], "```\na\n\n")),
    ],
)
def test_split_blocks(text, wanted):
    assert split_blocks(text) == wanted
    blocks, rest = [], ""
    for character in text:  # the same when it comes bit by bit
        more, rest = split_blocks(rest + character)
        blocks += more
    assert (blocks, rest) == wanted


def test_markdown_is_printed_once_however_long_it_is():
    out = io.StringIO()
    view = MarkdownView(Console(file=out, width=40, height=10, force_terminal=False))
    text = "# Title\n\n" + "".join(f"line{i}  \n" for i in range(60)) + "\n```\ncode\n\nmore\n```\n"
    view.show("reasoning", "hm\n")
    for character in text:
        view.show("content", character)
    view.end(SimpleNamespace(completion_tokens=3, predicted_ms=10.0, finish="length"))
    shown = " ".join(out.getvalue().split())
    assert all(len(re.findall(rf"line{i}\b", shown)) == 1 for i in range(60)) and shown.count("Title") == 1
    assert "hm" in shown and "more" in shown and "```" not in shown and "3 tokens, 300.0 a second, cut at the limit" in shown
