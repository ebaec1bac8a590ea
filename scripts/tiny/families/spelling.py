"""Spelling words, counting and naming their letters, and sorting words.

The answer keeps a space before the word, as the question does: byte-level BPE has other tokens for a word that starts
a line. Letters are written with hyphens, one token each.
"""

from __future__ import annotations

from .base import Draw, Item, ask, family

_FORMS = {
    "spell": ("Spell the word {w}.", "Spell {w}.", "How do you spell {w}?", "Please spell the word {w}.",
              "Spell: {w}", "Can you spell {w}?", "Write the letters of {w}.", 'Spell the word "{w}".'),
    "count": ("How many letters are in {w}?", "How many letters does the word {w} have?", "Count the letters of {w}.",
              "How long is the word {w}?", "What is the length of the word {w}?", 'How many letters are in "{w}"?'),
    "backwards": ("Spell {w} backwards.", "Reverse the word {w}.", "Spell the word {w} in reverse.",
                  "Write {w} backwards.", "What is {w} spelled backwards?"),
    "first": ("What is the first letter of {w}?", "Which letter does {w} start with?", "Name the first letter of {w}.",
              "What letter does the word {w} begin with?"),
    "last": ("What is the last letter of {w}?", "Which letter does {w} end with?", "Name the last letter of {w}.",
             "What letter does the word {w} end in?"),
}


def _answer(kind: str, word: str) -> str:
    letters = "-".join(word)
    if kind == "spell":
        return f"The word {word} is spelled {letters}."
    if kind == "count":
        return f"The word {word} is spelled {letters}: {len(word)} letters."
    if kind == "backwards":
        return f"The word {word} is spelled {letters}, backwards {'-'.join(reversed(word))}."
    return f"The {kind} letter of {word} is {word[0 if kind == 'first' else -1]}."


@family("spell")
def spell(draw: Draw) -> Item:
    kind = draw.pick(("spell", "spell", "spell", "count", "count", "backwards", "first", "last"))
    word = draw.word()
    question = draw.pick(_FORMS[kind]).format(w=word)
    return Item("spell", f"{kind} {word}", ask(question), _answer(kind, word), (word,))


_SORT = ("Sort these words: {w}.", "Sort the words {w} alphabetically.",
         "Put these words in alphabetical order: {w}.",
         "Arrange in alphabetical order: {w}", "Order these words from a to z: {w}.",
         "Please sort {w} by the alphabet.")


@family("sort_words")
def sort_words(draw: Draw) -> Item:
    """Three to five words with different first letters."""
    count = draw.pick((3, 3, 4, 5))
    chosen: dict[str, str] = {}
    while len(chosen) < count:
        word = draw.word()
        chosen.setdefault(word[0], word)
    listed = list(chosen.values())
    draw.rng.shuffle(listed)
    ordered = sorted(listed)
    question = draw.pick(_SORT).format(w=", ".join(listed))
    return Item("sort_words", "sort words " + " ".join(ordered), ask(question), "Sorted: " + ", ".join(ordered) + ".",
                tuple(listed))
