"""qwen3: Qwen3 dense. No biases; RMSNorm per head of q and k before RoPE; head_dim is its own number. HF: Qwen3ForCausalLM."""

from __future__ import annotations

from .blocks import Shapes, attention, attention_tensors, embedding, head, swiglu, swiglu_tensors
from .config import Config
from .graph import Op


def graph(c: Config) -> list[Op]:
    """The whole forward pass."""
    ops = embedding()
    for i in range(c.n_layer):
        ops += attention(i, bias=False, head_norm=True) + swiglu(i)
    return ops + head(c.tied)


def tensors(c: Config) -> Shapes:
    """Name -> shape of every tensor that the layers need."""
    need: Shapes = {}
    for i in range(c.n_layer):
        need |= attention_tensors(c, i, bias=False, head_norm=True) | swiglu_tensors(c, i)
    return need
