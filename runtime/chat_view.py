"""How runtime.chat shows a reply: plain text as it comes, or Markdown on a terminal, block by block.

A finished Markdown block is printed for good; only the block that is being written is redrawn, and never more of it
than fits the screen, so a long reply stays in the scroll-back once.
"""

from __future__ import annotations

import sys

FENCE = "```"
REDRAWS_S = 10


def make_view(rich: bool):
    """The view for this output; a terminal that cannot redraw (TERM=dumb) gets plain text too."""
    view = MarkdownView() if rich else None
    return view if view and view.redraws else PlainView()


class PlainView:
    """Text as it comes; reasoning stands in <think> tags, so that a script can tell it from the answer."""

    def __init__(self, out=None):
        self._out = out or sys.stdout
        self._kind = "content"

    def show(self, kind: str, text: str) -> None:
        self._turn_to(kind)
        self._write(text)

    def _turn_to(self, kind: str) -> None:
        if kind != self._kind:
            self._write("<think>\n" if kind == "reasoning" else "\n</think>\n\n")
            self._kind = kind

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def end(self, stream) -> None:
        self._turn_to("content")
        self._write(" [stopped]\n" if stream.finish == "cancelled" else "\n")

    def note(self, text: str) -> None:
        """A line of the program's own: kept out of a pipe's stdout."""
        print(text, file=sys.stdout if self._out.isatty() else sys.stderr)


def split_blocks(text: str) -> tuple[list[str], str]:
    """Markdown -> (blocks that are finished, the rest). A blank line ends a block, but not within a code fence."""
    blocks, start, fenced, at = [], 0, False, 0
    while (end := text.find("\n", at)) != -1:
        line = text[at:end]
        if line.lstrip().startswith(FENCE):
            fenced = not fenced
        elif not line.strip() and not fenced:
            if text[start:at].strip():
                blocks.append(text[start:at])
            start = end + 1
        at = end + 1
    return blocks, text[start:]


class MarkdownView:
    """Markdown in colours through rich."""

    def __init__(self, console=None):
        from rich.console import Console

        self._console = console or Console(highlight=False)
        self._live = None
        self._kind = "content"
        self._text = ""

    @property
    def redraws(self) -> bool:
        return not self._console.is_dumb_terminal

    def show(self, kind: str, text: str) -> None:
        from rich.live import Live

        if self._live is None:
            options = {"console": self._console, "transient": True, "refresh_per_second": REDRAWS_S}
            self._live = Live(vertical_overflow="crop", auto_refresh=False, **options)
            self._live.start()
        if kind != self._kind:
            self._finish_block()
            self._kind = kind
        blocks, self._text = split_blocks(self._text + text)
        for block in blocks:
            self._console.print(self._render(block))
        self._live.update(self._render(self._tail()), refresh=True)

    def _render(self, text: str):
        from rich.markdown import Markdown
        from rich.text import Text

        return Text(text.rstrip("\n"), style="dim italic") if self._kind == "reasoning" else Markdown(text)

    def _tail(self) -> str:
        """The end of the open block, as much as the screen holds."""
        room, lines = self._console.height - 4, []
        for line in reversed(self._text.split("\n")):
            room -= 1 + len(line) // max(1, self._console.width)
            if room < 0:
                break
            lines.append(line)
        text = "\n".join(reversed(lines))
        return text if len(text) == len(self._text) or self._text.count(FENCE) % 2 == 0 else f"{FENCE}\n{text}"

    def _finish_block(self) -> None:
        if self._text.strip():
            self._console.print(self._render(self._text))
        self._text = ""

    def _close(self) -> None:
        if self._live is not None:
            self._live.update("")
            self._live.stop()
            self._live = None
        self._finish_block()
        self._kind = "content"

    def end(self, stream) -> None:
        self._close()
        rate = stream.completion_tokens * 1e3 / stream.predicted_ms if stream.predicted_ms else 0.0
        about = f"{stream.completion_tokens} tokens, {rate:.1f} a second"
        how = {"length": ", cut at the limit", "cancelled": ", stopped"}.get(stream.finish, "")
        self._console.print(f"[{about}{how}]", style="dim", markup=False)

    def note(self, text: str) -> None:
        self._close()
        self._console.print(text, style="dim", markup=False)
