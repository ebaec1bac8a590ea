"""How kernel tests run a kernel and judge what it wrote.

A runner is `run(kernel, grid, **arguments)`: numpy arrays by the kernel's names, written in place, and push constants.
Buffers that a test leaves out are made here, poisoned, and must come back untouched.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from runtime.vk.launch import scalar_dtype

SIZES = (4, 8, 32, 64)  # subgroup sizes of the interpreter
POISON = 0x7FC0DEAD  # a NaN of no arithmetic; as f16 pairs 0x7FC0 is a NaN too
Runner = Callable[..., None]


def poisoned(*shape: int, dtype=np.float32) -> np.ndarray:
    """An array that nothing has written yet."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    words = np.full(-(-count // 4), POISON, np.uint32)
    return words.view(np.uint8)[:count].view(dtype).reshape(shape).copy()


def untouched(array: np.ndarray) -> bool:
    """Whether the array still is as `poisoned` made it."""
    return array.tobytes() == poisoned(array.nbytes, dtype=np.uint8).tobytes()


def interpreter(size: int) -> Runner:
    """Runs kernels in numpy, with subgroups of `size` lanes."""

    def run(kernel, grid, **arguments):
        _run(kernel, arguments, lambda given: kernel.interpret(grid, **given, subgroup_size=size))

    return _described(run, f"interpreter, {size} lanes", size, True)


def vulkan(device) -> Runner:
    """Runs kernels on a runtime.vk Device."""

    def run(kernel, grid, **arguments):
        def launch(given):
            arrays = {name: device.array(a) for name, a in given.items() if isinstance(a, np.ndarray)}
            kernel[grid](**{**given, **arrays})
            for binding in kernel.reflection.bindings:
                if binding.access != "in":
                    given[binding.name].reshape(-1)[:] = arrays[binding.name].numpy().reshape(-1)

        _run(kernel, arguments, launch)

    return _described(run, device.caps.name, device.caps.subgroup_size, device.caps.is_cpu)


def _described(run: Runner, name: str, subgroup: int, ieee: bool) -> Runner:
    """ieee: division and square root are exact to the last bit, which Vulkan does not ask for."""
    run.name, run.subgroup, run.ieee = name, subgroup, ieee
    return run


def _run(kernel, arguments: dict, launch: Callable[[dict], None]) -> None:
    bindings = kernel.reflection.bindings
    for b in bindings:  # the interpreter takes any bytes
        assert b.name not in arguments or arguments[b.name].dtype in (_dtype(b), np.uint8), f"{b.name} holds {b.element}"
    absent = {b.name: poisoned(max(64, b.stride), dtype=np.uint8) for b in bindings if b.name not in arguments}
    typed = {b.name: absent[b.name].view(_dtype(b)) for b in bindings if b.name in absent}
    reads = {b.name: arguments[b.name].tobytes() for b in bindings if b.access == "in" and b.name in arguments}
    launch({**arguments, **typed})
    for name, array in typed.items():
        assert untouched(array), f"{kernel.name} wrote to {name}, which the test did not expect"
    for name, before in reads.items():
        assert arguments[name].tobytes() == before, f"{kernel.name} changed its input {name}"


def _dtype(binding) -> np.dtype:
    return scalar_dtype(binding.element) or np.dtype(np.uint8)


def rel_rms(found: np.ndarray, true: np.ndarray) -> float:
    """Root mean square of the error over that of the truth. inf where something is not finite; AssertionError for a zero truth."""
    true = np.asarray(true, np.float64)
    scale = np.sqrt(np.mean(true**2))
    assert scale > 0, "a truth of zeros proves nothing"
    if not np.isfinite(found).all():
        return float("inf")
    return float(np.sqrt(np.mean((np.asarray(found, np.float64) - true) ** 2)) / scale)


def groups(work: int, each: int) -> int:
    """Workgroups for `work` items, `each` a group."""
    return -(-work // each)

