"""The GGUF file in Hugging Face's own class: `Qwen3ForCausalLM` in float32 holding the dequantised weights.

Reads the file with PyPI gguf and shares no code with the packages: what it says is an oracle for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import Qwen3ForCausalLM

from .chat import END_OF_TEXT, IM_END
from .export import LAYER_TENSORS
from .model import Config
from .vocab import QWEN2_PATTERN


@dataclass
class Reference:
    model: Qwen3ForCausalLM
    tokenizer: Tokenizer
    stop: frozenset[int]


@dataclass
class Greedy:
    """ids: argmax tokens up to and including the first stop token. logits: of the prompt's last position.
    margins: logit of each chosen token minus the runner-up's."""

    ids: list[int]
    logits: np.ndarray
    margins: list[float]


def _key(reader: gguf.GGUFReader, name: str):
    field = reader.get_field(name)
    if field is None:
        raise SystemExit(f"reference: the file has no key {name}")
    return field.contents()


def _config(reader: gguf.GGUFReader) -> Config:
    return Config(
        vocab=len(_key(reader, "tokenizer.ggml.tokens")), hidden=_key(reader, "qwen3.embedding_length"),
        layers=_key(reader, "qwen3.block_count"), heads=_key(reader, "qwen3.attention.head_count"),
        kv_heads=_key(reader, "qwen3.attention.head_count_kv"), head_dim=_key(reader, "qwen3.attention.key_length"),
        feed_forward=_key(reader, "qwen3.feed_forward_length"), context=_key(reader, "qwen3.context_length"),
        rope_base=_key(reader, "qwen3.rope.freq_base"), epsilon=_key(reader, "qwen3.attention.layer_norm_rms_epsilon"))


def _weights(reader: gguf.GGUFReader) -> dict[str, torch.Tensor]:
    inner = {short: long for long, short in LAYER_TENSORS.items()}
    out = {}
    for tensor in reader.tensors:
        shape = tuple(int(n) for n in reversed(tensor.shape))
        values = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape).copy())
        if tensor.name == "token_embd.weight":
            out["model.embed_tokens.weight"] = values
        elif tensor.name == "output_norm.weight":
            out["model.norm.weight"] = values
        else:
            _, layer, short, _ = tensor.name.split(".")
            out[f"model.layers.{layer}.{inner[short]}.weight"] = values
    return out


def _tokenizer(reader: gguf.GGUFReader) -> Tokenizer:
    tokens = _key(reader, "tokenizer.ggml.tokens")
    kinds = _key(reader, "tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ", 1)) for m in _key(reader, "tokenizer.ggml.merges")]
    normal = {t: i for i, (t, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind == gguf.TokenType.NORMAL}
    tokenizer = Tokenizer(models.BPE(vocab=normal, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2_PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(t, special=kind == gguf.TokenType.CONTROL, normalized=False)
                          for t, kind in zip(tokens, kinds, strict=True) if kind != gguf.TokenType.NORMAL])
    return tokenizer


def load(path: Path) -> Reference:
    """The class with the file's weights. One thread: the matrices are too small to share."""
    torch.set_num_threads(1)
    reader = gguf.GGUFReader(path)
    tokenizer = _tokenizer(reader)
    model = Qwen3ForCausalLM(_config(reader).huggingface()).float().eval()
    missing, unexpected = model.load_state_dict(_weights(reader), strict=False)
    if unexpected or missing != ["lm_head.weight"]:
        raise SystemExit(f"reference: tensors missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return Reference(model, tokenizer, frozenset(tokenizer.token_to_id(t) for t in (IM_END, END_OF_TEXT)))


@torch.no_grad()
def greedy(reference: Reference, prompt: list[int], most: int) -> Greedy:
    """One prompt, float32, with the class's own cache."""
    out = reference.model(torch.tensor([prompt]), use_cache=True)
    first = out.logits[0, -1]
    ids, margins, logits = [], [], first
    while True:
        best = logits.topk(2)
        ids.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        if ids[-1] in reference.stop or len(ids) == most:
            return Greedy(ids, first.numpy(), margins)
        out = reference.model(torch.tensor([ids[-1:]]), past_key_values=out.past_key_values, use_cache=True)
        logits = out.logits[0, -1]
