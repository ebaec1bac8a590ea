"""Every byte string comes back, and streams hold whole characters only."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.text import Detokenizer, TextError, Tokenizer

QUICK = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", params=["qwen2", "qwen35"])
def tok(request, vocabularies):
    return Tokenizer.from_gguf(vocabularies.recorded(request.param)[0])


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes_come_back(tok, raw):
    ids = list(raw)  # token b is byte b in these vocabularies
    assert tok.decode_bytes(ids) == raw
    assert tok.decode(ids) == raw.decode("utf-8", "replace")


@QUICK
@given(st.text(max_size=200), st.booleans())
def test_any_text_comes_back(tok, text, parse_special):
    ids = tok.encode(text, parse_special)
    assert tok.decode_bytes(ids, special=True) == text.encode()


@QUICK
@given(st.lists(st.integers(0, 17_000), max_size=60), st.booleans())
def test_streams_join_to_the_whole(tok, ids, special):
    stream = Detokenizer(tok, special)
    parts = [stream.push(token) for token in ids]
    whole = tok.decode_bytes(ids, special).decode("utf-8", "replace")
    rest = stream.flush()
    assert "".join(parts) + rest == whole and rest in ("", "\ufffd")
    assert stream.flush() == ""


@QUICK
@given(st.text(min_size=1, max_size=40))
def test_no_half_characters(tok, text):
    """Byte by byte, each push gives nothing or what is complete by then, never U+FFFD."""
    stream, seen, raw = Detokenizer(tok), "", text.encode()
    for n, byte in enumerate(raw, 1):
        seen += stream.push(byte)
        assert seen == raw[:n].decode("utf-8", "ignore")
    assert stream.flush() == "" and seen == text


def test_broken_and_cut_characters(small):
    tok = Tokenizer.from_gguf(small([("<c>", 3), ("<u>", 4)]))
    stream = Detokenizer(tok)
    assert [stream.push(b) for b in (0xF0, 0x9F, 0x98)] == ["", "", ""]
    assert stream.push(ord("a")) == "\ufffda"
    assert (
        stream.push(0xC3) == "" and stream.push(258) == "" and stream.push(0xA9) == "\u00e9"
    )  # a control token between is no text
    assert stream.push(0xE2) == "" and stream.push(259) == "\ufffd<u>"
    assert stream.push(0xE2) == "" and stream.flush() == "\ufffd" and stream.push(ord("b")) == "b"
    assert Detokenizer(tok, special=True).push(258) == "<c>"
    with pytest.raises(TextError):
        stream.push(10**6)
