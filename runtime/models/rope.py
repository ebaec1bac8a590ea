"""cos and sin of every position and pair, made once in float64 (llama.cpp's NEOX rope; linear and YaRN scaling).

YaRN: Peng et al. 2023; the ramp and the magnitude as llama.cpp and transformers compute them.
"""

from __future__ import annotations

import math

import numpy as np

from .config import Config


def rope_table(c: Config, positions: int) -> np.ndarray:
    """f32 [positions, n_rot / 2, 2]: (cos, sin), already times YaRN's magnitude."""
    inverse, magnitude = frequencies(c)
    angle = np.arange(positions)[:, None] * inverse[None, :]
    return (np.stack([np.cos(angle), np.sin(angle)], axis=-1) * magnitude).astype(np.float32)


def frequencies(c: Config) -> tuple[np.ndarray, float]:
    """f64 [n_rot / 2], radians a position of every pair with the scaling applied, and the factor of cos and sin."""
    inverse = c.rope_base ** (-2.0 * np.arange(c.n_rot // 2) / c.n_rot)
    magnitude = c.rope_attn_factor
    if c.rope_type == "linear" and c.rope_factor:
        inverse = inverse / c.rope_factor
    elif c.rope_type == "yarn" and c.rope_factor:
        ext = 1.0 if c.rope_ext_factor < 0 else c.rope_ext_factor
        ramp = _ramp(c) * ext
        inverse = inverse / c.rope_factor * (1.0 - ramp) + inverse * ramp
        if ext:
            magnitude *= 1.0 + 0.1 * math.log(c.rope_factor)
    return inverse, magnitude


def _ramp(c: Config) -> np.ndarray:
    """1 for pairs that turn often within the original context (kept), 0 for those that do not (interpolated)."""
    def pair(turns: float) -> float:
        return c.n_rot * math.log(c.rope_orig_ctx / (turns * 2 * math.pi)) / (2 * math.log(c.rope_base))

    low, high = max(0.0, math.floor(pair(c.rope_beta_fast))), min(c.n_rot - 1.0, math.ceil(pair(c.rope_beta_slow)))
    return 1.0 - np.clip((np.arange(c.n_rot // 2) - low) / max(0.001, high - low), 0.0, 1.0)
