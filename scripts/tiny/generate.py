"""The stream of training items and the fixed test set.

    python -m scripts.tiny.generate --test tests/data/tiny_questions.jsonl     writes the 1,000 questions
    python -m scripts.tiny.generate --show 20                                  prints some training items

Everything is a function of SEED: shard i of the training stream and the test set are the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from .families import FAMILIES, Draw, Item
from .families.dialogue import SYSTEMS
from .split import has_held_number, is_test_key, normalise, stable_hash

SEED = 20261130
TEST_SIZE = 1000
UNSEEN_SHARE = 0.6          # share of test questions drawn with held-out operands where the family has any
SYSTEM_SHARE = 0.2          # share of plain items that get a system message

# how often a family is drawn in training: the harder ones more often
WEIGHTS = {"add": 12, "subtract": 12, "multiply": 12, "compare": 7, "sort_numbers": 10, "sort_words": 12, "spell": 10,
           "dates": 11, "units": 9, "dialogue": 9}

_WORD = re.compile(r"[a-z]+|\d+")


def item_text(item: Item) -> str:
    """All that a reader of the item sees, less the tools' schemas (which hold no operand)."""
    return "\n".join(str(m["content"]) + json.dumps(m.get("tool_calls",
    "")) for m in item.messages) + "\n" + item.answer


def text_operands(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def question_hash(item: Item) -> int:
    return stable_hash("question " + normalise(item.question + " " + _results(item)))


def _results(item: Item) -> str:
    return " ".join(str(m["content"]) for m in item.messages if m["role"] == "tool")


def train_item(draw: Draw, name: str) -> Item:
    """One item of the training side: its key is no test key and no held-out number stands anywhere in it."""
    while True:
        item = FAMILIES[name](draw)
        if not is_test_key(item.key) and not has_held_number(item_text(item)):
            return item


def with_system(rng: random.Random, item: Item) -> Item:
    """The same item, now and then with a system message that changes nothing."""
    if item.opening or rng.random() >= SYSTEM_SHARE:
        return item
    system = {"role": "system", "content": rng.choice(SYSTEMS)}
    return Item(item.family, item.key, (system, *item.messages), item.answer, item.operands)


def train_stream(shard: int) -> tuple[Iterator[Item], Iterator[Item]]:
    """Two endless streams of one shard: plain items by WEIGHTS, and items with tools."""
    rng = random.Random(f"{SEED} train {shard}")
    tool_rng = random.Random(f"{SEED} tools {shard}")
    names, weights = tuple(WEIGHTS), tuple(WEIGHTS.values())

    def plain() -> Iterator[Item]:
        draw = Draw(rng, "train")
        while True:
            yield train_item(draw, rng.choices(names, weights)[0])

    def tools() -> Iterator[Item]:
        draw = Draw(tool_rng, "train")
        while True:
            yield train_item(draw, "tools")

    return plain(), tools()


def test_items() -> list[Item]:
    """TEST_SIZE different questions of the test side, evenly over the families."""
    rng = random.Random(f"{SEED} test")
    names = tuple(FAMILIES)
    items: list[Item] = []
    seen: set[int] = set()
    while len(items) < TEST_SIZE:
        name = names[len(items) % len(names)]
        side = "unseen" if rng.random() < UNSEEN_SHARE else "seen"
        item = FAMILIES[name](Draw(rng, side))
        mark = question_hash(item)
        if is_test_key(item.key) and mark not in seen:
            seen.add(mark)
            items.append(with_system(rng, item))
    return items


def to_line(item: Item) -> str:
    """One JSON line: f family, m messages (or q, the only user message), a answer, o operands, t tools."""
    record: dict = {"f": item.family}
    if len(item.messages) == 1:
        record["q"] = item.messages[0]["content"]
    else:
        record["m"] = item.messages
    record |= {"a": item.answer, "o": item.operands}
    if item.tools:
        record["t"] = item.tools
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def load_questions(path: Path) -> list[dict]:
    """The lines of to_line with "m" and "t" always present."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in records:
        record.setdefault("m", [{"role": "user", "content": record.get("q")}])
        record.setdefault("t", [])
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", type=Path, metavar="FILE")
    parser.add_argument("--show", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    if arguments.test:
        arguments.test.write_text("".join(to_line(item) + "\n" for item in test_items()), encoding="utf-8")
    plain, tools = train_stream(0)
    for index in range(arguments.show):
        print(to_line(next(tools if index % 8 == 7 else plain)))


if __name__ == "__main__":
    main()
