"""Writes tiny random GGUF models for tests: qwen2 and qwen3, any mix of weight formats, tokenizer and RoPE scaling.

Gains are chosen so that every branch matters (an attention or feed-forward block left out changes the logits by a third
of their size) and errors are not blown up: weights have a standard deviation of 0.6 / sqrt(cols). Logits have one of
about 3, with a few rows of larger norm, so that top-2 margins look like a real model's.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from runtime.gguf.layout import TYPES_BY_NAME
from tests.models import blocks
from tests.models import vocab as vocabularies

ROLES = ("token_embd", "output", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
_EMBEDDING_STD, _LOGIT_STD = 0.5, 3.0
_BRANCH_GAIN = 0.6  # standard deviation is gain / sqrt(cols)
_GAIN = {"output": _LOGIT_STD, "attn_q": 1.0, "attn_k": 1.0}
_TALL_ROWS, _TALL_GAIN = 16, 2.5  # every 16th row of the head is 2.5 times as long


def _scaling(writer: gguf.GGUFWriter, arch: str, scaling: dict) -> None:
    rest = dict(scaling)
    prefix = f"{arch}.rope.scaling."
    writer.add_string(prefix + "type", rest.pop("type"))
    writer.add_float32(prefix + "factor", rest.pop("factor"))
    if "original_context" in rest:
        writer.add_uint32(prefix + "original_context_length", rest.pop("original_context"))
    if "attn_factor" in rest:
        writer.add_float32(prefix + "attn_factor", rest.pop("attn_factor"))
    for name in ("ext_factor", "beta_fast", "beta_slow"):
        if name in rest:
            writer.add_float32(prefix + "yarn_" + name, rest.pop(name))
    if rest:
        raise ValueError(f"rope_scaling: unknown {sorted(rest)}")


def _tokenizer(writer: gguf.GGUFWriter, kind: str | None, size: int, pre: str) -> None:
    if kind is None:
        writer.add_tokenizer_model("no_vocab")
        writer.add_vocab_size(size)
        return
    words = {"byte": vocabularies.byte_vocabulary, "large": vocabularies.large_vocabulary}[kind](size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(words.tokens)
    writer.add_token_types(words.token_types)
    writer.add_token_merges(words.merges)
    writer.add_eos_token_id(words.special["<|im_end|>"])
    writer.add_bos_token_id(words.special["<|endoftext|>"])
    writer.add_pad_token_id(words.special["<|endoftext|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(vocabularies.CHAT_TEMPLATE)


def make_model(
    path,
    arch: str = "qwen3",
    *,
    n_layer: int = 2,
    d: int = 64,
    ff: int = 128,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int | None = None,
    vocab: int = 320,
    tied: bool = False,
    types: str | dict[str, str] = "F32",
    rope_scaling: dict | None = None,
    rope_base: float = 10000.0,
    eps: float = 1e-6,
    ctx: int = 512,
    seed: int = 0,
    tokenizer: str | None = None,
    pre: str = "qwen2",
    extremes: tuple[str, ...] = (),
    experts: tuple[int, int, int] | None = None,
) -> Path:
    """Write one random model and return its path.

    head_dim: d // heads by default; qwen2 admits nothing else, qwen3 any even number.
    types: one type name for every matrix, or a dict of tensor name | role (ROLES) | "default" -> type name, of which
        the most specific wins; norms and biases are F32.
    rope_scaling: {"type": "linear"|"yarn"|"none", "factor": f}, with "original_context": n, "attn_factor",
        "ext_factor", "beta_fast", "beta_slow": f as wanted.
    tokenizer: None (ids only), "byte" (vocab >= 287, ChatML template) or "large" (a full-size vocabulary).
    extremes: some of blocks.EXTREMES, put into every quantised matrix.
    experts: (count, used, width) of the moe architectures, whose router is F32 unless types names ffn_gate_inp; ff is then the width of the shared expert of qwen2moe.
    Raises ValueError for numbers that make no model, and for rows that their format's blocks do not divide.
    """
    head_dim = head_dim or d // heads
    odd = head_dim % 2 or heads % kv_heads or (arch.startswith("qwen2") and head_dim * heads != d)
    if odd or arch not in ("qwen2", "qwen3", "qwen2moe", "qwen3moe") or arch.endswith("moe") != bool(experts):
        raise ValueError(f"{arch}: d {d}, heads {heads}/{kv_heads}, head_dim {head_dim} do not make a model")
    types = {"default": types} if isinstance(types, str) else types
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_name(f"random {arch} {seed}")
    writer.add_context_length(ctx)
    writer.add_embedding_length(d)
    writer.add_block_count(n_layer)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(eps)
    writer.add_rope_freq_base(rope_base)
    if experts:
        writer.add_expert_count(experts[0])
        writer.add_expert_used_count(experts[1])
        writer.add_expert_feed_forward_length(experts[2])
        if arch == "qwen2moe":
            writer.add_expert_shared_feed_forward_length(ff)
    if arch.startswith("qwen3"):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if rope_scaling:
        _scaling(writer, arch, rope_scaling)
    _tokenizer(writer, tokenizer, vocab, pre)
    _Tensors(writer, types, rng, extremes).model(
        arch, n_layer, d, ff, heads * head_dim, kv_heads * head_dim, head_dim, vocab, tied, experts
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


class _Tensors:
    """Adds the tensors of a model in the order converters write them."""

    def __init__(
        self, writer: gguf.GGUFWriter, types: dict[str, str], rng: np.random.Generator, extremes: tuple[str, ...]
    ):
        self._writer, self._types, self._rng, self._extremes = writer, types, rng, tuple(extremes)

    def model(self, arch, n_layer, d, ff, q_rows, kv_rows, head_dim, vocab, tied, experts=None) -> None:
        tall = np.where(np.arange(vocab) % _TALL_ROWS == 3, _TALL_GAIN, 1.0)
        # A tied head would mostly predict its own input; random signs in the last norm take that correlation away.
        self._matrix("token_embd.weight", vocab, d, gain=_EMBEDDING_STD * d**0.5, row_gain=tall if tied else None)
        self._vector("output_norm.weight", d, _LOGIT_STD / (_EMBEDDING_STD * d**0.5) if tied else 1.0, signs=tied)
        if not tied:
            self._matrix("output.weight", vocab, d, row_gain=tall)
        for i in range(n_layer):
            self._layer(f"blk.{i}.", arch, d, ff, q_rows, kv_rows, head_dim, experts)

    def _layer(self, at: str, arch: str, d: int, ff: int, q_rows: int, kv_rows: int, head_dim: int, experts=None) -> None:
        self._vector(at + "attn_norm.weight", d, 1.0)
        for name, rows in (("attn_q", q_rows), ("attn_k", kv_rows), ("attn_v", kv_rows)):
            self._matrix(f"{at}{name}.weight", rows, d)
            if arch.startswith("qwen2"):
                self._vector(f"{at}{name}.bias", rows, 0.0, noise=0.3)
        if arch.startswith("qwen3"):
            self._vector(at + "attn_q_norm.weight", head_dim, 1.0)
            self._vector(at + "attn_k_norm.weight", head_dim, 1.0)
        self._matrix(at + "attn_output.weight", d, q_rows)
        self._vector(at + "ffn_norm.weight", d, 1.0)
        if experts:
            self._experts(at, arch, d, ff, *experts)
            return
        self._matrix(at + "ffn_gate.weight", ff, d)
        self._matrix(at + "ffn_up.weight", ff, d)
        self._matrix(at + "ffn_down.weight", d, ff)

    def _experts(self, at: str, arch: str, d: int, ff: int, count: int, used: int, width: int) -> None:
        """Router, stacked experts, and qwen2moe's gated shared expert."""
        self._matrix(at + "ffn_gate_inp.weight", count, d, gain=1.5, kind=self._types.get("ffn_gate_inp", "F32"))  # router logits far apart, as trained ones are
        for name, rows, cols in (("gate", width, d), ("up", width, d), ("down", d, width)):
            self._matrix(f"{at}ffn_{name}_exps.weight", rows, cols, stack=count)
        if arch == "qwen2moe":
            self._vector(at + "ffn_gate_inp_shexp.weight", d, 0.0, noise=d**-0.5)
            for name, rows, cols in (("gate", ff, d), ("up", ff, d), ("down", d, ff)):
                self._matrix(f"{at}ffn_{name}_shexp.weight", rows, cols)

    def _vector(self, name: str, n: int, mean: float, noise: float = 0.15, signs: bool = False) -> None:
        values = mean + noise * (mean or 1.0) * self._rng.standard_normal(n)
        if signs:
            values *= self._rng.choice([-1.0, 1.0], n)
        self._writer.add_tensor(name, values.astype(np.float32))

    def _matrix(
        self, name: str, rows: int, cols: int, gain: float | None = None, row_gain: np.ndarray | None = None,
        stack: int = 0, kind: str | None = None,
    ) -> None:
        """stack: so many matrices one below the other, a tensor of three dimensions. kind: a type that `types` does not change."""
        role = name.removesuffix(".weight").split(".")[-1]
        kind = kind or next(self._types[key] for key in (name, role, "default") if key in self._types)
        std = (_GAIN.get(role, _BRANCH_GAIN) if gain is None else gain) / cols**0.5
        extremes = self._extremes
        if role == "token_embd" and cols == blocks.block_size(kind)[0]:
            extremes = tuple(e for e in extremes if e != "zero")  # a token of zeros alone has logits of zero: no truth to compare with
        try:
            data = blocks.weight(kind, (rows * max(1, stack), cols), std, self._rng, extremes, row_gain)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        shape = (stack, rows, cols) if stack else (rows, cols)
        if data.dtype == np.uint8:
            self._writer.add_tensor_info(name, shape, np.dtype(np.float32), data.nbytes, raw_dtype=TYPES_BY_NAME[kind].id)
            self._writer.tensors[-1][name].tensor = data
        else:
            self._writer.add_tensor(name, data.reshape(shape))
