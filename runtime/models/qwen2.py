"""qwen2: Qwen1.5, Qwen2, Qwen2.5 dense. Biases on q, k and v; no norm per head. HF: Qwen2ForCausalLM."""

from __future__ import annotations

from .blocks import Shapes, attention, attention_tensors, embedding, head, swiglu, swiglu_tensors
from .config import Config
from .graph import Op


def graph(c: Config) -> list[Op]:
    """The whole forward pass."""
    ops = embedding()
    for i in range(c.n_layer):
        ops += attention(i, bias=True, head_norm=False) + swiglu(i)
    return ops + head(c.tied)


def tensors(c: Config) -> Shapes:
    """Name -> shape of every tensor that the layers need."""
    need: Shapes = {}
    for i in range(c.n_layer):
        need |= attention_tensors(c, i, bias=True, head_norm=False) | swiglu_tensors(c, i)
    return need
