"""The parity rule accepts what it must and turns red for every clause."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.parity import assert_parity, int8_failures, measure

RNG = np.random.default_rng(4)
REFERENCE = RNG.standard_normal((40, 100)) * 3
REFERENCE[np.arange(40), RNG.integers(0, 100, 40)] = 15.0  # clear margins


def noisy(level: float) -> np.ndarray:
    return (REFERENCE + RNG.standard_normal(REFERENCE.shape) * 3 * level).astype(np.float32)


def test_small_noise_passes_and_is_measured():
    report = assert_parity(noisy(1e-3), REFERENCE, 2e-3)
    assert 5e-4 < report.median <= report.worst < 1.5e-3 and report.positions == 40 and not report.undecided
    assert "worst" in str(report) and "FAILED" not in str(report)


def test_one_vector_is_one_position():
    assert assert_parity(REFERENCE[0], REFERENCE[0], 0.0).positions == 1


def test_the_worst_position_counts():
    ours = noisy(1e-4)
    ours[17] *= 1.01
    with pytest.raises(AssertionError, match="rel-rms 1.0..e-02 at position 17 is over the bar 2.0e-03"):
        assert_parity(ours, REFERENCE, 2e-3)


def test_another_argmax_at_a_clear_margin_fails():
    ours = noisy(1e-4)
    low, high = np.sort(REFERENCE[3])[-2:]
    ours[3, REFERENCE[3].argmax()] -= 1.05 * (high - low)  # an rms error of a tenth of the margin
    with pytest.raises(AssertionError, match=r"argmax differs at 3 \(margin"):
        assert_parity(ours, REFERENCE, 10.0)


def close_calls(count: int) -> np.ndarray:
    reference = REFERENCE.copy()
    for i in range(count):
        reference[i, reference[i].argmin()] = 15.0 - 1e-3
    return reference


def test_close_margins_are_listed_up_to_a_tenth():
    report = assert_parity(close_calls(4) + 2e-3 * RNG.standard_normal(REFERENCE.shape), close_calls(4), 2e-3)
    assert [p.index for p in report.undecided] == [0, 1, 2, 3] and "undecided: 0 (margin 0.001" in str(report)
    with pytest.raises(AssertionError, match="5 of 40 margins are undecided"):
        assert_parity(close_calls(5) + 2e-3 * RNG.standard_normal(REFERENCE.shape), close_calls(5), 2e-3)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_zeros_and_non_finite_logits_fail(bad):
    ours = REFERENCE.copy()
    ours[7] = bad
    with pytest.raises(AssertionError, match="position 7 is over the bar"):
        assert_parity(ours, REFERENCE, 2e-3)


def test_a_reference_that_judges_nothing_is_refused():
    for reference in (np.zeros((2, 5)), np.full((2, 5), np.nan), np.ones((2, 1)), np.ones((0, 5))):
        with pytest.raises(ValueError):
            measure(reference, reference, 1.0)
    with pytest.raises(ValueError, match="same"):
        measure(REFERENCE[:3], REFERENCE, 1.0)


def test_with_8_bit_activations_the_long_rows_judge_the_argmax():
    """A wrong winner is excused by the noise of rows 3, 19 ... alone; other clauses stay."""
    reference = np.zeros((1, 96))
    reference[0, [3, 19]] = 10.0, 9.0
    loud = reference + 0.0
    loud[0, [3, 19, 35]] += -0.8, 0.8, -0.8  # rms 0.56 in the long rows, 0.14 over all
    report = measure(loud, reference, 0.2)
    assert report.disagreements and not int8_failures(report, loud, reference)
    alone = np.where(reference == 10.0, 10.0, 0.0)
    other = alone.copy()
    other[0, [3, 4]] = 9.99, 10.0  # another row wins, and the long ones are quiet
    report = measure(other, alone, 2.0)
    assert report.disagreements and "argmax differs at 0" in int8_failures(report, other, alone)[0]
    assert any("over the bar" in f for f in int8_failures(measure(loud, reference, 1e-3), loud, reference))
