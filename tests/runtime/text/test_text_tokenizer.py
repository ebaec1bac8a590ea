"""Special tokens, beginning and end tokens, errors, and the time to load."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from runtime.text import TextError, Tokenizer

A, B, C, AB, ABC = 97, 98, 99, 256, 257
S = 258  # first special of `small`


def test_words_digits_and_contractions(small):
    tok = Tokenizer.from_gguf(small(merges=("1 2", "' s", "\u0120 a", "a b", "\u010a \u010a", "s '")))
    assert tok.encode("12") == [49, 50]  # digits stand alone, whatever the merges say
    assert tok.encode("'s'S") == [257, 39, 83]
    assert tok.encode("ab a") == [259, 258]
    assert tok.encode("\n\n\na") == [260, 10, A]
    assert tok.encode("") == []


def test_no_normalisation(small):
    tok = Tokenizer.from_gguf(small())
    assert tok.encode("e\u0301") == [0x65, 0xCC, 0x81]
    assert tok.encode("\u00e9") == [0xC3, 0xA9]
    assert tok.encode("\ufb01") == [0xEF, 0xAC, 0x81]


def test_specials_by_kind(small):
    tok = Tokenizer.from_gguf(small([("<c>", 3), ("<u>", 4), ("<k>", 2), ("<p>", 5)]))
    assert tok.encode("a<c>b<u><k><p>") == [A, S, B, S + 1, S + 2, 60, 112, 62]
    assert tok.encode("<c><u><k>", parse_special=False) == [60, 99, 62, S + 1, 60, 107, 62]
    assert tok.special_ids == {S, S + 1, S + 2}
    ids = [S, S + 1, S + 2, S + 3]
    assert tok.decode_bytes(ids) == b"<u>" and tok.decode_bytes(ids, special=True) == b"<c><u><k>"
    assert tok.token_text(S + 3) == "<p>" and tok.token_bytes(S + 3, special=True) == b""


def test_longer_specials_come_first(small):
    tok = Tokenizer.from_gguf(small([("<x", 4), ("<x>y", 4), ("x>", 4), ("<x>", 3), ("tw o", 4)]))
    assert tok.encode("<x>y<x>x><x") == [S + 1, S + 3, S + 2, S]
    assert tok.encode("<x>x>", parse_special=False) == [S, 62, S + 2]
    assert tok.encode("atw ob") == [A, S + 4, B]


def test_a_special_ends_the_word_before_it(small):
    tok = Tokenizer.from_gguf(small([("<u>", 4)], merges=("\u0120 \u0120", "\u0120\u0120 \u0120")))
    assert tok.encode("   a") == [256, 32, A]  # two spaces, then the one that belongs to the word
    assert tok.encode("   <u>a") == [257, S, A]  # all three: the fragment ends there


def test_bos_and_eos(small):
    plain = Tokenizer.from_gguf(small([("<s>", 3), ("<e>", 3)], bos_token_id=S, eos_token_id=S + 1))
    assert (plain.bos, plain.eos, plain.add_bos, plain.add_eos) == (S, S + 1, False, False)
    assert plain.encode("a") == [A]
    both = Tokenizer.from_gguf(
        small([("<s>", 3), ("<e>", 3)], bos_token_id=S, eos_token_id=S + 1, add_bos_token=True, add_eos_token=True)
    )
    assert both.encode("a") == [S, A, S + 1] and both.encode("") == [S, S + 1]
    assert both.encode("a", add_special=False) == [A]
    nothing = Tokenizer.from_gguf(small())
    assert nothing.bos is None and nothing.eos is None and nothing.eog == frozenset()


def test_end_of_generation(small):
    texts = [
        ("<|im_end|>", 3),
        ("<|endoftext|>", 1),
        ("<|fim_pad|>", 4),
        ("<|repo_name|>", 3),
        ("<|file_sep|>", 3),
        ("<|fim_prefix|>", 4),
        ("other", 3),
    ]
    tok = Tokenizer.from_gguf(small(texts, eos_token_id=A))
    assert tok.eog == {A, S, S + 1, S + 2, S + 3, S + 4}
    # what ends a generation is a control token whatever its type says, and so is the fill-in-the-middle set
    assert tok.encode("<|fim_pad|><|endoftext|><|fim_prefix|>", parse_special=False) == list(
        b"<|fim_pad|><|endoftext|><|fim_prefix|>"
    )
    assert tok.decode_bytes([S + 1, S + 2, S + 5]) == b""
    assert tok.eos == A and tok.token_bytes(A) == b"a"
    named = Tokenizer.from_gguf(small([("<|fim_pad|>", 4), ("<x>", 4)], fim_pad_token_id=S + 1))
    assert named.eog == {S + 1} and named.token_bytes(S) == b"<|fim_pad|>"


@pytest.mark.parametrize(
    "texts, kept", [(("<|return|>", "<|call|>"), False), (("<|calls|>", "<|flush|>"), False), (("<|return|>",), True)]
)
def test_end_inside_a_harmony_message(small, texts, kept):
    tok = Tokenizer.from_gguf(small([(text, 3) for text in (*texts, "<|end|>")]))
    assert (S + len(texts) in tok.eog) is kept


def test_bytes_and_merges_without_tokens(small, vocabularies):
    """As llama.cpp does: a byte without a token is dropped, a product without a token falls back to its bytes."""
    tokens = [c for c in vocabularies.byte_alphabet() if c not in "zq"] + ["ab", "bc", "abc", "de"]
    tok = Tokenizer.from_gguf(
        small(merges=["b c", "a b", "b c", "a bc", "x y", "xy w", "q e"], tokens=tokens, token_type=[1] * len(tokens))
    )
    y = tokens.index("y")
    assert tok.encode("abcbc") == [256, 255] and tok.encode("abd") == [254, 100]
    assert tok.encode("xyw") == [tokens.index("x"), y, tokens.index("w")]
    assert tok.encode("zzqa") == [97] and tok.encode("zq") == []


@pytest.mark.parametrize(
    "keys, words",
    [
        ({"model": None}, "has no tokenizer"),
        ({"model": "llama"}, 'only "gpt2"'),
        ({"model": 3}, "model is 3"),
        ({"pre": None}, "pre is missing"),
        ({"pre": "no-such\npre"}, "'no-such\\npre'"),
        ({"pre": 7}, "pre is no string"),
        ({"pre": "default"}, "'default'"),
        ({"merges": None}, "merges is missing"),
        ({"merges": ["a b", "ab"]}, "'ab', which is not two parts"),
        ({"merges": [" a"]}, "not two parts"),
        ({"merges": 5}, "not an array of strings"),
        ({"tokens": None}, "tokens is missing"),
        ({"tokens": []}, "tokens is empty"),
        ({"tokens": [1, 2]}, "not an array of strings"),
        ({"tokens": ["a", b"\xff"]}, "not UTF-8"),
        ({"tokens": ["a", "b", "a"], "token_type": None}, "'a' is both token 0 and token 2"),
        ({"token_type": [1, 1]}, "token_type does not hold"),
        ({"token_type": "x"}, "token_type does not hold"),
        ({"token_type": [1] * 257 + [9]}, "token_type of token 257 is 9"),
        ({"eos_token_id": 4000}, "eos_token_id is 4000"),
        ({"bos_token_id": -1}, "bos_token_id is -1"),
        ({"eos_token_id": True}, "eos_token_id is True"),
        ({"add_bos_token": True}, "bos_token_id is missing"),
        ({"add_bos_token": 1}, "not a boolean"),
        ({"add_eos_token": True}, "eos_token_id is missing"),
    ],
)
def test_refusals_are_one_line(small, keys, words):
    meta = small() | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    with pytest.raises(TextError) as caught:
        Tokenizer.from_gguf({key: value for key, value in meta.items() if value is not None})
    assert words in str(caught.value) and "\n" not in str(caught.value) and "tokenizer.ggml." in str(caught.value)


@pytest.mark.parametrize("pre", ["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "qwen35"])
def test_names_of_pre(small, pre):
    tok = Tokenizer.from_gguf(small(merges=("\u00cc \u0123", "a \u00cc\u0123"), pre=pre))  # CC 81: U+0301
    assert tok.encode("a\u0301") == ([257] if pre == "qwen35" else [A, 256])


def test_absent_types_empty_texts_and_byte_tokens(small, vocabularies):
    tokens = vocabularies.byte_alphabet() + ["", "<0x41>", "\u65e5"]
    tok = Tokenizer.from_gguf(small(tokens=tokens, token_type=None, merges=[]))
    assert tok.token_text(256) == "[EMPTY_256]" and tok.token_bytes(258) == "\u65e5".encode()
    typed = Tokenizer.from_gguf(small(tokens=tokens, token_type=[1] * 257 + [6, 0], merges=[]))
    assert typed.token_bytes(257) == b"A" and typed.token_bytes(258) == b""


def test_bad_ids_and_bad_text(small):
    tok = Tokenizer.from_gguf(small())
    for token in (-1, tok.vocab_size):
        for call in (tok.token_text, tok.token_bytes, lambda t: tok.decode_bytes([t])):
            with pytest.raises(TextError, match="outside the vocabulary"):
                call(token)
    with pytest.raises(TextError, match="surrogate"):
        tok.encode("a\ud800b")
    assert tok.encode("a\0b") == [A, 0, B]


def test_a_file_of_our_reader(vocabularies, small, tmp_path):
    from runtime.gguf import open_gguf

    meta = small([("<|im_end|>", 3), ("<u>", 4)], eos_token_id=S, add_bos_token=False)
    vocabularies.write_gguf(tmp_path / "v.gguf", meta)
    with open_gguf(tmp_path / "v.gguf") as file:
        tok = Tokenizer.from_gguf(file)
    assert tok.encode("abc<u><|im_end|>") == [ABC, S + 1, S] and tok.eog == {S}


def test_long_runs_take_linear_time(small):
    tok = Tokenizer.from_gguf(small([("<u>", 4)]))
    start = time.process_time()
    for run in (" ", "\n", "a", "!", " \n", "<u>", "\u0301", "\t "):
        assert tok.decode_bytes(tok.encode("x" + run * 100_000 + "y")) == ("x" + run * 100_000 + "y").encode()
    assert time.process_time() - start < 20


def test_loads_a_vocabulary_of_real_size(small, vocabularies):
    alphabet = vocabularies.byte_alphabet()
    merges = [f"{a} {b}" for a in alphabet for b in alphabet] + [
        f"{a}{b} {c}" for a in alphabet for b in alphabet for c in "ab"
    ]
    merges = merges[: 151_936 - 256 - 20]
    meta = small([(f"<|s{i}|>", 3) for i in range(20)], merges=merges)
    assert len(meta["tokenizer.ggml.tokens"]) == 151_936
    start = time.process_time()
    tok = Tokenizer.from_gguf(meta)
    assert time.process_time() - start < 3
    assert tok.encode("abc<|s3|>") and tok.vocab_size == 151_936


def test_imports_stay_small():
    code = (
        "import sys, runtime.text as t; assert t.TextError; heavy = {'tokenizers', 'jinja2', 'numpy', 'gguf', 'starlette', 'vulkan'};"
        "assert not heavy & set(sys.modules); t.ChatTemplate, t.Detokenizer; assert not heavy & set(sys.modules);"
        "t.Tokenizer; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "['tokenizers']", done.stderr
