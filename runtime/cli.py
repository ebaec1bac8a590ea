"""What the commands that need no text share: options of a model, opening it, one-line errors, a progress bar."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

# With GGUFError, these are messages for the user, wherever they are raised; everything else is a fault of ours.
_EXPECTED = (ValueError, OSError, MemoryError, RuntimeError)


class LineParser(argparse.ArgumentParser):
    """Errors are one line on stderr and exit status 2."""

    def __init__(self, *args, **kwargs):
        # an abbreviation that works today becomes ambiguous with tomorrow's option
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; --help lists the options\n")


def positive(text: str) -> int:
    """argparse type: a whole number from 1."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def model_options(parser: argparse.ArgumentParser) -> None:
    """MODEL and the options that decide how it is planned."""
    parser.add_argument("model", metavar="MODEL", help="a GGUF file")
    parser.add_argument("-c", "--ctx", "--ctx-size", dest="ctx", type=positive, metavar="N", help="context in tokens; default: what fits, at most the model's")
    parser.add_argument("--kv", choices=("f16", "f32", "q8_0"), default="f16", help="type of the KV cache")
    parser.add_argument("--device", metavar="N|NAME|UUID", help="the Vulkan device; default: the best one")
    parser.add_argument("--max-alloc-mib", type=positive, metavar="N", help="largest single binding")
    parser.add_argument("--arm", metavar="ARM", help="force a matmul arm: scalar, int")


def fail(program: str, run: Callable[[], None]) -> int:
    """Run a command. 0, or 1 with one line on stderr for everything a user can be at fault for or a device can do."""
    from .gguf import GGUFError

    try:
        run()
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130
    except (GGUFError, *_EXPECTED) as error:
        print(f"{program}: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def opened(args: argparse.Namespace, *, window: int | None = None, logit_rows: int = 1, least_ctx: int = 0) -> Iterator[object]:
    """An Executor for the options. least_ctx: tokens that must fit, when no --ctx was given."""
    from .engine.engine import free_bytes
    from .engine.executor import Executor
    from .gguf import open_gguf
    from .models import read_model
    from .plan import make_plan
    from .vk import Device

    with open_gguf(args.model) as file:
        model = read_model(file)
        ctx = args.ctx
        if least_ctx > (ctx or model.config.n_ctx_train):
            raise ValueError(f"{least_ctx} tokens do not fit a context of {ctx or model.config.n_ctx_train}; give fewer or raise --ctx")
        ctx = ctx or max(1, least_ctx)
        with Device(device_choice(args.device)) as device:
            plan = make_plan(model, device.caps, free_bytes(device), ctx=ctx, kv=args.kv, arm=args.arm, max_alloc_mib=args.max_alloc_mib, window=window, logit_rows=logit_rows)
            with progress_bar() as progress:
                executor = Executor(device, plan, progress)
            yield executor


def device_choice(text: str | None) -> int | str | None:
    """--device as Device takes it."""
    return int(text) if text is not None and text.isdecimal() else text


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None] | None]:
    """A bar on stderr when that is a terminal, None in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, object] = {}

        def report(done: int, total: int, what: str) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)

        yield report
