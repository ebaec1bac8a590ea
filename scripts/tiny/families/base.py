"""What an item is, and the draws it is made from."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .. import words
from ..split import number_is_held, word_is_held

Message = dict[str, object]


@dataclass(frozen=True)
class Item:
    """One conversation that ends in the assistant's answer.

    messages: all turns before the answer, in the OpenAI form. key: what was asked, without the wording (split.py).
    operands: the numbers and words that were drawn for it. opening: it brings a system message or tools, so it must
    stand first in its conversation.
    """

    family: str
    key: str
    messages: tuple[Message, ...]
    answer: str
    operands: tuple[str, ...] = ()
    tools: tuple[dict, ...] = ()

    @property
    def opening(self) -> bool:
        return bool(self.tools) or self.messages[0]["role"] == "system"

    @property
    def question(self) -> str:
        """The user's side of the conversation, one line a turn."""
        return "\n".join(str(m["content"]) for m in self.messages if m["role"] == "user")


class Draw:
    """Random operands for one side of the split.

    side "train": no held-out operand. "unseen": held-out operands where the asked range has any. "seen": as train,
    but the item is meant for the test set.
    """

    def __init__(self, rng: random.Random, side: str):
        self.rng = rng
        self.want_held = side == "unseen"

    def pick(self, options):
        return self.rng.choice(options)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number of [low, high]; from the held-out ones when this side wants them and the range has some."""
        for _ in range(200):
            value = self.rng.randint(low, high)
            if number_is_held(str(value)) == self.want_held:
                return value
            if self.want_held and high < 100:
                return value
        raise ValueError(f"no number between {low} and {high} on this side of the split")

    def number(self, most_digits: int = 4) -> int:
        """A number whose count of digits is drawn first: small numbers are as common as large ones."""
        digits = self.rng.choices((1, 2, 3, 4)[:most_digits], (3, 7, 8, 3)[:most_digits])[0]
        if self.want_held:
            digits = max(digits, min(3, most_digits))
        return self.between(10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1)

    def _word(self, make: Callable[[], str]) -> str:
        while True:
            word = make()
            if word_is_held(word) == self.want_held:
                return word

    def word(self) -> str:
        """A lower-case word: half from the lexicon, half built."""
        if self.chance(0.5):
            return self._word(lambda: self.rng.choice(words.LEXICON))
        return self._word(lambda: words.built_word(self.rng))

    def name(self) -> str:
        """A capitalised name: of a person or a place, half of them built."""
        if self.chance(0.4):
            return self._word(lambda: self.rng.choice(words.NAMES))
        return self._word(lambda: words.built_word(self.rng)).capitalize()


def ask(text: str) -> tuple[Message, ...]:
    return ({"role": "user", "content": text},)


FAMILIES: dict[str, Callable[[Draw], Item]] = {}


def family(name: str):
    """Registers a maker of items: Draw -> Item."""

    def register(make: Callable[[Draw], Item]):
        FAMILIES[name] = make
        return make

    return register
