"""llama.cpp's sampler chain in numpy float64, and Philox4x32-10: what kernels/sample.py must do. Knows nothing of it.

Candidates are ordered by (logit descending, id ascending); -inf and NaN are no candidates, +inf is the largest finite f32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Kept:
    """What the filters left of a row, best first, and the probabilities to draw with.

    margin: distance of the nearest border (cumulative probability to top_p, relative probability to min_p) from deciding
    otherwise; a float32 device may differ from this oracle where it is near rounding.
    """

    ids: np.ndarray
    probabilities: np.ndarray
    margin: float

    def draw(self, uniform: np.ndarray) -> np.ndarray:
        """Ids drawn with numbers in [0, 1): the first whose cumulative probability exceeds the number."""
        return self.ids[self.places(uniform)]

    def places(self, uniform: np.ndarray) -> np.ndarray:
        """The same as places in the order of the candidates."""
        sums = np.cumsum(self.probabilities)
        return np.minimum(np.searchsorted(sums, np.asarray(uniform) * sums[-1], side="right"), len(self.ids) - 1)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def chain(logits: np.ndarray, temperature: float, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> Kept:
    """top_k, top_p, min_p, temperature on one row of f32 logits. top_k 0, top_p >= 1, min_p <= 0 are off."""
    largest = np.float64(np.finfo(np.float32).max)
    x = np.minimum(logits.astype(np.float64), largest)
    ids = np.flatnonzero(x > -np.inf)  # neither -inf nor NaN
    if not len(ids):
        return Kept(np.array([0]), np.ones(1), 1.0)
    ids = ids[np.lexsort((ids, -x[ids]))]
    if temperature <= 0:
        return Kept(ids[:1], np.ones(1), 1.0)
    temperature, top_p, min_p = (float(np.float32(v)) for v in (temperature, top_p, min_p))
    if top_k > 0:
        ids = ids[:top_k]
    margins = [1.0]
    if top_p < 1:
        sums = np.cumsum(softmax(x[ids]))
        margins.append(np.abs(sums[:-1] - top_p).min(initial=1.0))
        ids = ids[: 1 + np.searchsorted(sums[:-1], top_p, side="left")]
    if min_p > 0:
        relative = np.exp(x[ids] - x[ids[0]])
        margins.append(np.abs(relative[1:] / min(min_p, 1.0) - 1).min(initial=1.0))
        ids = ids[: max(1, int((relative >= min_p).sum()))]
    return Kept(ids, softmax(x[ids] / temperature), float(min(margins)))


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Philox4x32-10 of counters [..., 4] (Salmon et al., SC 2011): words u64 [..., 4] below 2^32."""
    c = [np.asarray(counter)[..., i].astype(np.uint64) for i in range(4)]
    k = [np.uint64(v) for v in key]
    for _ in range(10):
        one, two = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(two >> np.uint64(32)) ^ c[1] ^ k[0], two & MASK, (one >> np.uint64(32)) ^ c[3] ^ k[1], one & MASK]
        k = [(k[0] + np.uint64(0x9E3779B9)) & MASK, (k[1] + np.uint64(0xBB67AE85)) & MASK]
    return np.stack(c, axis=-1)


def uniforms(seed: int, positions: np.ndarray) -> np.ndarray:
    """The number in [0, 1) that each position of a sequence is drawn with."""
    counters = np.zeros((len(positions), 4), np.uint64)
    counters[:, 0] = positions
    return philox(counters, (seed & 0xFFFFFFFF, seed >> 32))[:, 0] / 2.0**32


def chi_square_p(counts: np.ndarray, expected: np.ndarray) -> float:
    """Probability of a chi-square at least as large, for counts against expected counts. Cells below 5 are joined."""
    order = np.argsort(expected)[::-1]
    counts, expected = counts[order].astype(np.float64), expected[order]
    cut = int((expected >= 5).sum())
    if expected[cut:].sum() > 0:
        while cut > 1 and expected[cut:].sum() < 5:
            cut -= 1
        counts = np.append(counts[:cut], counts[cut:].sum())
        expected = np.append(expected[:cut], expected[cut:].sum())
    if len(counts) < 2:
        return 1.0
    return upper_gamma((len(counts) - 1) / 2, float(((counts - expected) ** 2 / expected).sum()) / 2)


def upper_gamma(a: float, x: float) -> float:
    """Regularised upper incomplete gamma function Q(a, x): series below a + 1, continued fraction above (Lentz)."""
    from math import exp, lgamma, log

    if x <= 0:
        return 1.0
    scale = exp(a * log(x) - x - lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while abs(term) > 1e-16 * abs(total):
            n += 1
            term *= x / n
            total += term
        return max(0.0, 1 - scale * total)
    b = x + 1 - a
    c, d = 1e300, 1 / b
    h = d
    for i in range(1, 10000):
        an = -i * (i - a)
        b += 2
        d = 1 / (an * d + b)
        c = b + an / c
        h *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return scale * h
