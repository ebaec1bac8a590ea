"""Sample against llama.cpp's chain in numpy: kept sets, tokens for given numbers, and odd rows."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.sample import RING, Sample

from .oracles.sampling import Kept, chain, uniforms
from .sampling_rig import ROW, Asked, poisoned, run, sample

SEED = 0x1234_5678_9ABC_DEF0
CHAINS = (
    Asked(0.8, 40, 0.95, 0.05),
    Asked(),
    Asked(1.0, 1),
    Asked(0.7, 3, 0.5),
    Asked(1.5, 40),
    Asked(1.3, 0, 0.91),
    Asked(1.0, 0, 1.0, 0.1),
    Asked(4.0, 0, 0.999, 1e-4),
    Asked(2.0, 200, 0.97),
    Asked(3.0, 1500, 0.9999, 1e-5),
    Asked(50.0),
    Asked(1e-3, 40),
    Asked(0.0),
    Asked(-1.0, 40, 0.9),
)


def row_of(vocab: int, spread: float = 3.0) -> np.ndarray:
    return (np.random.default_rng(vocab).standard_normal(vocab) * spread).astype(np.float32)


def check(kept: Kept, numbers: np.ndarray, tokens: np.ndarray) -> None:
    """The tokens are those of the oracle; where a number lies within rounding of a border, a neighbour's token will do."""
    assert kept.margin > 1e-7, "the test's own parameters lie on a border; choose others"
    want = kept.draw(numbers)
    for i in np.flatnonzero(tokens != want):
        place, sums = kept.places(numbers[i : i + 1])[0], np.cumsum(kept.probabilities)
        near = [p for p in (place - 1, place + 1) if 0 <= p < len(sums) and abs(sums[min(p, place)] - numbers[i]) < 2e-6]
        assert tokens[i] in kept.ids[near], f"drew {tokens[i]} with {numbers[i]}, the oracle {want[i]} of {len(kept.ids)}"


def check_row(row: np.ndarray, asked: Asked, count: int = 24, first: int = 1, **how) -> None:
    positions = np.arange(first, first + count)
    check(chain(row, *asked.chain), uniforms(SEED, positions), sample(row, asked, positions, SEED, **how))


def decided(row: np.ndarray) -> list[Asked]:
    """The chains none of whose borders is within rounding of a token of this row."""
    chosen = [asked for asked in CHAINS if chain(row, *asked.chain).margin > 1e-7]
    assert len(chosen) > len(CHAINS) - 3
    return chosen


@pytest.mark.parametrize("vocab", [1, 2, 63, 320, 4096, 5000])
def test_tokens_are_the_oracles(device, vocab):
    for asked in CHAINS:
        check_row(row_of(vocab), asked, device=device)


@pytest.mark.parametrize("spread", [3.0, 0.1])
def test_tokens_are_the_oracles_on_a_full_vocabulary(device, spread):
    row = row_of(151936, spread)
    for asked in decided(row)[:9] if spread == 3.0 else (Asked(0.8, 40, 0.95, 0.05), Asked(), Asked(1.0, 0, 0.9)):
        check_row(row, asked, count=4, device=device)


@pytest.mark.full
@pytest.mark.parametrize("threads,vec", [(256, 4), (512, 1), (512, 4)])
@pytest.mark.parametrize("vocab", [4, 320, 4096, 151936, 262144])
def test_every_stamp(device, vocab, threads, vec):
    for asked in decided(row_of(vocab)):
        check_row(row_of(vocab), asked, count=6, device=device, threads=threads, vec=vec)


def test_threads_and_vector_loads_change_nothing(device):
    """Sums are integers: the order in which lanes add cannot matter."""
    positions = np.arange(1, 41)
    for asked in (Asked(0.8, 40, 0.95, 0.05), Asked(2.0), Asked(1.5, 700, 0.99)):
        row = row_of(2600)
        small = sample(row, asked, positions, SEED, device)
        assert np.array_equal(small, sample(row, asked, positions, SEED, device, threads=512, vec=4))


@pytest.mark.parametrize("vocab,size", [(1, 32), (2, 4), (63, 64), (320, 16), (700, 8)])
def test_the_interpreter_agrees(device, vocab, size):
    for asked in CHAINS if vocab < 300 else CHAINS[::3]:
        positions = np.arange(5, 13)
        ours = sample(row_of(vocab), asked, positions, SEED, size=size)
        assert np.array_equal(ours, sample(row_of(vocab), asked, positions, SEED, device))


def spread_positions(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions whose numbers lie nearest to (i + 0.5) / count, and the numbers."""
    numbers = uniforms(SEED, np.arange(1, 200001))
    order = np.argsort(numbers)
    picked = order[np.searchsorted(numbers[order], (np.arange(count) + 0.5) / count)]
    return picked + 1, numbers[picked]


@pytest.mark.parametrize(
    "vocab,asked",
    [
        (63, Asked(1, 40)), (320, Asked(1, 0, 0.9)), (320, Asked(1, 100, 0.95)), (5000, Asked(1, 128)), (5000, Asked(1, 129)),
        (5000, Asked(1, 300, 1.0, 0.001)), (5000, Asked(1, 0, 0.8)), (5000, Asked(1, 0, 1.0, 0.003)), (700, Asked()), (5000, Asked(1, 40, 0.9, 0.02)),
    ],
)  # fmt: skip
def test_kept_sets_are_exact(device, vocab, asked):
    """So hot that all that is kept is equally likely: numbers spread evenly draw every kept token once, best first."""
    row = row_of(vocab)
    kept = chain(row, *asked.chain)
    hot = Asked(1e9, asked.top_k, asked.top_p, asked.min_p)
    positions, _ = spread_positions(len(kept.ids))
    assert kept.margin > 1e-6
    assert np.array_equal(sample(row, hot, positions, SEED, device), kept.ids)


def test_ties_at_the_borders_go_to_the_lower_id(device):
    row = np.repeat(np.array([1.0, 3.0, 2.0, 0.0], np.float32), 30)  # ids 30-59 best, then 60-89, 0-29, 90-119
    for asked in (Asked(1e9, 1), Asked(1e9, 29), Asked(1e9, 31), Asked(1e9, 75), Asked(1e9, 91), Asked(1e9, 0, 0.5005), Asked(1e9, 0, 0.701), Asked(1e9, 70, 0.95), Asked(1e9, 0, 1, 0.3)):
        kept = chain(row, 1.0, *asked.chain[1:])
        positions, _ = spread_positions(len(kept.ids))
        assert np.array_equal(sample(row, asked, positions, SEED, device), kept.ids), asked


@pytest.mark.parametrize("asked", [Asked(1, 40), Asked(1, 1), Asked(), Asked(1, 0, 0.2501), Asked(1, 2000, 0.5001, 0.9), Asked(0.0)])
def test_a_row_of_equals(device, asked):
    """Far more ties than workgroup memory has room for."""
    check_row(np.full(3000, -2.5, np.float32), asked, device=device)


@pytest.mark.parametrize("asked", [Asked(1, 40), Asked(2, 100, 0.9), Asked(1.5, 0, 0.99), Asked(0.0)])
def test_the_best_tokens_lie_together(device, asked):
    """In one lane of 256 (every 256th token), or in the last part of the row."""
    spikes = np.zeros(6000, np.float32)
    spikes[7::256] = 9 + row_of(len(spikes[7::256]), 0.5)
    check_row(spikes, asked, device=device)
    tail = np.zeros(5003, np.float32)
    tail[-200:] = 9 + row_of(200, 0.5)
    check_row(tail, asked, device=device)
    check_row(tail[::-1].copy(), asked, device=device)


@pytest.mark.parametrize("asked", [Asked(0.9, 40, 0.9, 0.05), Asked(), Asked(1.0, 300), Asked(0.0)])
def test_logits_that_are_no_numbers_are_never_drawn(device, asked):
    row = row_of(700)
    row[::3], row[1::5] = np.nan, -np.inf
    row[2], row[4] = -np.nan, np.float32(-0.0)
    check_row(row, asked, device=device)


@pytest.mark.parametrize("asked", [Asked(1.0, 600), Asked(2.0, 600, 0.97), Asked(3.0, 600, 1.0, 0.01)])
def test_a_top_k_of_more_than_there_are_numbers(device, asked):
    row = row_of(5000)
    row[np.arange(5000) % 12 != 0] = -np.inf  # 417 are left
    check_row(row, asked, device=device)


@pytest.mark.parametrize("asked", [Asked(0.9, 40, 0.91, 0.05), Asked(), Asked(1.0, 300), Asked(1.0, 0, 0.5013), Asked(0.0)])
def test_rows_at_the_ends_of_f32(device, asked):
    largest = np.finfo(np.float32).max
    for row in (np.full(400, -largest), np.full(400, largest), np.full(400, np.inf), np.r_[np.full(399, -largest), largest], np.r_[[-np.inf] * 399, 1e-45],
                np.r_[[np.nan] * 350, [-largest] * 50], np.r_[[-0.0] * 200, [0.0] * 200]):  # fmt: skip
        check_row(row.astype(np.float32), asked, count=8, device=device)


@pytest.mark.parametrize("nothing", [np.nan, -np.inf])
def test_a_row_without_a_number_gives_token_0(device, nothing):
    for asked in (Asked(), Asked(0.8, 40, 0.95, 0.05), Asked(0.0), Asked(1, 200)):
        for vocab in (1, 300, 2000):
            assert not sample(np.full(vocab, nothing, np.float32), asked, np.arange(1, 4), SEED, device).any()


def test_extreme_parameters(device):
    row = row_of(400)
    for asked in (Asked(1e30), Asked(1e-30, 40), Asked(1e-38), Asked(1, 40, 0.0), Asked(1, 40, -1.0), Asked(1, 40, 1e-9), Asked(1, 40, 1.0, 1.0), Asked(1, 40, 1.0, 7.0),
                  Asked(1, 0xFFFFFFFF), Asked(1, 400), Asked(1, 401), Asked(1, 399), Asked(1, 40, 2.0, -3.0), Asked(1, 0, 0.9999999, 1e-38)):  # fmt: skip
        positions = np.arange(1, 17)
        # the chain keeps the first of a top_p <= 0, all of a top_k >= vocab
        kept = chain(row, asked.temperature, min(asked.top_k, 400), max(asked.top_p, 1e-12), asked.min_p)
        assert np.array_equal(sample(row, asked, positions, SEED, device), kept.draw(uniforms(SEED, positions))), asked


def test_a_temperature_that_is_no_number_takes_the_best_token(device):
    row = row_of(320)
    assert (sample(row, Asked(np.nan), np.arange(1, 9), SEED, device) == row.argmax()).all()


def test_one_row_at_a_time_or_many(device):
    """The draw depends on seed, position and logits alone: neither on the other rows nor on where the row lies."""
    rng = np.random.default_rng(5)
    logits, positions = (rng.standard_normal((12, 320)) * 3).astype(np.float32), rng.integers(1, 1 << 20, 12)
    asked = Asked(1.2, 50, 0.95)
    together = sample(logits, asked, positions, SEED, device)
    assert np.array_equal(together, [sample(logits[i], asked, positions[i : i + 1], SEED, device)[0] for i in range(12)])
    assert np.array_equal(together, sample(logits, asked, positions, SEED, device))
    assert not np.array_equal(together, sample(logits, asked, positions, SEED + 1, device))
    assert not np.array_equal(together, sample(logits, asked, positions + 1, SEED, device))


def test_slots_rows_and_the_ring(device):
    """Each row draws with the parameters of its slot; its record, count and ring entry are written, all else is left alone."""
    slots, drawn = 5, np.array([0, 3, RING - 1, RING, 123456789], np.uint32)
    asked = [Asked(0.0), Asked(1.3, 7), Asked(2.0, 0, 0.9), Asked(1.0, 0, 1.0, 0.2), Asked(0.8, 40, 0.95, 0.05)]
    state = np.concatenate([a.state(seed=SEED + i) for i, a in enumerate(asked)])
    state["drawn"], state["reserved"] = drawn, 77
    before = state.copy()
    rows, ring = poisoned(20, ROW), poisoned(slots * RING)
    order = np.array([3, 0, 4, 1, 2])
    rows[4:9]["slot"], rows[4:9]["position"], rows[4:9]["table"], rows[4:9]["token"] = order, 10 + order, 1000 + order, 5
    untouched, logits = rows.copy(), np.stack([row_of(300 + i)[:300] for i in range(slots)])
    run(Sample.stamp(THREADS=256), slots, device, logits=logits, rows_of=rows, state=state, ring=ring, vocab=300, source=4, target=13)
    for t, slot in enumerate(order):
        want = chain(logits[t], *asked[slot].chain).draw(uniforms(SEED + int(slot), np.array([11 + slot])))[0]
        assert tuple(rows[13 + t]) == (want, 11 + slot, 1000 + slot, slot)
        assert ring[slot * RING + drawn[slot] % RING] == want
    assert np.array_equal(rows[:13], untouched[:13]) and np.array_equal(rows[18:], untouched[18:])
    assert (ring == poisoned(1)[0]).sum() == slots * (RING - 1)
    before["drawn"] += 1
    assert np.array_equal(state, before)


def test_a_step_may_write_the_row_that_it_reads(device):
    """Decode: source and target are the same record, twice in a row."""
    rows, ring, state = np.zeros(1, ROW), poisoned(RING), Asked(1.0, 20).state(seed=SEED)
    rows["position"] = 41
    row = row_of(320)
    for step in range(2):
        run(Sample.stamp(THREADS=256), 1, device, logits=row, rows_of=rows, state=state, ring=ring, vocab=320, source=0, target=0)
        assert rows["position"] == 42 + step and state["drawn"] == step + 1
    assert np.array_equal(ring[:2], chain(row, 1.0, 20).draw(uniforms(SEED, np.array([42, 43]))))
