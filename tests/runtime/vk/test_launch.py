"""kernel[grid](...) through the launcher: numpy and device arguments, plans, the open batch, host time."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from runtime.vk import Device
from runtime.vk.launch import as_groups, default_device, launch, scalar_dtype, set_default_device
from tests.runtime.vk import kernels
from tests.runtime.vk.kernels import FakeKernel

N = 1000


@pytest.fixture(autouse=True)
def default(device):
    set_default_device(device)
    yield
    set_default_device(None)


def vectors(seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(N, dtype=np.float32) for _ in range(2))


def test_numpy_arrays_are_copied_in_and_out(seed):
    x, y = vectors(seed)
    out = np.full(N + 5, 9, np.float32)
    launch(FakeKernel(kernels.saxpy()), 16, (x, y, out), {"a": 2.0, "n": N})
    np.testing.assert_allclose(out[:N], 2 * x + y, rtol=1e-6, atol=1e-6)
    assert (out[N:] == 9).all()  # what the kernel does not write stays


def test_arrays_of_any_strides(seed):
    x, y = vectors(seed)
    out = np.zeros((N, 2), np.float32)
    launch(FakeKernel(kernels.saxpy()), (16,), (x[::-1], y, out[:, 1]), {"a": 1.0, "n": N})
    np.testing.assert_array_equal(out[:, 1], x[::-1] + y)
    assert (out[:, 0] == 0).all()


def test_device_arrays_are_recorded_not_submitted(either, seed):
    x, y = vectors(seed)
    X, Y, out = either.array(x), either.array(y), either.array(np.zeros(N, np.float32))
    kernel = FakeKernel(kernels.saxpy())
    submits = either.counters.submits
    for _ in range(10):
        launch(kernel, (16, 1, 1), (X, Y, out.whole), {"a": 0.5, "n": N})
        launch(kernel, 16, (out, out.buffer, Y, 0.0, N), {})
    assert either.counters.submits == submits and either.batch.pending == 20 and kernel.compiles == 1
    value = either.flush()
    assert either.batch.pending == 0 and value == either.flush() == submits + 1
    np.testing.assert_array_equal(out.numpy(), Y.numpy())
    np.testing.assert_allclose(out.numpy(), 5 * x + y, rtol=1e-5, atol=1e-5)


def test_numpy_reads_flush_the_batch(either):
    data = either.array(np.zeros(N, np.uint32))
    kernel = FakeKernel(kernels.increment())
    for turn in range(1, 4):
        for _ in range(7):
            launch(kernel, 16, (data, N), {})
        assert (data.numpy() == 7 * turn).all()
    assert len(either.batch._spare) <= 3


def test_an_upload_is_ordered_after_the_batch(either):
    data, kernel = either.array(np.zeros(N, np.uint32)), FakeKernel(kernels.increment())
    launch(kernel, 16, (data, N), {})
    data.write(np.full(N, 10, np.uint32))
    launch(kernel, 16, (data, N), {})
    assert (data.numpy() == 11).all()


def test_mixed_arguments(device, seed):
    x, y = vectors(seed)
    X, out = device.array(x), np.zeros(N, np.float32)
    launch(FakeKernel(kernels.saxpy()), 16, (), {"x": X, "y": y, "out": out, "n": N, "a": 1.0})
    np.testing.assert_array_equal(out, x + y)


def test_a_signature_in_another_order(device):
    kernel = FakeKernel(kernels.saxpy(), ["n", "out", "a", "x", "y"])
    x, out = np.arange(N, dtype=np.float32), device.array(np.zeros(N, np.float32))
    launch(kernel, 16, (N, out, 2.0, x), {"y": x})
    np.testing.assert_array_equal(out.numpy(), 3 * x)


def test_specialisation_by_launch(device):
    kernel, x, out = FakeKernel(kernels.scale()), np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    for spec, factor in ((None, 3), ({"factor": 4}, 4), ({"factor": 5}, 5)):
        launch(kernel, 1, (x, out), {"spec": spec} if spec else {})
        np.testing.assert_array_equal(out, factor * x)


def test_a_full_batch_is_submitted(device, monkeypatch):
    from runtime.vk import batch

    monkeypatch.setattr(batch, "LIMIT", 10)
    data, kernel = device.array(np.zeros(N, np.uint32)), FakeKernel(kernels.increment())
    submits = device.counters.submits
    for _ in range(25):
        launch(kernel, 16, (data, N), {})
    assert device.counters.submits == submits + 2 and device.batch.pending == 5
    assert (data.numpy() == 25).all()


def test_launching_does_not_run_ahead_for_ever(device, monkeypatch):
    from runtime.vk import batch

    monkeypatch.setattr(batch, "LIMIT", 2)
    data, kernel = device.array(np.zeros(N, np.uint32)), FakeKernel(kernels.increment())
    for _ in range(100):
        launch(kernel, 16, (data, N), {})
        assert len(device.batch._spare) <= batch.IN_FLIGHT + 1
    assert (data.numpy() == 100).all()


def test_wrong_arguments_are_named_in_one_line(device, staged):
    kernel, x = FakeKernel(kernels.saxpy()), np.zeros(N, np.float32)
    X, frozen = device.array(x), np.zeros(N, np.float32)
    frozen.flags.writeable = False
    cases = [
        ((x, x), {}, r"lacks arguments \['out', 'a', 'n'\]"),
        ((x, x, x, 1.0, 2, 3), {}, "takes 5 arguments .* got 6"),
        ((x, x, x, 1.0), {"m": 2}, "'m' that it does not have"),
        ((x, x, x, 1.0, 2), {"a": 2}, "'a' twice"),
        ((x.astype(np.float64), x, x, 1.0, 2), {}, "x holds f32, got a numpy array of float64"),
        ((device.array(x.astype(np.int32)), x, x, 1.0, 2), {}, "x holds f32, got an array of int32"),
        ((x, x, frozen, 1.0, 2), {}, "out is written, but the numpy array is read-only"),
        ((x, x[:0], x, 1.0, 2), {}, "y is an empty array"),
        (([1.0], x, x, 1.0, 2), {}, "x takes a numpy array .* not list"),
        ((X, staged.array(x), X, 1.0, 2), {}, "y is on another device"),
    ]
    for args, kwargs, words in cases:
        with pytest.raises(TypeError, match=words) as caught:
            launch(kernel, 1, args, kwargs)
        assert "\n" not in str(caught.value)
    for a, n, words in ((1.0, 2.5, "n cannot take 2.5: it is u32"), ("1", 2, "a cannot take '1': it is f32")):
        with pytest.raises(TypeError, match=words):
            launch(kernel, 1, (X, X, X, a, n), {})
    for grid in ((), (1, 1, 1, 1), "ab", "12", 1.5, (1.5,), None):
        with pytest.raises(TypeError, match="a grid is"):
            launch(kernel, grid, (X, X, X, 1.0, 2), {})


def test_a_kernel_that_does_not_compile_raises_every_time(device):
    class Broken(FakeKernel):
        def compile(self):
            super().compile()
            raise SyntaxError("kernel.py:3:1: error[E0001]")

    kernel = Broken(kernels.saxpy())
    for turn in (1, 2, 3):
        with pytest.raises(SyntaxError, match="E0001"):
            launch(kernel, 1, (), {})
        assert kernel.compiles == turn


def test_struct_elements_take_raw_bytes(device):
    compiled = kernels.increment()
    blocks = replace(compiled, hash=compiled.hash + "blocks", reflection=replace(
        compiled.reflection, bindings=(replace(compiled.reflection.bindings[0], element="Q.Plane", stride=16),)))
    data = np.zeros(32, np.uint8)
    launch(FakeKernel(blocks), 1, (data, 8), {})
    assert (data.view(np.uint32) == 1).all()
    with pytest.raises(TypeError, match="whole elements"):
        launch(FakeKernel(blocks), 1, (np.zeros(33, np.uint8), 8), {})


@pytest.mark.parametrize("element, dtype", [("f32", "f4"), ("f16x4", "f2"), ("u32[8]", "u4"), ("bf16", "u2"),
                                            ("i8", "i1"), ("u64", "u8"), ("Q8_0.Quants", None), ("f33", None)])
def test_element_names(element, dtype):
    assert scalar_dtype(element) == (np.dtype(dtype) if dtype else None)


def test_grids():
    assert [as_groups("k", g) for g in (3, np.int64(3), (4,), (5, 6), [7, 8, np.uint32(9)])] == [(3, 1, 1), (3, 1, 1), (4, 1, 1), (5, 6, 1), (7, 8, 9)]


def test_the_default_device_is_made_anew_after_its_end(device):
    first = Device()
    set_default_device(first)
    assert default_device() is first
    first.close()
    second = default_device()
    assert second is not first and not second.core.closed
    second.close()


def test_a_warm_launch_costs_little_host_time(device):
    """The bar is 60 us; the thread's own time is taken, so that other jobs on the machine do not count."""
    x = device.array(np.zeros(N, np.float32))
    y, out = device.array(np.zeros(N, np.float32)), device.empty(N, np.float32)
    kernel, best = FakeKernel(kernels.saxpy()), float("inf")
    for _ in range(7):
        begin = time.thread_time()
        for _ in range(300):
            launch(kernel, 16, (x, y, out), {"a": 2.0, "n": N})
        best = min(best, (time.thread_time() - begin) / 300)
        device.synchronize()
    assert best < 60e-6
