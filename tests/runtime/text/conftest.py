"""Fixtures of the text tests: the recorded vocabularies, small vocabularies, and a stand-in tokenizer for templates."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "data" / "tokenizer_fixture.py"


def _load(name: str, path: Path):
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def vocabularies():
    """The module tests/data/tokenizer_fixture.py."""
    return _load("tokenizer_fixture", DATA)


@pytest.fixture(scope="session")
def small(vocabularies):
    """Makes metadata: 256 bytes, the given merges' products, the given (text, type) specials; further keys override."""

    def make(specials=(), merges=("a b", "ab c"), **keys):
        tokens = vocabularies.byte_alphabet() + [m.replace(" ", "") for m in merges]
        kinds = [1] * len(tokens) + [kind for _, kind in specials]
        meta = {
            "model": "gpt2",
            "pre": "qwen2",
            "tokens": tokens + [text for text, _ in specials],
            "token_type": kinds,
            "merges": list(merges),
        } | keys
        return vocabularies.Metadata(
            {f"tokenizer.ggml.{key}": value for key, value in meta.items() if value is not None}
        )

    return make


class PlainTokenizer:
    """What a chat template needs of a tokenizer."""

    def __init__(self, bos=None, eos=None, add_bos=False, add_eos=False):
        self._texts = {1: bos, 2: eos}
        self.bos, self.eos = (1 if bos else None), (2 if eos else None)
        self.add_bos, self.add_eos = add_bos, add_eos

    def token_text(self, token: int) -> str:
        return self._texts[token]


@pytest.fixture
def template():
    """Makes a ChatTemplate from a source and ends its process after the test."""
    from runtime.text import ChatTemplate

    made = []

    def make(source, tool_use=None, tokenizer=None, **limits):
        made.append(ChatTemplate(tokenizer or PlainTokenizer(eos="<|im_end|>"), source, tool_use, **limits))
        return made[-1]

    make.tokenizer = PlainTokenizer
    yield make
    for one in made:
        one.close()
