"""Argmax and Greedy: the best token, ties, odd logits, and the bookkeeping of rows, slots and the ring."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.sample import PIECE, RING, Argmax, Greedy

from .sampling_rig import ROW, Asked, poisoned, run


def best_of(logits: np.ndarray, device, size: int = 32) -> np.ndarray:
    """The token of each row of f32 [T, vocab]."""
    logits = np.ascontiguousarray(np.atleast_2d(logits), np.float32)
    t, vocab = logits.shape
    pieces = -(-vocab // PIECE)
    best, rows, ring = poisoned(2 * t * pieces), poisoned(2 * t, ROW), poisoned(RING)
    rows["slot"][:t], rows["position"][:t] = 0, np.arange(t)
    run(Argmax.stamp(), (pieces, t), device, size, logits=logits, best=best, vocab=vocab)
    run(Greedy.stamp(), t, device, size, best=best, rows_of=rows, state=Asked().state(), ring=ring, pieces=pieces, source=0, target=t)
    assert np.array_equal(rows["position"][t:], np.arange(t) + 1)
    return rows["token"][t:].astype(np.int64)


@pytest.fixture(params=["interpreter", "device"])
def place(request):
    return None if request.param == "interpreter" else request.getfixturevalue("device")


@pytest.mark.parametrize("vocab", [1, 2, 63, 255, 256, 257, 4095, 4096, 4097, 5000, 12289])
def test_the_largest_logit_wins(place, vocab):
    logits = np.random.default_rng(vocab).standard_normal((5, vocab)).astype(np.float32)
    logits[1, 0], logits[2, -1], logits[3, vocab // 2] = 99, 99, 99
    logits[4] -= 1e6
    assert np.array_equal(best_of(logits, place), logits.argmax(axis=1))


def test_a_full_vocabulary(device):
    logits = np.random.default_rng(3).standard_normal((3, 151936)).astype(np.float32)
    assert np.array_equal(best_of(logits, device), logits.argmax(axis=1))
    logits = np.random.default_rng(4).integers(0, 3, (3, 262144)).astype(np.float32)  # a third of each row are the best
    assert np.array_equal(best_of(logits, device), logits.argmax(axis=1))


@pytest.mark.parametrize("size", [4, 64])
def test_any_subgroup_size(size):
    logits = np.random.default_rng(size).integers(-4, 5, (2, 5000)).astype(np.float32)
    assert np.array_equal(best_of(logits, None, size), logits.argmax(axis=1))


@pytest.mark.parametrize("places", [(0, 1), (63, 64), (10, 266), (4095, 4096), (100, 8292), (4999, 9000), (257, 4353, 8191)])
def test_the_lower_id_wins_among_equals(place, places):
    """In neighbouring lanes, in one lane, in different pieces."""
    logits = np.full((1, 9001), -7.25, np.float32)
    logits[0, list(places)] = 2.5
    assert best_of(logits, place)[0] == places[0]
    assert best_of(np.full((1, 9001), -7.25), place)[0] == 0


def test_zeros_of_both_signs_are_equal(place):
    logits = np.full(300, -0.0, np.float32)
    logits[200] = 0.0
    assert best_of(logits, place)[0] == 0
    assert best_of(-logits, place)[0] == 0


@pytest.mark.parametrize("nothing", [np.nan, -np.nan, -np.inf])
def test_what_is_no_number_loses(place, nothing):
    """Against any number, the lowest too; where there is nothing else, token 0 is the answer."""
    for vocab in (1, 64, 4097, 9000):
        row = np.full(vocab, nothing, np.float32)
        assert best_of(row, place)[0] == 0
        row[vocab // 2] = -np.finfo(np.float32).max
        assert best_of(row, place)[0] == vocab // 2
    mixed = np.full(5000, nothing, np.float32)
    mixed[1::2] = np.random.default_rng(0).standard_normal(2500)
    assert best_of(mixed, place)[0] == np.nanargmax(mixed)


def test_infinity_wins_and_equals_the_largest_number(place):
    row = np.zeros(5000, np.float32)
    row[4321] = np.inf
    assert best_of(row, place)[0] == 4321
    row[77] = np.finfo(np.float32).max
    assert best_of(row, place)[0] == 77


def test_denormal_numbers_are_told_apart(place):
    """By their bits: a device may flush them when it computes."""
    row = np.zeros(300, np.float32)
    row[[5, 9, 200]] = np.array([1, 3, 2], np.uint32).view(np.float32)
    assert best_of(row, place)[0] == 9


def test_slots_rows_and_the_ring(place):
    """Each row's record, its slot's count and its ring entry are written; all else is left alone."""
    slots, vocab = 4, 4100
    drawn = np.array([0, RING - 1, RING, 2**32 - 1], np.uint32)
    state = np.concatenate([Asked(0.5 + i, i).state(seed=i) for i in range(slots)])
    state["drawn"], state["reserved"] = drawn, 9
    before, logits = state.copy(), np.zeros((slots, vocab), np.float32)
    winners, order = np.array([7, 4099, 0, 4096]), np.array([2, 0, 3, 1])
    logits[np.arange(slots), winners] = 1
    rows, ring, best = poisoned(16, ROW), poisoned(slots * RING), poisoned(2 * 2 * slots)
    rows["slot"][3:7], rows["position"][3:7], rows["table"][3:7] = order, 50 + order, 300 + order
    untouched = rows.copy()
    run(Argmax.stamp(), (2, slots), place, logits=logits, best=best, vocab=vocab)
    run(Greedy.stamp(), slots, place, best=best, rows_of=rows, state=state, ring=ring, pieces=2, source=3, target=9)
    for t, slot in enumerate(order):
        assert tuple(rows[9 + t]) == (winners[t], 51 + slot, 300 + slot, slot)
        assert ring[slot * RING + int(drawn[slot]) % RING] == winners[t]
    assert np.array_equal(rows[:9], untouched[:9]) and np.array_equal(rows[13:], untouched[13:])
    assert (ring == poisoned(1)[0]).sum() == slots * (RING - 1)
    before["drawn"] += np.uint32(1)  # wraps
    assert np.array_equal(state, before)


def test_a_step_may_write_the_row_that_it_reads(place):
    """Decode: source and target are the same record; the ring fills in order."""
    rows, ring, state = np.zeros(1, ROW), poisoned(RING), Asked().state()
    rows["position"] = 9
    for step, winner in enumerate((5, 80, 3)):
        logits, best = np.zeros(100, np.float32), poisoned(2)
        logits[winner] = 1
        run(Argmax.stamp(), (1, 1), place, logits=logits, best=best, vocab=100)
        run(Greedy.stamp(), 1, place, best=best, rows_of=rows, state=state, ring=ring, pieces=1, source=0, target=0)
        assert tuple(rows[0]) == (winner, 10 + step, 0, 0)
    assert list(ring[:3]) == [5, 80, 3] and state["drawn"] == 3
