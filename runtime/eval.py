"""python -m runtime.eval logits MODEL --tokens 1,2,3 | --tokens-file F [--all] [--ubatch N] [--split K] --out F.npy

Logits of given token ids as float32 [n, vocabulary]: the last position, or all with --all. --ubatch: prefill window;
--split K: K tokens are prefilled and the rest fed one by one. Needs no tokenizer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from .cli import LineParser, fail, model_options, opened, positive


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = LineParser("runtime.eval", description=__doc__.split("\n\n")[1])
    commands = parser.add_subparsers(dest="command", required=True)
    logits = commands.add_parser("logits", help="logits of token ids")
    model_options(logits)
    given = logits.add_mutually_exclusive_group(required=True)
    given.add_argument("--tokens", metavar="1,2,3", help="token ids, commas or spaces between")
    given.add_argument("--tokens-file", metavar="F", help="the same from a file")
    logits.add_argument("--all", action="store_true", help="every position, not only the last")
    logits.add_argument("--ubatch", type=positive, metavar="N", help="tokens of a prefill window")
    logits.add_argument("--split", type=positive, metavar="K", help="prefill K tokens, feed the rest one by one")
    logits.add_argument("--out", required=True, metavar="F.npy", help="where the array goes")
    args = parser.parse_args(argv)
    return fail("runtime.eval", lambda: _logits(args))


def _logits(args: argparse.Namespace) -> None:
    tokens = read_tokens(args.tokens, args.tokens_file)
    out = Path(args.out)
    if not out.parent.is_dir():
        raise ValueError(f"--out {out}: the folder {out.parent} does not exist; make it first")
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; name a file in it")
    if args.split is not None and args.split > len(tokens):
        raise ValueError(f"--split {args.split} is more than the {len(tokens)} tokens; give at most that many")
    split = args.split or len(tokens)
    window = min(args.ubatch or (32 if args.all else 512), max(1, split))
    with opened(args, window=window, logit_rows=window if args.all else 1, least_ctx=len(tokens)) as executor:
        if max(tokens) >= executor.config.n_vocab:
            raise ValueError(f"token {max(tokens)} is not in the vocabulary of {executor.config.n_vocab}; give smaller ids")
        logits = logits_of(executor, tokens, split, args.all)
        with out.open("wb") as file:  # np.save would append .npy to a name without it
            np.save(file, logits)


def read_tokens(text: str | None, path: str | None) -> list[int]:
    """Token ids from an option or a file. ValueError names what is no id."""
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"--tokens-file {path} cannot be read: {error}") from None
    words = (text or "").replace(",", " ").split()
    for word in words:
        if not word.isascii() or not word.isdigit() or int(word) >= 1 << 31:
            raise ValueError(f"{word[:40]!r} is no token id; ids are whole numbers, commas or spaces between")
    if not words:
        raise ValueError("no tokens are given; write --tokens 1,2,3")
    return [int(w) for w in words]


def logits_of(executor, tokens: list[int], split: int, every: bool) -> np.ndarray:
    """float32 [n or 1, vocabulary]: `split` tokens in windows, the rest token by token through the decode step."""
    from .engine.executor import ROW

    pages = executor.pages.take(executor.page_count(len(tokens)))
    executor.set_table(0, pages)
    executor.set_state(0)
    rows: list[np.ndarray] = []
    window = executor.plan.window
    for at in range(0, split, window):
        part = tokens[at: at + min(window, split - at)]
        final = at + len(part) == split
        executor.prefill(part, at, 0, 0, head="all" if every else "last" if final else "none")
        if every or final:
            rows.append(executor.logits(len(part) if every else 1))
    for at in range(split, len(tokens)):
        executor.set_rows(np.array([(tokens[at], at, 0, 0)], ROW))
        executor.decode(1, "none")
        rows = [*rows, executor.logits(1)] if every else [executor.logits(1)]
    executor.pages.give(pages)
    return np.concatenate(rows)


if __name__ == "__main__":
    sys.exit(main())
