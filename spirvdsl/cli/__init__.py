"""The command line: dis | reflect | build MODULE:KERNEL[STAMP], golden, census, explain.

Exit status 0; 1 with a message on stderr when a kernel or a golden file is at fault; 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..diagnostics import CODES, TABLE, CompileError
from . import catalogue, golden, show
from .resolve import CommandError


class _LineParser(argparse.ArgumentParser):
    """Errors are one line on stderr and exit status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; --help lists the options\n")


def _parser() -> argparse.ArgumentParser:
    parser = _LineParser(prog="python -m spirvdsl", description="Read, build and check kernels.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    show.add_commands(commands)
    golden.add_command(commands)
    catalogue.add_command(commands)
    explain = commands.add_parser("explain", help="say what a diagnostic code means")
    explain.add_argument("code", nargs="?", help="such as E0207; without it every code is listed")
    explain.set_defaults(run=_explain)
    return parser


def _explain(args: argparse.Namespace) -> int:
    if args.code is not None and args.code.upper() not in CODES:
        raise CommandError(f"there is no diagnostic {args.code}; `python -m spirvdsl explain` lists all of them")
    for code in [args.code.upper()] if args.code else CODES:
        title, remedy = TABLE[code]
        print(f"{code}: {title}\n    {remedy}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except (CommandError, CompileError) as error:
        print(str(error) if isinstance(error, CompileError) else f"error: {error}", file=sys.stderr)
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # `... | head`: the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            print(f"error: {error.filename or 'file'}: {error.strerror or error}", file=sys.stderr)
    return 1
