"""What is training and what is test: stable hashes of questions, and operands that no training item may contain.

Two rules, both by BLAKE2b so that they hold on every machine and Python:
- a question belongs to the test side when the hash of its key is 0 modulo TEST_MODULUS. The key is what was asked
  without the wording ("add 12 30"), or the normalised text where the wording is the question (dialogue);
- an operand (an integer of three or more digits, or a word of the lexicon) is held out when its hash is 0 modulo
  HELD_MODULUS. Training items never contain a held-out operand, neither in the question nor in the answer.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

TEST_MODULUS = 8
HELD_MODULUS = 4
SMALLEST_HELD_NUMBER = 100

_DIGITS = re.compile(r"\d+")
_NOT_TEXT = re.compile(r"[^a-z0-9+*/<>=-]+")


def stable_hash(text: str) -> int:
    """64-bit hash of text, the same in every process (unlike hash())."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def normalise(question: str) -> str:
    """Lower case, punctuation and runs of spaces folded to one space; operators and digits kept."""
    return _NOT_TEXT.sub(" ", question.lower()).strip()


def is_test_key(key: str) -> bool:
    return stable_hash("key " + key) % TEST_MODULUS == 0


@lru_cache(maxsize=1 << 17)
def number_is_held(digits: str) -> bool:
    """True when this run of digits (leading zeros do not count) may appear in no training item."""
    value = int(digits)
    return value >= SMALLEST_HELD_NUMBER and stable_hash(f"number {value}") % HELD_MODULUS == 0


@lru_cache(maxsize=1 << 18)
def word_is_held(word: str) -> bool:
    """True when this operand word (any case) may appear in no training item."""
    return stable_hash("word " + word.lower()) % HELD_MODULUS == 0


def has_held_number(text: str) -> bool:
    return any(number_is_held(run) for run in _DIGITS.findall(text))
