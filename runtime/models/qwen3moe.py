"""qwen3moe: Qwen3 with experts. Attention as in qwen3; router weights are renormalised. HF: Qwen3MoeForCausalLM with norm_topk_prob."""

from __future__ import annotations

from .blocks import Shapes, attention, attention_tensors, embedding, experts, experts_tensors, head
from .config import Config
from .graph import Op


def graph(c: Config) -> list[Op]:
    """The whole forward pass."""
    ops = embedding()
    for i in range(c.n_layer):
        ops += attention(i, bias=False, head_norm=True) + experts(i, norm=True)
    return ops + head(c.tied)


def tensors(c: Config) -> Shapes:
    """Name -> shape of every tensor that the layers need."""
    need: Shapes = {}
    for i in range(c.n_layer):
        need |= attention_tensors(c, i, bias=False, head_norm=True) | experts_tensors(c, i)
    return need
