"""Q8_0 as ggml rounds it, in torch: what a weight becomes when the GGUF file is written and read again."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 32


def round_trip(weight: Tensor) -> Tensor:
    """Blocks of 32 along the last axis: scale = max|x| / 127 stored as float16, quants rounded half away from zero."""
    blocks = weight.float().reshape(-1, BLOCK)
    scale = blocks.abs().amax(1, keepdim=True) / 127
    inverse = torch.where(scale > 0, 1 / scale, torch.zeros_like(scale))
    scaled = blocks * inverse
    quants = torch.sign(scaled) * torch.floor(scaled.abs() + 0.5)
    return (quants * scale.half().float()).reshape(weight.shape)
