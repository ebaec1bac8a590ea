"""The parity rule: when are logits as good as the float64 reference's?

Per position, rel-rms = rms(ours - reference) / rms(reference), and the worst position must meet the bar. Where the
reference's top-2 margin exceeds six times that position's rms error, the argmax must agree; the other positions, at most
a tenth, are listed with their margins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MARGIN_FACTOR = 6.0
MAX_UNDECIDED = 0.10


@dataclass(frozen=True)
class Position:
    """One position whose argmax is in question. margin: the reference's top-2 distance; error: rms(ours -
    reference)."""

    index: int
    margin: float
    error: float
    ours: int
    reference: int

    def __str__(self) -> str:
        picks = f"ours {self.ours}, reference {self.reference}"
        return f"{self.index} (margin {self.margin:.4g}, error {self.error:.3g}, {picks})"


@dataclass(frozen=True)
class Report:
    """What a comparison found. disagreements: decided positions with another argmax; undecided: margins too small
    to tell."""

    positions: int
    bar: float
    worst: float
    worst_position: int
    median: float
    disagreements: tuple[Position, ...]
    undecided: tuple[Position, ...]
    max_undecided: float

    @property
    def failures(self) -> list[str]:
        """Every broken clause of the rule, in words."""
        found = []
        if not self.worst <= self.bar:
            found.append(f"rel-rms {self.worst:.3e} at position {self.worst_position} is over the bar {self.bar:.1e}")
        if self.disagreements:
            found.append("argmax differs at " + ", ".join(map(str, self.disagreements[:5])))
        if len(self.undecided) > self.max_undecided * self.positions:
            found.append(
                f"{len(self.undecided)} of {self.positions} margins are undecided, more than {self.max_undecided:.0%}"
            )
        return found

    def __str__(self) -> str:
        text = f"{self.positions} positions: rel-rms worst {self.worst:.3e} at {self.worst_position}"
        text += f", median {self.median:.3e} (bar {self.bar:.1e})"
        if self.undecided:
            text += "; undecided: " + ", ".join(map(str, self.undecided))
        return text + "".join(f"; FAILED: {failure}" for failure in self.failures)


def measure(ours, reference, bar: float, max_undecided: float = MAX_UNDECIDED) -> Report:
    """Compare logits [n, vocab] (or [vocab]) and report, whatever the outcome.

    Raises ValueError for shapes that differ and for a reference that could not tell right from wrong (not finite,
    or flat).
    """
    ours, reference = (np.atleast_2d(np.asarray(x, np.float64)) for x in (ours, reference))
    if ours.shape != reference.shape or reference.ndim != 2 or reference.shape[1] < 2 or not len(reference):
        raise ValueError(f"logits {ours.shape} against a reference of {reference.shape}: need the same [n, vocab]")
    if not np.isfinite(reference).all() or not (reference.std(1) > 0).all():
        raise ValueError("the reference is not finite or has a flat position: it cannot judge anything")
    error = np.sqrt(((ours - reference) ** 2).mean(1))
    error[~np.isfinite(ours).all(1)] = np.inf
    relative = error / np.sqrt((reference**2).mean(1))
    best, chosen = reference.argmax(1), np.where(np.isfinite(ours), ours, -np.inf).argmax(1)
    top = np.partition(reference, -2, axis=1)[:, -2:]
    margin = top[:, 1] - top[:, 0]
    decided = ~np.isfinite(error) | (margin > MARGIN_FACTOR * error)

    def listed(mask) -> tuple[Position, ...]:
        return tuple(
            Position(int(i), float(margin[i]), float(error[i]), int(chosen[i]), int(best[i]))
            for i in np.flatnonzero(mask)
        )

    worst = int(relative.argmax())
    return Report(
        len(reference),
        bar,
        float(relative[worst]),
        worst,
        float(np.median(relative)),
        listed(decided & (chosen != best)),
        listed(~decided),
        max_undecided,
    )


def assert_parity(ours, reference, bar: float, max_undecided: float = MAX_UNDECIDED) -> Report:
    """`measure`, raising AssertionError with the numbers where the rule is broken."""
    report = measure(ours, reference, bar, max_undecided)
    if report.failures:
        raise AssertionError(str(report))
    return report


def int8_failures(report: Report, ours: np.ndarray, reference: np.ndarray) -> list[str]:
    """What is broken in logits [n, vocab] of a random model (tests/models/build.py) whose activations have 8 bits.

    Every 16th row of its heads is 2.5 times as long, and these rows win: 8-bit noise is as much larger in them than in the rms
    over all rows that the rule compares margins with, so the argmax is held against the noise of these rows.
    """
    noise = np.sqrt(((ours.astype(np.float64) - reference)[:, 3::16] ** 2).mean(1))
    wrong = [p for p in report.disagreements if p.margin > MARGIN_FACTOR * noise[p.index]]
    return [f for f in report.failures if not f.startswith("argmax")] + [f"argmax differs at {p}" for p in wrong]
