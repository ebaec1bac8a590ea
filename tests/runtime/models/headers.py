"""GGUF files with a model's header, right or wrong in one place, and zeros for weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from tests.models import raw

LAYERS, D, FF, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 64, 96, 4, 2, 16, 320


def entries(arch: str) -> dict[str, tuple[str, object]]:
    """Key -> (type, value) of a model's metadata."""
    out = {"general.architecture": ("string", arch)}
    numbers = {"block_count": LAYERS, "embedding_length": D, "feed_forward_length": FF, "context_length": 512,
               "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM}
    out |= {f"{arch}.{name}": ("u32", value) for name, value in numbers.items()}
    return out | {f"{arch}.attention.layer_norm_rms_epsilon": ("f32", 1e-6), f"{arch}.rope.freq_base": ("f32", 10000.0)}


def tensors(arch: str) -> dict[str, tuple[tuple[int, ...], str]]:
    """Name -> (shape in numpy order, type name)."""
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    layer = {"attn_norm.weight": (D,), "attn_q.weight": (q, D), "attn_k.weight": (kv, D), "attn_v.weight": (kv, D), "attn_output.weight": (D, q),
             "ffn_norm.weight": (D,), "ffn_gate.weight": (FF, D), "ffn_up.weight": (FF, D), "ffn_down.weight": (D, FF)}
    layer |= {"attn_q_norm.weight": (HEAD_DIM,), "attn_k_norm.weight": (HEAD_DIM,)} if arch == "qwen3" else {
        "attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    out = {"token_embd.weight": (VOCAB, D), "output_norm.weight": (D,), "output.weight": (VOCAB, D)}
    out |= {f"blk.{i}.{name}": shape for i in range(LAYERS) for name, shape in layer.items()}
    return {name: (shape, "F32") for name, shape in out.items()}


def write(path, arch: str = "qwen3", change: Callable[[dict, dict], None] = lambda entries, tensors: None) -> Path:
    """A file whose entries and tensors `change` has altered in place."""
    keys, infos = entries(arch), tensors(arch)
    change(keys, infos)
    at, written = 0, []
    for name, (shape, kind) in infos.items():
        elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
        written.append(raw.info(name, shape[::-1], GGMLQuantizationType[kind].value, at))
        count = 1
        for n in shape:
            count *= n
        at += -(-(count // elements * size) // 32) * 32
    packed = [raw.entry(key, kind, value) if kind != "array" else raw.array(key, "u32", value) for key, (kind, value) in keys.items()]
    Path(path).write_bytes(raw.file(packed, written, at))
    return Path(path)
