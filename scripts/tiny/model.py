"""The model as it is trained: the arithmetic of Qwen3 (Hugging Face `Qwen3ForCausalLM`) in plain torch.

Weights of the layers are stacked, [layers, rows, columns], so that the optimiser handles each kind at once. Tokens run
through everything but attention as one flat [tokens, hidden] batch; attention sees the rows of each length. That keeps
the compiled parts at one shape.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """Sizes; every weight row (hidden, feed_forward, heads * head_dim) is a multiple of 256."""

    vocab: int = 2560
    hidden: int = 256
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    feed_forward: int = 768
    context: int = 2048
    rope_base: float = 1e6
    epsilon: float = 1e-6

    def huggingface(self):
        """The same sizes as a transformers.Qwen3Config."""
        from transformers import Qwen3Config, __version__

        rope = {"rope_parameters": {"rope_type": "default", "rope_theta": self.rope_base}}
        if int(__version__.split(".")[0]) < 5:
            rope = {"rope_theta": self.rope_base}
        return Qwen3Config(
            vocab_size=self.vocab, hidden_size=self.hidden, intermediate_size=self.feed_forward,
            num_hidden_layers=self.layers, num_attention_heads=self.heads, num_key_value_heads=self.kv_heads,
            head_dim=self.head_dim, max_position_embeddings=self.context, rms_norm_eps=self.epsilon,
            tie_word_embeddings=True, attention_bias=False, **rope,
            use_sliding_window=False, hidden_act="silu")

    def as_dict(self) -> dict:
        return asdict(self)


# stacked name -> name inside a Hugging Face layer
LAYER_NAMES = {
    "attn_norm": "input_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
    "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm", "o": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}


def rope_table(config: Config, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin, [positions, head_dim], both halves equal (the NEOX layout)."""
    exponent = torch.arange(0, config.head_dim, 2, device=positions.device, dtype=torch.float32) / config.head_dim
    angles = positions.float()[:, None] / config.rope_base**exponent
    return torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()


def _norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * weight


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat((-second, first), -1) * sin[:, None]


def project(config: Config, x: Tensor, w: dict[str, Tensor], cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Residual [tokens, hidden] -> q, k, v [tokens, heads, head_dim]; k and v repeated to the count of q heads."""
    tokens, kind = x.shape[0], w["q"].dtype
    h = _norm(x, w["attn_norm"], config.epsilon).to(kind)
    q = F.linear(h, w["q"]).view(tokens, config.heads, config.head_dim)
    k = F.linear(h, w["k"]).view(tokens, config.kv_heads, config.head_dim)
    v = F.linear(h, w["v"]).view(tokens, config.kv_heads, config.head_dim)
    q = _rotate(_norm(q, w["q_norm"], config.epsilon), cos, sin).to(kind)
    k = _rotate(_norm(k, w["k_norm"], config.epsilon), cos, sin).to(kind)
    group = config.heads // config.kv_heads
    return q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)


def combine(config: Config, x: Tensor, attended: Tensor, w: dict[str, Tensor]) -> Tensor:
    """Output projection and feed-forward, both added to the residual."""
    x = x + F.linear(attended, w["o"]).float()
    h = _norm(x, w["ffn_norm"], config.epsilon).to(w["gate"].dtype)
    return x + F.linear(F.silu(F.linear(h, w["gate"])) * F.linear(h, w["up"]), w["down"]).float()


def attend(q: Tensor, k: Tensor, v: Tensor, shapes: list[tuple[int, int]]) -> Tensor:
    """Causal attention within each row; shapes are (rows, length) in the order of the flat tokens."""
    out, begin = [], 0
    for rows, length in shapes:
        part = slice(begin, begin + rows * length)
        begin += rows * length
        views = [t[part].view(rows, length, *t.shape[1:]).transpose(1, 2) for t in (q, k, v)]
        result = F.scaled_dot_product_attention(*views, is_causal=True)
        out.append(result.transpose(1, 2).reshape(rows * length, -1))
    return torch.cat(out)


class Tiny(nn.Module):
    """Call with flat ids [tokens], the rope tables of their positions and the rows' shapes: hidden states out."""

    def __init__(self, config: Config, compiled: bool = False):
        super().__init__()
        self.config = config
        c = config
        shapes = {
            "q": (c.heads * c.head_dim, c.hidden), "k": (c.kv_heads * c.head_dim, c.hidden),
            "v": (c.kv_heads * c.head_dim, c.hidden), "o": (c.hidden, c.heads * c.head_dim),
            "gate": (c.feed_forward, c.hidden), "up": (c.feed_forward, c.hidden), "down": (c.hidden, c.feed_forward),
        }
        self.embedding = nn.Parameter(torch.randn(c.vocab, c.hidden) * 0.02)
        self.output_norm = nn.Parameter(torch.ones(c.hidden))
        self.stacks = nn.ParameterDict()
        for name, (rows, columns) in shapes.items():
            scale = columns**-0.5 * ((2 * c.layers) ** -0.5 if name in ("o", "down") else 1.0)
            self.stacks[name] = nn.Parameter(torch.randn(c.layers, rows, columns) * scale)
        for name, size in (("attn_norm", c.hidden), ("ffn_norm", c.hidden), ("q_norm", c.head_dim),
                           ("k_norm", c.head_dim)):
            self.stacks[name] = nn.Parameter(torch.ones(c.layers, size))
        self.project = torch.compile(project, dynamic=False) if compiled else project
        self.combine = torch.compile(combine, dynamic=False) if compiled else combine

    def forward(self, ids: Tensor, cos: Tensor, sin: Tensor, shapes: list[tuple[int, int]],
                kind: torch.dtype) -> Tensor:
        """Hidden states after the last norm, [tokens, hidden] in `kind`; matrices run in `kind`, norms in float32."""
        parts = {name: (stack.to(kind) if stack.dim() == 3 else stack).unbind(0) for name, stack in self.stacks.items()}
        x = F.embedding(ids, self.embedding)
        for layer in range(self.config.layers):
            w = {name: part[layer] for name, part in parts.items()}
            q, k, v = self.project(self.config, x, w, cos, sin)
            x = self.combine(self.config, x, attend(q, k, v, shapes), w)
        return _norm(x, self.output_norm, self.config.epsilon).to(kind)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embedding.to(hidden.dtype)).float()

    def named_weights(self) -> dict[str, Tensor]:
        """The weights under their Hugging Face names (no `lm_head`: it is tied)."""
        out = {"model.embed_tokens.weight": self.embedding.detach(), "model.norm.weight": self.output_norm.detach()}
        for name, stack in self.stacks.items():
            for layer, weight in enumerate(stack.detach().unbind(0)):
                out[f"model.layers.{layer}.{LAYER_NAMES[name]}.weight"] = weight
        return out
