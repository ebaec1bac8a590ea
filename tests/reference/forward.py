"""The numerical truth: qwen2, qwen3, qwen2moe and qwen3moe forward passes in float64 numpy over a GGUF file.

Written from the published architectures (Qwen2, Qwen3), RoPE NEOX with linear scaling and YaRN (arXiv 2309.00071), and
the GGUF key names. `rope.scaling.yarn_*` keys are honoured as their names say; llama.cpp v0.5.0 does not read them for
these architectures, and its converter does not write them.
It shares no code with the product but the file reader: weights are dequantised by PyPI gguf, one at a time, and
everything after that is f64.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np

from runtime.gguf import GGUFFile, dequantize, open_gguf

ARCHITECTURES = ("qwen2", "qwen3", "qwen2moe", "qwen3moe")


@dataclass(frozen=True)
class Hyper:
    """The numbers of a model.

    heads, kv_heads: per layer. frequencies: f64 [head_dim / 2], radians per position. mscale: factor of cos and sin.
    """

    arch: str
    n_layer: int
    d: int
    heads: list[int]
    kv_heads: list[int]
    head_dim: int
    eps: float
    frequencies: np.ndarray
    mscale: float


def read_hyper(f: GGUFFile) -> Hyper:
    """Hyper-parameters from the metadata. Raises ValueError for an unknown architecture or scaling."""
    a = f.arch
    if a not in ARCHITECTURES:
        raise ValueError(f"the reference knows {ARCHITECTURES}, not {a}")
    n_layer, d = f.require(f"{a}.block_count", int), f.require(f"{a}.embedding_length", int)
    heads = f.per_layer(f"{a}.attention.head_count", n_layer)
    kv_heads = f.per_layer(f"{a}.attention.head_count_kv", n_layer, default=None)
    head_dim = f.get(f"{a}.attention.key_length", d // heads[0])
    if f.get(f"{a}.rope.dimension_count", head_dim) != head_dim:
        raise ValueError(f"{a} rotates the whole head")
    frequencies, mscale = rope_frequencies(f, a, head_dim)
    return Hyper(
        a,
        n_layer,
        d,
        heads,
        [k or h for k, h in zip(kv_heads, heads)],
        head_dim,
        f.require(f"{a}.attention.layer_norm_rms_epsilon", float),
        frequencies,
        mscale,
    )


def rope_frequencies(f: GGUFFile, a: str, n_rot: int) -> tuple[np.ndarray, float]:
    """(radians per position of every pair, magnitude factor), with the file's scaling applied."""
    base = f.get(f"{a}.rope.freq_base", 10000.0)
    plain = base ** (-2.0 * np.arange(n_rot // 2) / n_rot)
    scaling = f"{a}.rope.scaling."
    kind = f.get(scaling + "type", "linear")
    factor = f.get(scaling + "factor", f.get(f"{a}.rope.scale_linear", 0.0)) or 1.0
    attn_factor = f.get(scaling + "attn_factor", 1.0)
    if kind == "none":
        return plain, attn_factor
    if kind == "linear":
        return plain / factor, attn_factor
    if kind != "yarn" or f.get(scaling + "yarn_log_multiplier", 0.0):
        raise ValueError(f"rope scaling {kind!r} is not in the reference")
    ext = f.get(scaling + "yarn_ext_factor", -1.0)
    ext = 1.0 if ext < 0 else ext
    if ext == 0:
        return plain / factor, attn_factor * f.get(scaling + "yarn_attn_factor", 1.0)
    context = f.get(scaling + "original_context_length", f.get(f"{a}.context_length"))
    ramp = (
        _yarn_ramp(
            n_rot, base, context, f.get(scaling + "yarn_beta_fast", 32.0), f.get(scaling + "yarn_beta_slow", 1.0)
        )
        * ext
    )
    return plain / factor * (1 - ramp) + plain * ramp, attn_factor * (1.0 + 0.1 * np.log(factor))


def _yarn_ramp(n_rot: int, base: float, context: int, beta_fast: float, beta_slow: float) -> np.ndarray:
    """1 for pairs that turn over beta_fast times in the original context (kept), 0 below beta_slow (interpolated)."""

    def pair_that_turns(times: float) -> float:
        return n_rot * np.log(context / (times * 2 * np.pi)) / (2 * np.log(base))

    low = max(0.0, np.floor(pair_that_turns(beta_fast)))
    high = min(n_rot - 1.0, np.ceil(pair_that_turns(beta_slow)))
    return 1 - np.clip((np.arange(n_rot // 2) - low) / max(0.001, high - low), 0, 1)


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(x: np.ndarray, positions: np.ndarray, hyper: Hyper) -> np.ndarray:
    """NEOX RoPE of [n, heads, head_dim]: pair (i, i + head_dim/2) turns by position * frequency[i]."""
    angle = positions[:, None, None] * hyper.frequencies
    cos, sin = np.cos(angle) * hyper.mscale, np.sin(angle) * hyper.mscale
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], -1)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal softmax attention. q [n, heads, hd], k and v [n, kv_heads, hd] -> [n, heads, hd].

    Query head h reads kv head h // (heads / kv_heads).
    """
    n, heads, hd = q.shape
    future, group = np.triu(np.ones((n, n), bool), 1), heads // k.shape[1]
    out = np.empty_like(q)
    for h in range(heads):
        scores = np.where(future, -np.inf, q[:, h] @ k[:, h // group].T / np.sqrt(hd))
        weights = np.exp(scores - scores.max(1, keepdims=True))
        out[:, h] = weights / weights.sum(1, keepdims=True) @ v[:, h // group]
    return out


class Reference:
    """A model held for several forward passes; weights are dequantised on every use and never kept.

    path: a GGUF path or an open GGUFFile. A context manager.
    """

    def __init__(self, path):
        self._own = not isinstance(path, GGUFFile)
        self.file = open_gguf(path) if self._own else path
        self.hyper = read_hyper(self.file)

    def __enter__(self) -> Reference:
        return self

    def __exit__(self, *_) -> None:
        if self._own:
            self.file.close()

    def weight(self, name: str) -> np.ndarray:
        """One tensor in f64, numpy order."""
        info = self.file.tensor(name)
        return dequantize(info.type_name, self.file.data(name), info.shape).astype(np.float64)

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        y = x @ self.weight(name + ".weight").T
        return y + self.weight(name + ".bias") if name + ".bias" in self.file.tensors else y

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return rms_norm(x, self.weight(name + ".weight"), self.hyper.eps)

    def embed(self, tokens: np.ndarray) -> np.ndarray:
        """Token embeddings f64 [n, d]; only the rows asked for are dequantised."""
        info = self.file.tensor("token_embd.weight")
        rows = self.file.data("token_embd.weight").reshape(info.shape[0], -1)[tokens].reshape(-1)
        return dequantize(info.type_name, rows, (len(tokens), info.shape[1])).astype(np.float64)

    def _attend(self, x: np.ndarray, i: int, note) -> np.ndarray:
        h, at = self.hyper, f"blk.{i}."
        q = self._linear(x, at + "attn_q").reshape(len(x), h.heads[i], h.head_dim)
        k = self._linear(x, at + "attn_k").reshape(len(x), h.kv_heads[i], h.head_dim)
        v = self._linear(x, at + "attn_v").reshape(len(x), h.kv_heads[i], h.head_dim)
        if at + "attn_q_norm.weight" in self.file.tensors:
            q, k = self._norm(q, at + "attn_q_norm"), self._norm(k, at + "attn_k_norm")
        positions = np.arange(len(x), dtype=np.float64)
        q, k = note(at + "q", rotate(q, positions, h)), note(at + "k", rotate(k, positions, h))
        mixed = note(at + "attn_mix", attention(q, k, note(at + "v", v)).reshape(len(x), -1))
        return note(at + "attn_out", self._linear(mixed, at + "attn_output"))

    def _feed(self, x: np.ndarray, i: int, note) -> np.ndarray:
        if self.hyper.arch.endswith("moe"):
            return note(f"blk.{i}.ffn_out", self._mixture(x, i, note))
        gate, up = self._linear(x, f"blk.{i}.ffn_gate"), self._linear(x, f"blk.{i}.ffn_up")
        with np.errstate(over="ignore"):
            hidden = note(f"blk.{i}.ffn_hidden", gate / (1 + np.exp(-gate)) * up)
        return note(f"blk.{i}.ffn_out", self._linear(hidden, f"blk.{i}.ffn_down"))

    def _mixture(self, x: np.ndarray, i: int, note) -> np.ndarray:
        """The experts' sum, token by token; capture gets router probabilities "ffn_probs" [n, experts] and "ffn_experts" [n, used]."""
        at, arch = f"blk.{i}.ffn_", self.hyper.arch
        scores = self._linear(x, at + "gate_inp")
        probs = np.exp(scores - scores.max(1, keepdims=True))
        probs = note(at + "probs", probs / probs.sum(1, keepdims=True))
        chosen = note(at + "experts", np.argsort(-probs, 1, kind="stable")[:, : self.file.require(f"{arch}.expert_used_count", int)])
        gate, up, down = (self.weight(f"{at}{name}_exps.weight") for name in ("gate", "up", "down"))
        out = np.zeros_like(x)
        for t, experts in enumerate(chosen):
            weights = probs[t, experts]
            if arch == "qwen3moe":
                weights = weights / weights.sum()
            for e, w in zip(experts, weights, strict=True):
                g = gate[e] @ x[t]
                out[t] += w * (down[e] @ (g / (1 + np.exp(-g)) * (up[e] @ x[t])))
        if arch == "qwen2moe":
            g, open_ = self._linear(x, at + "gate_shexp"), 1 / (1 + np.exp(-(x @ self.weight(at + "gate_inp_shexp.weight"))))
            out += open_[:, None] * self._linear(g / (1 + np.exp(-g)) * self._linear(x, at + "up_shexp"), at + "down_shexp")
        return out

    def logits(self, tokens, capture: dict[str, np.ndarray] | None = None, last_only: bool = False) -> np.ndarray:
        """Logits f64 [n, vocab] at every position of `tokens` (or [1, vocab] at the last), positions from 0.

        capture: filled with "embd", then per layer "blk.i." + attn_norm, q, k (both rotated, [n, heads, hd]), v,
        attn_mix, attn_out, attn_residual,
        ffn_norm, ffn_hidden, ffn_out, out (the residual stream), and "result_norm".
        """

        def note(name: str, value: np.ndarray) -> np.ndarray:
            if capture is not None:
                capture[name] = value
            return value

        ids = np.asarray(tokens, np.int64)
        if not len(ids) or ids.min() < 0 or ids.max() >= self.file.tensor("token_embd.weight").shape[0]:
            raise ValueError(f"tokens {ids} are empty or outside the vocabulary")
        x = note("embd", self.embed(ids))
        for i in range(self.hyper.n_layer):
            at = f"blk.{i}."
            x = note(
                at + "attn_residual", x + self._attend(note(at + "attn_norm", self._norm(x, at + "attn_norm")), i, note)
            )
            x = note(at + "out", x + self._feed(note(at + "ffn_norm", self._norm(x, at + "ffn_norm")), i, note))
        x = note("result_norm", self._norm(x[-1:] if last_only else x, "output_norm"))
        return self._linear(x, "output" if "output.weight" in self.file.tensors else "token_embd")


def forward(path, tokens, capture: dict[str, np.ndarray] | None = None, last_only: bool = False) -> np.ndarray:
    """Logits f64 [n, vocab] of a GGUF path (or open GGUFFile) for a list of token ids; see Reference.logits."""
    with contextlib.ExitStack() as stack:
        return stack.enter_context(Reference(path)).logits(tokens, capture, last_only)
