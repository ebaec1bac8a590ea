"""Model variants whose logits were recorded from llama.cpp, and the recorder.

LLAMA_LIB_DIR=... python -m tests.reference.variants     records tests/reference/peer_logits.npz again
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tests.models.build import make_model

RECORDED = Path(__file__).with_name("peer_logits.npz")
YARN = {"type": "yarn", "factor": 4.0, "original_context": 64}
VARIANTS = {
    "qwen3": {"arch": "qwen3"},
    "qwen3-tied-head_dim-24": {"arch": "qwen3", "tied": True, "head_dim": 24},
    "qwen3-one-kv-head-base-1e6": {"arch": "qwen3", "heads": 6, "kv_heads": 1, "head_dim": 10, "rope_base": 1e6},
    "qwen3-no-groups-eps": {"arch": "qwen3", "kv_heads": 4, "eps": 1e-2},
    "qwen3-yarn": {"arch": "qwen3", "head_dim": 32, "rope_scaling": YARN},
    "qwen2": {"arch": "qwen2"},
    "qwen2-tied": {"arch": "qwen2", "tied": True},
    "qwen2-linear": {"arch": "qwen2", "rope_scaling": {"type": "linear", "factor": 3.0}},
    "qwen2-yarn-attn_factor": {"arch": "qwen2", "rope_base": 1e6, "rope_scaling": YARN | {"attn_factor": 0.7}},
    "qwen2-none": {"arch": "qwen2", "rope_scaling": {"type": "none", "factor": 4.0}},
}
TOKENS = [int(t) for t in np.random.default_rng(1).integers(0, 320, 100)]
KEPT = [0, 1, 2, 31, 63, 99]  # positions whose logits are recorded


def build(name: str, directory) -> Path:
    """Write the F32 model of a variant."""
    return make_model(Path(directory) / f"{name}.gguf", seed=11, **VARIANTS[name])


def record() -> None:
    """Write the peer's logits of every variant: float32 [len(KEPT), vocab]."""
    from tests.peer.llama import Llama

    logits = {}
    with tempfile.TemporaryDirectory() as directory:
        for name in VARIANTS:
            with Llama(build(name, directory), kv="f32") as peer:
                logits[name] = peer.eval(TOKENS)[KEPT]
    np.savez_compressed(RECORDED, **logits)


if __name__ == "__main__":
    record()
