"""qwen2moe: Qwen1.5-MoE, Qwen2-57B-A14B. Attention as in qwen2; router weights as the softmax gives them; a gated shared expert.

HF: Qwen2MoeForCausalLM.
"""

from __future__ import annotations

from .blocks import (
    Shapes,
    attention,
    attention_tensors,
    embedding,
    experts,
    experts_tensors,
    head,
    shared_expert,
    shared_expert_tensors,
)
from .config import Config
from .graph import Op


def graph(c: Config) -> list[Op]:
    """The whole forward pass."""
    ops = embedding()
    for i in range(c.n_layer):
        ops += attention(i, bias=True, head_norm=False) + experts(i, norm=False) + shared_expert(i)
    return ops + head(c.tied)


def tensors(c: Config) -> Shapes:
    """Name -> shape of every tensor that the layers need."""
    need: Shapes = {}
    for i in range(c.n_layer):
        need |= attention_tensors(c, i, bias=True, head_norm=False) | experts_tensors(c, i) | shared_expert_tensors(c, i)
    return need
