"""Sample draws from the right distribution, with a generator that is the published one and is uniform."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.sample import RING, Sample

from .oracles.sampling import chain, chi_square_p, philox, uniforms, upper_gamma
from .sampling_rig import ROW, Asked, sample

DRAWS = 50_000
LEAST_P = 1e-3  # the draws are fixed by the seed: a failure is a fault, not chance
FIRST_WORDS = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)


def drawn(device, row: np.ndarray, asked: Asked, seed: int, threads: int = 256, at_once: int = 5000) -> np.ndarray:
    """50,000 tokens at positions 1..50,000 of one sequence whose logits never change."""
    logits = device.array(np.tile(row, (at_once, 1)))
    state, ring = device.array(asked.state(seed=seed).view(np.uint32)), device.array(np.zeros(RING, np.uint32))
    tokens = []
    for first in range(1, DRAWS + 1, at_once):
        rows = np.zeros(2 * at_once, ROW)
        rows["position"][:at_once] = np.arange(first, first + at_once) - 1
        there = device.array(rows.view(np.uint32))
        Sample.stamp(VEC=1, THREADS=threads)[at_once](logits=logits, rows_of=there, state=state, ring=ring, vocab=len(row), source=0, target=at_once)
        tokens.append(there.numpy().view(ROW)["token"][at_once:])
    return np.concatenate(tokens)


def check_distribution(device, vocab: int, asked: Asked, seed: int, **how) -> None:
    row = (np.random.default_rng(vocab).standard_normal(vocab) * 2).astype(np.float32)
    kept = chain(row, *asked.chain)
    assert kept.margin > 1e-7
    counts = np.bincount(drawn(device, row, asked, seed, **how), minlength=vocab)
    assert counts.sum() == counts[kept.ids].sum() == DRAWS, "a token was drawn that the filters take away"
    assert chi_square_p(counts[kept.ids], kept.probabilities * DRAWS) > LEAST_P


@pytest.mark.parametrize(
    "vocab,asked", [(60, Asked()), (90, Asked(0.8, 40, 0.95, 0.05)), (90, Asked(1.5, 0, 0.9))], ids=["temperature", "default", "top_p"]
)
def test_draws_follow_the_distribution(device, vocab, asked, seed):
    check_distribution(device, vocab, asked, seed)


@pytest.mark.full
@pytest.mark.parametrize(
    "vocab,asked,threads",
    [
        (60, Asked(1.0, 5), 256), (90, Asked(0.7, 0, 1.0, 0.1), 256), (64, Asked(3.0, 20, 0.5), 512), (64, Asked(100.0), 512),
        (300, Asked(1.0, 140, 0.98, 0.001), 256), (300, Asked(2.5), 256), (300, Asked(0.05, 0, 0.99), 256),
    ],
)  # fmt: skip
def test_draws_follow_the_distribution_for_more_parameters(device, vocab, asked, threads, seed):
    check_distribution(device, vocab, asked, seed, threads=threads, at_once=2500)


def test_the_oracle_is_the_published_generator():
    """Known answers of Random123's kat_vectors for philox4x32, 10 rounds."""
    assert tuple(philox(np.zeros(4, np.uint64), (0, 0))) == FIRST_WORDS
    ones = np.full(4, 0xFFFFFFFF, np.uint64)
    assert tuple(philox(ones, (0xFFFFFFFF, 0xFFFFFFFF))) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    digits_of_pi = np.array([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], np.uint64)
    assert tuple(philox(digits_of_pi, (0xA4093822, 0x299F31D0))) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


@pytest.mark.parametrize("seed", [0, 1, 0xFFFFFFFF, 1 << 32, 0xFEDC_BA98_7654_3210, 2**64 - 1])
def test_the_device_draws_with_that_generator(device, seed):
    """Of 2^16 equal logits the drawn one is the upper half of the random word."""
    positions = np.array([1, 2, 77, 40959, 1 << 20, 2**31, 2**32 - 1])
    tokens = sample(np.zeros(1 << 16, np.float32), Asked(), positions, seed, device)
    assert np.array_equal(tokens, (uniforms(seed, positions) * 65536).astype(np.int64))


def test_the_generator_is_uniform(seed):
    """Over positions, over seeds, and in pairs of neighbours of both."""
    count = 1 << 17
    over_positions = uniforms(seed, np.arange(1, count + 1))
    over_seeds = np.array([uniforms(seed + i, np.array([9]))[0] for i in range(4096)])
    for numbers in (over_positions, over_seeds):
        cells = np.bincount((numbers * 256).astype(int), minlength=256)
        assert chi_square_p(cells, np.full(256, len(numbers) / 256)) > LEAST_P
        pairs = (numbers[:-1:2] * 16).astype(int) * 16 + (numbers[1::2] * 16).astype(int)
        assert chi_square_p(np.bincount(pairs, minlength=256), np.full(256, len(pairs) / 256)) > LEAST_P
    assert 0 <= over_positions.min() and over_positions.max() < 1


def test_chi_square_itself():
    """Tabulated quantiles, and a skewed count is found."""
    for degrees, value, p in ((1, 3.841, 0.05), (10, 18.307, 0.05), (10, 29.588, 0.001), (100, 149.449, 0.001), (1, 0.0158, 0.9)):
        assert abs(upper_gamma(degrees / 2, value / 2) / p - 1) < 2e-3
    expected = np.full(50, 1000.0)
    assert chi_square_p(expected, expected) == 1.0
    assert chi_square_p(expected + np.r_[400, -400, np.zeros(48)], expected) < 1e-6
