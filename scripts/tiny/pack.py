"""Training shards: rows of tokens in four lengths, each row a conversation that starts at position 0.

A row is one uint16 array; bit 15 marks the tokens that the loss counts (the assistant's turns, with their <|im_end|>).
Rows are filled with further turns while they fit and end in padding, which causal attention never shows to what came
before. Every step of the training takes the same number of rows of each length.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from .chat import END_OF_TEXT, IM_START, head, turn
from .generate import (
    SEED,
    Item,
    item_text,
    question_hash,
    test_items,
    text_operands,
    train_stream,
    with_system,
)
from .split import number_is_held, word_is_held

# row length -> rows in one step: 65,536 tokens
SHAPES = {96: 256, 256: 80, 640: 20, 1920: 4}
STEPS_PER_SHARD = 32
TOOL_ROWS = {96: 0.0, 256: 0.5, 640: 0.7, 1920: 0.5}    # share of rows that start with a tool conversation
ANSWER_BIT = 0x8000
_BATCH = 512


class Guard:
    """Raises when a training item is a test question or holds a test operand that is meant to be unseen."""

    def __init__(self, tests: list[Item]):
        self.questions = {question_hash(item) for item in tests}
        self.operands = {
            operand.lower() for item in tests for operand in item.operands
            if (number_is_held(operand) if operand.isdigit() else word_is_held(operand))
        }

    def check(self, item: Item) -> None:
        if question_hash(item) in self.questions:
            raise ValueError(f"training item is a test question: {item.question}")
        clash = self.operands & text_operands(item_text(item))
        if clash:
            raise ValueError(f"training item holds held-out operands {sorted(clash)}: {item.question}")


def conversation(item: Item) -> str:
    """The whole item as text, answer included."""
    turns = [m for m in item.messages if m is not item.messages[0] or m["role"] != "system"]
    return head(item.messages, item.tools) + "".join(map(turn, turns)) + turn(
        {"role": "assistant", "content": item.answer})


class Encoder:
    """Items -> token arrays with the answer bit, in batches."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.start = tokenizer.token_to_id(IM_START)
        self.role = tokenizer.encode("assistant").ids[0]
        self.pad = tokenizer.token_to_id(END_OF_TEXT)

    def encode(self, items: list[Item]) -> list[np.ndarray]:
        encodings = self.tokenizer.encode_batch([conversation(item) for item in items])
        return [self.mark(np.array(encoding.ids, np.uint16)) for encoding in encodings]

    def mark(self, ids: np.ndarray) -> np.ndarray:
        """Sets the answer bit from after `<|im_start|>assistant\\n` up to and including <|im_end|>."""
        starts = np.flatnonzero(ids == self.start)
        marked = ids.copy()
        for index, begin in enumerate(starts):
            end = starts[index + 1] if index + 1 < len(starts) else len(ids)
            if ids[begin + 1] == self.role:
                marked[begin + 3:end - 1] |= ANSWER_BIT
        return marked


def _encoded(items: Iterator[Item], encoder: Encoder, guard: Guard) -> Iterator[np.ndarray]:
    while True:
        batch = [next(items) for _ in range(_BATCH)]
        for item in batch:
            guard.check(item)
        yield from encoder.encode(batch)


def _fill(row: np.ndarray, first: np.ndarray, more: Iterator[np.ndarray], spare: list[np.ndarray]) -> None:
    """Writes first and then conversations without a head while they fit; what does not fit is kept in spare."""
    used = len(first)
    row[:used] = first
    misses = 0
    while misses < 3 and len(row) - used >= 24:
        piece = spare.pop(0) if spare and misses == 0 else next(more)
        if used + len(piece) <= len(row):
            row[used:used + len(piece)] = piece
            used += len(piece)
        else:
            misses += 1
            if len(spare) < 64:
                spare.append(piece)


def shard(index: int, encoder: Encoder, guard: Guard, steps: int = STEPS_PER_SHARD) -> dict[str, np.ndarray]:
    """Rows of shard `index`: name "r<length>" -> uint16 (steps, rows, length)."""
    rng = random.Random(f"{SEED} pack {index}")
    plain, tools = train_stream(index)
    system_rng = random.Random(f"{SEED} system {index}")
    openers = _encoded((with_system(system_rng, item) for item in plain), encoder, guard)
    more = _encoded((item for item in train_stream(index + 1_000_000)[0] if not item.opening), encoder, guard)
    tooled = _encoded(tools, encoder, guard)
    spare: list[np.ndarray] = []
    out = {}
    for length, count in SHAPES.items():
        rows = np.full((steps * count, length), encoder.pad, np.uint16)
        for row in rows:
            first = None
            while first is None or len(first) > length:
                first = next(tooled if rng.random() < TOOL_ROWS[length] else openers)
            _fill(row, first, more, spare)
        rng_rows = np.random.default_rng(index).permutation(len(rows))
        out[f"r{length}"] = rows[rng_rows].reshape(steps, count, length)
    return out


def write_shard(index: int, tokenizer_path: Path, folder: Path, steps: int = STEPS_PER_SHARD) -> Path:
    """Makes shard `index` in a worker process; the finished file appears under its name at once."""
    global _worker
    if _worker is None:
        _worker = (Encoder(Tokenizer.from_file(str(tokenizer_path))), Guard(test_items()))
    path = folder / f"shard{index:05d}.npz"
    partial = folder / f"partial{index:05d}.npz"
    np.savez(partial, **shard(index, *_worker, steps))
    partial.rename(path)
    return path


_worker: tuple[Encoder, Guard] | None = None
