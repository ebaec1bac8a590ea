"""Logits and greedy tokens of 200 prompts, by the Hugging Face class with the dequantised weights (reference.py).

    python -m scripts.tiny.oracle --model runtime/data/tiny-qwen3.gguf --questions tests/data/tiny_questions.jsonl \
        --out tests/data/tiny_qwen3_oracle.npz

Arrays of the file: `ids` int32 (all prompts, one after another) and `starts` int32 [201]; `kinds` text [200];
`logits` float32 [200, vocab], of each prompt's last position; `greedy` int32 [200, 24], argmax tokens up to and
including the first stop token, then -1; `margins` float32 [200, 24], chosen logit minus the runner-up's, then -1.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .chat import render
from .generate import SEED, load_questions
from .reference import Reference, greedy, load

MOST_TOKENS = 24
LEAST_MARGIN = 0.5          # greedy paths with a closer call are passed over: rounding alone may turn them
QUOTA = {"question": 110, "long": 50, "part": 30, "plain": 10}
LONG = (96, 320)            # tokens of a "long" prompt

_PLAIN = ("Which is larger, 5 or 9?", "Spell the word garden.", "Hello", "What is 12 + 30?", "Thanks", "Hi", "2+2",
          "Bye", "Sort these words: pear, apple, fig.", "Who are you?", "Convert 3 hours to minutes.",
          "Is 2024 a leap year?", "7 * 8", "Good morning")


def _questions(records: list[dict], rng: random.Random) -> Iterator[str]:
    """Test questions as they are asked, the families in turn."""
    for record in records:
        yield render(record["m"], record["t"])


def _long(records: list[dict], rng: random.Random) -> Iterator[str]:
    """Conversations of several answered questions, ending in an open one."""
    later = [record for record in records if not record["t"] and record["m"][0]["role"] != "system"]
    while True:
        first = rng.choice(records)
        messages, tools = list(first["m"]), first["t"]
        for record in rng.sample(later, rng.randint(1, 9)):
            messages += [{"role": "assistant", "content": first["a"]}, *record["m"]]
            first = record
        yield render(messages, tools)


def _parts(records: list[dict], rng: random.Random) -> Iterator[str]:
    """Questions whose answer has begun."""
    while True:
        record = rng.choice(records)
        yield render(record["m"], record["t"]) + record["a"][:rng.randint(4, max(4, len(record["a"]) - 4))].rstrip()


def _plain(records: list[dict], rng: random.Random) -> Iterator[str]:
    """Short prompts written by hand."""
    for text in _PLAIN:
        yield render([{"role": "user", "content": text}])


_KINDS = {"question": _questions, "long": _long, "part": _parts, "plain": _plain}


def collect(reference: Reference, records: list[dict]) -> tuple[list[dict], int]:
    """QUOTA prompts of each kind with their results, and how many were passed over for a small margin."""
    taken, skipped = [], 0
    for kind, quota in QUOTA.items():
        count = 0
        for text in _KINDS[kind](records, random.Random(f"{SEED} oracle {kind}")):
            ids = reference.tokenizer.encode(text).ids
            if kind == "long" and not LONG[0] <= len(ids) <= LONG[1]:
                continue
            result = greedy(reference, ids, MOST_TOKENS)
            if min(result.margins) < LEAST_MARGIN:
                skipped += 1
                continue
            taken.append({"kind": kind, "ids": ids, "result": result})
            count += 1
            if count == quota:
                break
        if count < quota:
            raise SystemExit(f"oracle: only {count} prompts of kind {kind}, want {quota}")
    return taken, skipped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    taken, skipped = collect(load(options.model), load_questions(options.questions))
    steps = np.full((len(taken), MOST_TOKENS), -1, np.int32)
    margins = np.full((len(taken), MOST_TOKENS), -1, np.float32)
    for row, entry in enumerate(taken):
        result = entry["result"]
        steps[row, :len(result.ids)] = result.ids
        margins[row, :len(result.ids)] = result.margins
    lengths = [len(entry["ids"]) for entry in taken]
    np.savez_compressed(
        options.out, ids=np.concatenate([entry["ids"] for entry in taken]).astype(np.int32),
        starts=np.concatenate(([0], np.cumsum(lengths))).astype(np.int32),
        kinds=np.array([entry["kind"] for entry in taken]),
        logits=np.stack([entry["result"].logits for entry in taken]), greedy=steps, margins=margins)
    print(f"{len(taken)} prompts of {min(lengths)} to {max(lengths)} tokens, {skipped} passed over for a margin under "
          f"{LEAST_MARGIN}; smallest margin {margins[steps >= 0].min():.2f}; {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
