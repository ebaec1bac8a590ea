"""Attention of single queries over keys and values in pages, in f64."""

from __future__ import annotations

import numpy as np

from .rows import PAGE


def attend(q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """softmax(q k^T) v. q [heads, hd], already scaled; keys, values [count, kv_heads, hd]; returns f64 [heads, hd]."""
    group = len(q) // keys.shape[1]
    keys, values = (np.repeat(a.astype(np.float64), group, 1) for a in (keys, values))
    scores = np.einsum("hd,chd->hc", q.astype(np.float64), keys)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return np.einsum("hc,chd->hd", weights / weights.sum(1, keepdims=True), values)


def gather(pages: np.ndarray, table: np.ndarray, first: int, count: int, hd: int) -> np.ndarray:
    """[count, kv_heads, hd]: the first `count` positions of a sequence. pages [page, kv_head, PAGE, HDP]."""
    numbers = table[first : first + -(-count // PAGE)]
    return pages[numbers].transpose(0, 2, 1, 3).reshape(-1, pages.shape[1], pages.shape[3])[:count, :, :hd]


def combine(partial: np.ndarray, stats: np.ndarray) -> np.ndarray:
    """Join of splits. partial [.., splits, hd]: sums weighted by exp(score - maximum); stats [.., splits, 2]: (maximum, sum).
    Splits whose sum is 0 are empty and their partial sums undefined."""
    maxima, sums = stats[..., 0].astype(np.float64), stats[..., 1].astype(np.float64)
    factors = np.where(sums > 0, np.exp(maxima - np.where(sums > 0, maxima, -np.inf).max(-1, keepdims=True)), 0)
    top = np.where(sums[..., None] > 0, partial.astype(np.float64), 0) * factors[..., None]
    return top.sum(-2) / (factors * sums).sum(-1)[..., None]
