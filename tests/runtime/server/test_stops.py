"""Stop strings in streamed text, against a matcher that sees the text character by character."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.server.stops import StopMatcher, partial_at_end


def run(text: str, words, cuts) -> tuple[list[str], str | None]:
    matcher, shown, at = StopMatcher(words), [], 0
    for cut in [*sorted(cuts), len(text)]:
        shown.append(matcher.push(text[at:cut]))
        at = max(at, cut)
    shown.append(matcher.flush())
    return shown, matcher.word


def oracle(text: str, words) -> tuple[str, str | None]:
    """The first moment at which the text so far ends with a word; the longest of them."""
    for end in range(1, len(text) + 1):
        ending = [word for word in words if text[:end].endswith(word)]
        if ending:
            word = max(ending, key=len)
            return text[: end - len(word)], word
    return text, None


@settings(max_examples=300, deadline=None)
@given(
    text=st.text("aAb\né", max_size=30),
    words=st.lists(st.text("aAb\né", min_size=1, max_size=4), max_size=4),
    cuts=st.lists(st.integers(0, 30), max_size=10),
)
def test_any_cutting_gives_what_the_oracle_gives(text, words, cuts):
    shown, word = run(text, words, [min(cut, len(text)) for cut in cuts])
    assert ("".join(shown), word) == oracle(text, words)


@settings(max_examples=200, deadline=None)
@given(text=st.text("ab", max_size=12), words=st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3))
def test_partial_at_end(text, words):
    lengths = [n for n in range(1, len(text) + 1) for word in words if n < len(word) and word.startswith(text[-n:])]
    assert partial_at_end(text, words) == max(lengths, default=0)


def test_text_is_held_only_while_it_may_be_a_stop():
    matcher = StopMatcher(["STOP"])
    assert [matcher.push(c) for c in "aSTx"] == ["a", "", "", "STx"]
    assert [matcher.push(c) for c in "STOPb"] == ["", "", "", "", ""] and matcher.word == "STOP"
    assert matcher.flush() == ""


@pytest.mark.parametrize("words", [[], [""]])
def test_without_words_nothing_is_held(words):
    matcher = StopMatcher(words)
    assert matcher.push("abc") == "abc" and matcher.flush() == "" and matcher.word is None
