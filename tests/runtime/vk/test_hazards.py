"""Barriers from byte ranges, against a byte-by-byte model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.vk.hazards import COMPUTE, COMPUTE_ONLY, FULL, INDIRECT, NONE, READ, TRANSFER, WRITE, Hazards, Ranges

spans = st.tuples(st.integers(0, 60), st.integers(1, 12)).map(lambda t: (t[0], t[0] + t[1]))


def mask(start, end):
    """Bit i stands for byte i."""
    return (1 << end) - (1 << start)


def piece(buffer, start, end):
    return SimpleNamespace(buffer=buffer, offset=start, end=end)


@given(st.lists(spans, min_size=1, max_size=20), spans)
def test_ranges_are_a_set_of_bytes(added, asked):
    ranges = Ranges(*added[0])
    for start, end in added[1:]:
        ranges.add(start, end)
    covered = {b for start, end in added for b in range(start, end)}
    assert ranges.overlaps(*asked) == bool(covered & set(range(*asked)))
    held = list(ranges)
    assert {b for start, end in held for b in range(start, end)} == covered
    assert all(a_end < b_start for (_, a_end), (b_start, _) in zip(held, held[1:], strict=False))


commands = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 2), spans, st.sampled_from([READ, WRITE, READ | WRITE])), min_size=1,
                       max_size=4),
              st.sampled_from([COMPUTE, TRANSFER, COMPUTE | INDIRECT])),
    max_size=20)


@settings(max_examples=150)
@given(commands)
def test_no_conflict_is_left_without_a_barrier(sequence):
    """Model: each byte remembers its accesses; a compute-only barrier orders them against later compute work alone."""
    hazards = Hazards()
    unordered = []  # (buffer, bytes, mode, stage, seen a compute-only barrier)
    for accesses, stage in sequence:
        kind = hazards.enter([piece(b, *span) for b, span, _ in accesses], [mode for _, _, mode in accesses], stage)
        conflicts = [
            (was_stage, behind) for was_buffer, was, was_mode, was_stage, behind in unordered
            for buffer, span, mode in accesses
            if was_buffer == buffer and (mode | was_mode) & WRITE and was & mask(*span)
        ]
        open_to_this = [c for c in conflicts if not (c[1] and stage == COMPUTE)]
        if open_to_this:
            assert kind != NONE
            if stage != COMPUTE or any(was != COMPUTE for was, _ in open_to_this):
                assert kind == FULL
        if kind == FULL:
            unordered = []
        elif kind == COMPUTE_ONLY:
            assert all(was == COMPUTE for _, _, _, was, _ in unordered)
            unordered = [(b, bytes_, mode, was, True) for b, bytes_, mode, was, _ in unordered]
        unordered += [(b, mask(*span), mode, stage, False) for b, span, mode in accesses]


@pytest.mark.parametrize("first, second, expected", [
    ((READ, 0, 8), (READ, 0, 8), NONE),
    ((WRITE, 0, 8), (READ, 0, 8), COMPUTE_ONLY),
    ((WRITE, 0, 8), (READ, 8, 16), NONE),
    ((READ, 0, 8), (WRITE, 7, 9), COMPUTE_ONLY),
    ((WRITE, 0, 8), (WRITE, 0, 4), COMPUTE_ONLY),
    ((WRITE, 4, 8), (WRITE, 0, 4), NONE),
])
def test_pairs(first, second, expected):
    hazards = Hazards()
    assert hazards.enter([piece("a", *first[1:])], [first[0]], COMPUTE) == NONE
    assert hazards.enter([piece("b", *second[1:])], [second[0]], COMPUTE) == NONE
    assert hazards.enter([piece("a", *second[1:])], [second[0]], COMPUTE) == expected


def test_a_copy_after_a_compute_barrier_gets_a_full_one():
    hazards = Hazards()
    hazards.enter([piece("a", 0, 8)], [WRITE], COMPUTE)
    assert hazards.enter([piece("a", 0, 8)], [READ], COMPUTE) == COMPUTE_ONLY
    assert hazards.enter([piece("a", 0, 8)], [READ], TRANSFER) == FULL
    assert hazards.enter([piece("a", 0, 8)], [READ], TRANSFER) == NONE
