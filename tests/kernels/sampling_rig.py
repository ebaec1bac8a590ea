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


def poisoned(count: int, dtype=np.uint32) -> np.ndarray:
    """So many elements that nobody has written."""
    return np.full(count * np.dtype(dtype).itemsize // 4, POISON, np.uint32).view(dtype)


def run(kernel, grid, device, size: int = 32, **arguments) -> None:
    """Launch with arrays that the kernel writes in place; device None: the interpreter with subgroups of `size`."""
    if device is None:
        kernel.interpret(grid, **arguments, subgroup_size=size)
        return
    arrays = {name: device.array(value.view(np.uint32) if value.dtype.names else value) for name, value in arguments.items() if isinstance(value, np.ndarray)}
    kernel[grid](**arguments | arrays)
    for name, array in arrays.items():
        if name in ("rows_of", "state", "ring", "best"):
            arguments[name].view(np.uint32)[:] = array.numpy().view(np.uint32)


def sample(logits, asked: Asked, positions, seed: int = 0, device=None, threads: int = 256, vec: int = 1, size: int = 32) -> np.ndarray:
    """One token per position. logits: f32 [T, vocab], or [vocab] for the same row T times.

    The record of row t lies at t, the one that the kernel makes at T + t.
    """
    positions = np.asarray(positions)
    t, vocab = len(positions), logits.shape[-1]
    rows = poisoned(2 * t, ROW)
    rows["position"][:t], rows["slot"][:t], rows["table"][:t] = positions - 1, 0, np.arange(t)
    state, ring = asked.state(seed=seed), poisoned(RING)
    run(Sample.stamp(VEC=vec, THREADS=threads), t, device, size, logits=np.ascontiguousarray(np.broadcast_to(logits, (t, vocab))),
        rows_of=rows, state=state, ring=ring, vocab=vocab, source=0, target=t)
    made = rows[t:]
    assert np.array_equal(made["position"], positions) and not made["slot"].any() and np.array_equal(made["table"], np.arange(t))
    assert (made["token"] < vocab).all()
    return made["token"].astype(np.int64)
