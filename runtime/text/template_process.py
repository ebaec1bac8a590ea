"""Talks to the template worker: starts it, bounds each call in time, kills and replaces it when it does not answer."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
import weakref
from pathlib import Path

from runtime.text.errors import TextError, Unusable, one_line

_WORKER = Path(__file__).with_name("template_worker.py")


def _end(process: subprocess.Popen) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        try:
            stream.close()
        except OSError:
            pass
    process.wait()


class TemplateProcess:
    """Compiled templates in a confined process. Thread-safe: calls take turns. `close`, or the garbage collector,
    ends the process.

    sources: name -> template text. seconds: limit of one call. characters: limit of one text.
    """

    def __init__(self, sources: dict[str, str], seconds: float, characters: int):
        self.names = frozenset(sources)
        self._first = {"sources": sources, "limits": {"seconds": seconds, "characters": characters}}
        self._seconds, self._characters = seconds, characters
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._finish: weakref.finalize | None = None

    def render(self, template: str, variables: dict) -> str:
        """The text. Raises TextError with the template's own message, Unusable when it passed the limit of time or
        of memory.
        """
        try:
            request = json.dumps({"template": template, "variables": variables}).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise TextError(f"chat template: the messages are not plain JSON: {one_line(error)}") from None
        with self._lock:
            if self._process is None:
                self._start()
            return self._call(request, "text")

    def close(self) -> None:
        """End the process; the next render starts another."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C is not for the worker
            )
        except OSError as error:
            raise Unusable(f"chat template: the process that renders it does not start: {one_line(error)}") from None
        self._process = process
        self._finish = weakref.finalize(self, _end, process)
        try:
            self._call(json.dumps(self._first).encode(), "ready")
        except TextError as error:
            self._stop()
            raise Unusable(str(error)) from None

    def _stop(self) -> None:
        if self._finish is not None:
            self._finish()
        self._process = self._finish = None

    def _call(self, request: bytes, wanted: str):
        """One exchange: the wanted member of the answer. A worker that is late, dead or incoherent is ended."""
        process, late = self._process, threading.Event()

        def expire():
            late.set()
            process.kill()

        timer = threading.Timer(self._seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(struct.pack("<I", len(request)) + request)
            process.stdin.flush()
            answer = self._read(process.stdout, wanted)
        except (OSError, ValueError, EOFError):
            self._stop()
            reason = "ended the process that renders it (memory?)"
            if late.is_set():
                reason = f"did not finish in {self._seconds:g} s"
            raise Unusable(f"chat template: {reason}; use another template") from None
        except BaseException:
            self._stop()
            raise
        finally:
            timer.cancel()
        if late.is_set():
            self._stop()  # it was killed just after it had answered
        if "error" in answer:
            raise TextError(f"chat template: {one_line(answer['error'])}")
        return answer[wanted]

    def _read(self, stream, wanted: str) -> dict:
        head = stream.read(4)
        if len(head) < 4:
            raise EOFError
        size = struct.unpack("<I", head)[0]
        if size > 12 * self._characters + 65536:  # JSON spells a character in at most 12 bytes
            raise ValueError("frame too long")
        body = stream.read(size)
        if len(body) < size:
            raise EOFError
        answer = json.loads(body)
        if not isinstance(answer, dict) or not isinstance(answer.get(wanted, answer.get("error")), str):
            raise ValueError("no answer")
        return answer
