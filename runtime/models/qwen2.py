"""qwen2: Qwen1.5, Qwen2, Qwen2.5 dense. Biases on q, k and v; no norm per head. HF: Qwen2ForCausalLM."""

from __future__ import annotations

from .blocks import attention, embedding, head, swiglu
from .config import Config
from .graph import Op


def graph(c: Config) -> list[Op]:
    """The whole forward pass."""
    ops = embedding()
    for i in range(c.n_layer):
        ops += attention(i, bias=True, head_norm=False) + swiglu(i)
    return ops + head(c.tied)


def tensors(c: Config) -> dict[str, tuple[int, ...]]:
    """Name -> shape (numpy order: rows, columns) of every tensor the graph needs."""
    q, kv = c.n_head * c.head_dim, c.n_head_kv * c.head_dim
    need = {}
    for i in range(c.n_layer):
        p = f"blk.{i}."
        need |= {p + "attn_norm.weight": (c.n_embd,), p + "attn_q.weight": (q, c.n_embd), p + "attn_k.weight": (kv, c.n_embd), p + "attn_v.weight": (kv, c.n_embd),
                 p + "attn_q.bias": (q,), p + "attn_k.bias": (kv,), p + "attn_v.bias": (kv,), p + "attn_output.weight": (c.n_embd, q),
                 p + "ffn_norm.weight": (c.n_embd,), p + "ffn_gate.weight": (c.n_ff, c.n_embd), p + "ffn_up.weight": (c.n_ff, c.n_embd), p + "ffn_down.weight": (c.n_embd, c.n_ff)}
    return need
