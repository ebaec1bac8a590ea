"""Ids equal llama.cpp's: recorded ones always, live ones where LLAMA_LIB_DIR names its libraries."""

from __future__ import annotations

import importlib.util
import sys
import unicodedata
from pathlib import Path

import pytest

from runtime.text import Tokenizer, pretokens, unicode_ranges

PRES = ("qwen2", "qwen35")


@pytest.mark.parametrize("pre", PRES)
def test_recorded_ids(vocabularies, pre):
    strings = vocabularies.load_strings()
    items = strings.strings()
    meta, expected, digest = vocabularies.recorded(pre)
    assert len(items) == len(expected) == 10_000
    assert strings.digest(items) == digest, "the strings changed: record again with scripts/record_tokenizer_ids.py"
    tok = Tokenizer.from_gguf(meta)
    wrong = [(text, special) for (text, special), ids in zip(items, expected) if tok.encode(text, special) != ids]
    assert not wrong, f"{len(wrong)} of {len(items)} differ, first {wrong[0]!a}"


@pytest.mark.parametrize("pre", PRES)
def test_recorded_strings_come_back(vocabularies, pre):
    tok = Tokenizer.from_gguf(vocabularies.recorded(pre)[0])
    for text, special in vocabularies.load_strings().strings(2500):
        assert tok.decode_bytes(tok.encode(text, special), special=True) == text.encode()


def test_the_two_patterns_differ_on_the_strings(vocabularies):
    meta, expected, _ = vocabularies.recorded("qwen2")
    other = Tokenizer.from_gguf(vocabularies.Metadata(meta | {"tokenizer.ggml.pre": "qwen35"}))
    items = vocabularies.load_strings().strings()
    assert sum(other.encode(text, special) != ids for (text, special), ids in zip(items, expected)) > 500


def test_strings_hold_every_category(vocabularies):
    characters = {c for text, _ in vocabularies.load_strings().strings() for c in text}
    assert {unicodedata.category(c) for c in characters} == set(vocabularies.load_strings().CATEGORIES)
    assert len(vocabularies.load_strings().CATEGORIES) == 29  # all but Cs, which no text holds


@pytest.mark.parametrize("name, major", [("LETTER", "L"), ("NUMBER", "N"), ("MARK", "M")])
def test_ranges_agree_with_this_python(name, major):
    """Python 3.13 has Unicode 15.1 itself; an older one agrees on what it knows."""
    exact = unicodedata.unidata_version == unicode_ranges.UNICODE_VERSION
    if tuple(map(int, unicodedata.unidata_version.split("."))) > (15, 1, 0):
        pytest.skip("this Python is newer than the tables")
    members = {
        point
        for first, last in unicode_ranges.ranges(getattr(unicode_ranges, name))
        for point in range(first, last + 1)
    }
    for point in range(0x110000):
        category = unicodedata.category(chr(point))
        assert (category[0] == major) == (point in members) or (category == "Cn" and not exact), hex(point)


def test_white_space_is_pythons():
    spans = {point for first, last in pretokens.WHITE_SPACE for point in range(first, last + 1)}
    assert spans == {p for p in range(0x110000) if chr(p).isspace()} - {
        0x1C,
        0x1D,
        0x1E,
        0x1F,
    }  # Python adds four separators


def _peer():
    path = Path(__file__).resolve().parents[2] / "peer" / "llama.py"
    if not path.exists():
        pytest.skip("tests/peer/llama.py is not there")
    if "peer_llama" not in sys.modules:
        spec = importlib.util.spec_from_file_location("peer_llama", path)
        sys.modules["peer_llama"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["peer_llama"])
    sys.modules["peer_llama"].require()
    return sys.modules["peer_llama"]


@pytest.mark.peer
@pytest.mark.parametrize("pre", PRES)
def test_live_ids_pieces_and_ends(vocabularies, pre, tmp_path):
    llama = _peer()
    meta = vocabularies.recorded(pre)[0]
    vocabularies.write_gguf(tmp_path / "v.gguf", meta)
    tok = Tokenizer.from_gguf(meta)
    with llama.Llama(tmp_path / "v.gguf", vocab_only=True) as peer:
        for text, special in vocabularies.load_strings().strings(3000, seed=7):
            assert tok.encode(text, special) == peer.tokenize(text, parse_special=special), ascii(text)
        for token in range(tok.vocab_size):
            assert tok.token_bytes(token) == peer.token_piece(token)
            assert tok.token_bytes(token, special=True) == peer.token_piece(token, special=True)
            assert (token in tok.eog) == peer.is_eog(token)


@pytest.mark.peer
@pytest.mark.parametrize(
    "merges", [["b c", "a b", "b c", "a bc", "x y", "xy w", "d e", "q e", "a b"], ["ab c", "a b", "  x", "q  q"]]
)
def test_live_odd_vocabularies(vocabularies, small, merges, tmp_path):
    """Bytes without a token, merges without a product or a part, a merge twice, a space within a merge."""
    llama = _peer()
    tokens = [c for c in vocabularies.byte_alphabet() if c not in "zq"] + ["ab", "bc", "abc", "de"]
    meta = small(merges=merges, tokens=tokens, token_type=[1] * len(tokens), eos_token_id=0)
    vocabularies.write_gguf(tmp_path / "v.gguf", meta)
    tok = Tokenizer.from_gguf(meta)
    with llama.Llama(tmp_path / "v.gguf", vocab_only=True) as peer:
        for text in ("abc", "abcbc", "xyw", "zzqa", "qe dez", "xy xyw", "zq", "abd e", "q q", " x", ""):
            assert tok.encode(text) == peer.tokenize(text), text
