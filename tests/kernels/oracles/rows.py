"""RMSNorm, rotary embedding and the paged cache's layout in f64."""

from __future__ import annotations

import numpy as np

PAGE = 64  # tokens of a page


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis, in f64."""
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + np.float64(np.float32(eps))) * weight.astype(np.float64)


def rotate(x: np.ndarray, positions: np.ndarray, n_rot: int, base: float) -> np.ndarray:
    """x [T, heads, HD] turned in the NEOX pairing: channel i with i + n_rot / 2; channels past n_rot stay."""
    half = n_rot // 2
    angle = positions[:, None, None] * base ** (-2.0 * np.arange(half) / n_rot)
    a, b = x[..., :half], x[..., half:n_rot]
    turned = [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle), x[..., n_rot:]]
    return np.concatenate(turned, -1)


def angles(positions: int, n_rot: int, base: float) -> np.ndarray:
    """f32 [positions, n_rot / 2, 2] of (cos, sin), as a loader makes them in f64."""
    angle = np.arange(positions)[:, None] * base ** (-2.0 * np.arange(n_rot // 2) / n_rot)
    return np.stack([np.cos(angle), np.sin(angle)], -1).astype(np.float32)


def place(position: int, table: np.ndarray, first: int) -> tuple[int, int]:
    """(page, token in the page) of a position of the sequence whose table begins at entry `first`."""
    return int(table[first + position // PAGE]), position % PAGE


def round_up(n: int, step: int) -> int:
    return -(-n // step) * step
