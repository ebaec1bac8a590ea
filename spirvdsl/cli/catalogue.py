"""The catalogue of shipped kernels, found by module name so that the compiler never imports a kernel library by itself; census over it."""

from __future__ import annotations

import argparse
import json
from typing import Any, NamedTuple

from ..spirv.census import Census, census
from .resolve import CommandError, is_kernel, load_module

DEFAULT = "kernels.catalogue"


class Entry(NamedTuple):
    """A kernel with the name that its golden files carry. text, ir: whether its SPIR-V and its IR are golden as text too."""

    name: str
    kernel: Any
    text: bool = True
    ir: bool = False


def add_argument(parser: argparse.ArgumentParser) -> None:
    """--catalogue MODULE."""
    parser.add_argument("--catalogue", metavar="MODULE", default=DEFAULT, help="module whose catalogue() lists objects with .name and .kernel (and .text, .ir)")


def load(module_name: str) -> list[Entry]:
    """Entries sorted by name. CommandError for a module that has no catalogue, for a name given twice, for an entry that is no kernel."""
    make = getattr(load_module(module_name), "catalogue", None)
    if not callable(make):
        raise CommandError(f"{module_name} has no function catalogue()")
    entries: dict[str, Entry] = {}
    for item in make():
        if item.name in entries:
            raise CommandError(f"{module_name}: the name {item.name} is given twice")
        if not is_kernel(item.kernel):
            raise CommandError(f"{module_name}: {item.name} is a {type(item.kernel).__name__}, not a kernel")
        entries[item.name] = Entry(item.name, item.kernel, getattr(item, "text", True), getattr(item, "ir", False))
    if not entries:
        raise CommandError(f"{module_name}: catalogue() is empty")
    return [entries[name] for name in sorted(entries)]


def add_command(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("census", help="count opcodes, operand values, extensions and versions over the catalogue")
    add_argument(parser)
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    found = census(entry.kernel.compile() for entry in load(args.catalogue))
    print(json.dumps({"kernels": found.kernels, **found.tables()}, indent=2) if args.json else _text(found))
    return 0


def _text(found: Census) -> str:
    lines = [f"{found.kernels} kernels"]
    for title, rows in found.tables().items():
        lines += ["", f"{title} ({len(rows)})", *(f"{count:>8}  {name}" for name, count in rows.items())]
    return "\n".join(lines)
