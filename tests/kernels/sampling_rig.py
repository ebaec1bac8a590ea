"""Runs the sampling kernels on rows of logits, on a device or in the interpreter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.sample import RING, Sample

ROW = np.dtype([("token", "<u4"), ("position", "<u4"), ("table", "<u4"), ("slot", "<u4")])
STATE = np.dtype(
    [("temperature", "<f4"), ("top_p", "<f4"), ("min_p", "<f4"), ("top_k", "<u4"), ("seed", "<u8"), ("drawn", "<u4"), ("reserved", "<u4")]
)
POISON = 0xDEADBEEF


@dataclass(frozen=True)
class Asked:
    """Sampling parameters as a slot holds them."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def chain(self) -> tuple:
        return self.temperature, self.top_k, self.top_p, self.min_p

    def state(self, slots: int = 1, seed: int = 0) -> np.ndarray:
        state = np.zeros(slots, STATE)
        state["temperature"], state["top_k"], state["top_p"], state["min_p"] = self.chain
        state["seed"] = seed
        return state


def rows_at(positions: np.ndarray, slots: int = 1) -> np.ndarray:
    """Row records whose drawn tokens get these positions, dealt to the slots in turn."""
    rows = np.zeros(len(positions), ROW)
    rows["position"], rows["slot"] = np.asarray(positions) - 1, np.arange(len(positions)) % slots
    return rows


def sample(logits: np.ndarray, asked: Asked, positions: np.ndarray, seed: int = 0, device=None, threads: int = 256, vec: int = 1, size: int = 32) -> np.ndarray:
    """One token per position. logits: f32 [T, vocab]; on `device`, else in the interpreter with subgroups of `size`.

    The record of row t lies at t; what the kernel makes of it at T + t, poisoned before.
    """
    t, vocab = logits.shape
    rows = np.full(2 * t, POISON, np.uint32).repeat(4).view(ROW)
    rows[:t] = rows_at(positions)
    state, ring = asked.state(seed=seed), np.full(RING, POISON, np.uint32)
    kernel = Sample.stamp(VEC=vec, THREADS=threads)
    arguments = {"rows_of": rows, "state": state, "ring": ring, "vocab": vocab, "source": 0, "target": t}
    if device is None:
        kernel.interpret(t, logits=logits, **arguments, subgroup_size=size)
    else:
        kernel[t](logits=logits, **arguments)
    made = rows[t:]
    assert np.array_equal(made["position"], positions) and not made["slot"].any() and not made["table"].any()
    assert (made["token"] < vocab).all()
    assert ring[0] in made["token"]
    return made["token"].astype(np.int64)
