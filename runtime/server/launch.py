"""What serve and chat share at start-up: the model's options, what is refused and why, loading with a progress bar."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..cli import LineParser  # noqa: F401 serve and chat take it from here

TINY_MODEL = Path(__file__).parents[1] / "data" / "tiny-qwen3.gguf"
ALL_LAYERS = ("all", "auto", "-1")


class StartError(Exception):
    """The command cannot start; one line that says why and what to do."""


def bounded(kind: type, low: float, high: float):
    """An argparse type: a number within low..high."""

    def convert(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:  # NaN is not within either
            word = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"must be {word} from {low} to {high}, not {text!r}")
        return value

    return convert


def add_model_options(parser: argparse.ArgumentParser) -> None:
    positive = bounded(int, 1, 2**31 - 1)
    add = parser.add_argument
    add("path", nargs="?", metavar="MODEL.gguf", help="the model; none: the embedded tiny model")
    add("-m", "--model", metavar="MODEL.gguf", help="the same")
    context = "context of one sequence in tokens; 0: what fits, at most the model's"
    add("-c", "--ctx", "--ctx-size", dest="ctx", type=bounded(int, 0, 2**31 - 1), metavar="N", help=context)
    add("--kv", choices=("f16", "f32", "q8_0"), default="f16", help="type of the KV cache")
    add("--device", metavar="N|NAME|UUID", help="the Vulkan device; none: the best one")
    add("--max-alloc-mib", type=positive, metavar="N", help="largest single allocation")
    add("--arm", metavar="ARM", help="force a matmul arm: scalar, int, khr, cm2, frag")
    add("-ngl", "--gpu-layers", "--n-gpu-layers", dest="gpu_layers", metavar="N", help="all; fewer are refused")


def model_path(args: argparse.Namespace) -> Path:
    """The file to load. StartError when it is given twice."""
    if args.path and args.model:
        raise StartError(f"two models are given, {args.path} and {args.model}: give one")
    given = args.model if args.path is None else args.path
    if given == "":
        raise StartError("the model's name is empty: give a MODEL.gguf, or leave it out for the embedded model")
    if given is None and not TINY_MODEL.is_file():
        raise StartError(f"the embedded model {TINY_MODEL} is missing: install again, or give a MODEL.gguf")
    return Path(given) if given else TINY_MODEL


def refuse_unserved(args: argparse.Namespace) -> None:
    """Options of the contract that this version does not serve; StartError says so. Needs no file."""
    if args.kv == "q8_0":
        raise StartError("--kv q8_0 is not served yet: use --kv f16 or --kv f32")
    if getattr(args, "parallel", 1) > 1:
        raise StartError("--parallel above 1 is not served yet: requests are answered one after the other")
    layers = args.gpu_layers
    if layers is not None and layers not in ALL_LAYERS and not layers.isdecimal():
        raise StartError(f"-ngl must be a number of layers, all or auto, not {layers!r}")


def _refuse_few_layers(given: str | None, gguf) -> None:
    if given is None or given in ALL_LAYERS:
        return
    count = gguf.get(f"{gguf.arch}.block_count", 0)
    if int(given) < count:
        raise StartError(f"-ngl {given}: the model has {count} layers and all run on the device; leave -ngl out")


@dataclass(frozen=True)
class Loaded:
    """A model that can answer."""

    engine: object
    tokenizer: object
    template: object


def open_model(args: argparse.Namespace, path: Path, progress) -> Loaded:
    """Tokenizer first, it is quick to fail; the engine then loads while the template's process starts.

    Raises GGUFError, TextError, ModelError, PlanError, VulkanError, StartError: one line each.
    """
    from concurrent.futures import ThreadPoolExecutor

    from runtime.gguf import open_gguf
    from runtime.models import read_model
    from runtime.text import ChatTemplate, TextError, Tokenizer

    with open_gguf(path) as gguf, ThreadPoolExecutor(1, "template") as pool:
        read_model(gguf)  # an architecture that is not served says more than its missing tokenizer
        _refuse_few_layers(args.gpu_layers, gguf)
        try:
            tokenizer = Tokenizer.from_gguf(gguf)
        except TextError as error:
            raise StartError(f"{path}: {error}") from None
        template = pool.submit(ChatTemplate.from_gguf, gguf, tokenizer)
        engine = _open_engine(args, path, progress)
        try:
            return Loaded(engine, tokenizer, template.result())
        except BaseException:
            engine.close()
            raise


def _open_engine(args: argparse.Namespace, path: Path, progress):
    from runtime.engine.engine import Engine

    device = int(args.device) if args.device is not None and args.device.isdecimal() else args.device
    return Engine.open(
        path,
        ctx=args.ctx or None,
        kv=args.kv,
        device=device,
        arm=args.arm,
        max_alloc_mib=args.max_alloc_mib,
        progress=progress,
    )


@contextlib.contextmanager
def progress_bar() -> Iterator:
    """A `progress(done, total, what)` that draws a bar on a terminal's stderr; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("loading", total=None)

        def progress(done: int, total: int, what: str = "loading") -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield progress
