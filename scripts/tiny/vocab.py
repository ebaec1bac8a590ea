"""Trains the byte-level BPE vocabulary on training items alone.

    python -m scripts.tiny.vocab --out build/tiny/tokenizer.json

The pre-token pattern is Qwen2's (`tokenizer.ggml.pre` = "qwen2"): digits are single tokens, letters take one leading
character. There is no normaliser, as llama.cpp applies none. Ids: 256 bytes, merges, then Qwen3's added tokens.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .chat import SPECIAL_TOKENS, render
from .generate import train_stream

VOCAB_SIZE = 2560
CORPUS_ITEMS = 120_000
CORPUS_SHARD = -1           # a shard of the stream that training never uses

QWEN2_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                 r"|\s*[\r\n]+|\s+(?!\S)|\s+")
_SPECIAL = re.compile("|".join(re.escape(name) for name, _ in SPECIAL_TOKENS))


def corpus(count: int):
    """Rendered training conversations, a tenth of them with tools."""
    plain, tools = train_stream(CORPUS_SHARD)
    for index in range(count):
        item = next(tools) if index % 10 == 9 else next(plain)
        # the special tokens are cut out before BPE sees the text: what stands between them is what it may merge
        yield from _SPECIAL.split(render(item.messages, item.tools) + item.answer)


def train(count: int = CORPUS_ITEMS, size: int = VOCAB_SIZE) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2_PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size - len(SPECIAL_TOKENS), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(count), trainer)
    tokenizer.add_tokens([AddedToken(name, special=control, normalized=False) for name, control in SPECIAL_TOKENS])
    if tokenizer.get_vocab_size() != size:
        raise SystemExit(f"vocab: got {tokenizer.get_vocab_size()} tokens, want {size}: enlarge the corpus")
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    train().save(str(arguments.out))


if __name__ == "__main__":
    main()
