"""On real hardware, by hand: `pytest -m gpu -s tests/runtime/vk/test_gpu.py`. It prints what it measures."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.runtime.vk import kernels

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def hardware(device):
    if device.caps.is_cpu:
        pytest.skip("this is a software device")


def test_what_it_is(device):
    caps = device.caps
    print(f"\n{caps.name}, {caps.driver_info}, Vulkan {caps.api_version}, queue family {caps.queue_family}, "
          f"{caps.compute_units} units, subgroup {caps.min_subgroup_size}..{caps.max_subgroup_size}")
    print("features:", " ".join(sorted(caps.features)))
    print("matrices:", *caps.coop_matrices, "flexible:", *caps.coop_flexible, sep="\n  ")
    print(device.memory())
    statistics = device.pipeline(kernels.saxpy()).statistics()
    print(statistics)
    if caps.has("pipelineExecutableInfo"):
        assert statistics["registers"] > 0


def test_transfers_of_gigabytes(device, tmp_path):
    nbytes = 2 << 30
    path = tmp_path / "big"
    block = np.random.default_rng(1).integers(0, 256, 1 << 24, dtype=np.uint8)
    with open(path, "wb") as file:
        for i in range(nbytes >> 24):
            file.write((block + np.uint8(i)).tobytes())
    view = np.memmap(path, np.uint8, mode="r")
    buffer = device.buffer(nbytes)
    for turn in range(3):
        begin = time.perf_counter()
        device.upload(buffer, 0, view)
        device.synchronize()
        up = time.perf_counter() - begin
        begin = time.perf_counter()
        back = device.download(buffer, 0, nbytes)
        down = time.perf_counter() - begin
        print(f"\nupload {nbytes / up / 1e9:.1f} GB/s, download {nbytes / down / 1e9:.1f} GB/s", end="")
        if turn == 0:
            assert np.array_equal(back, view)
    assert nbytes / up > 2e9


def chain(device, count, barrier, groups):
    """Device microseconds of a dispatch in a chain of `count`, by kind of barrier."""
    pipe = device.pipeline(kernels.increment())
    n = kernels.LOCAL * groups
    data = [device.array(np.zeros(n, np.uint32)) for _ in range(1 if barrier == "derived" else count)]
    with device.commands() as commands:
        commands.timestamp("begin")
        for i in range(count):
            if barrier == "full":
                commands.barrier()
            commands.dispatch(pipe, [data[i % len(data)]], {"n": n}, (groups, 1, 1))
        commands.timestamp("end")
    for _ in range(30):
        device.wait(device.submit(commands))
    return min(commands.timings()[1][1] for _ in range(5) if device.wait(device.submit(commands)) is None) / count


def test_cost_of_dispatches_and_barriers(device):
    for groups in (1, 132):
        costs = {kind: chain(device, 500, kind, groups) for kind in ("none", "derived", "full")}
        print(f"\n{groups} workgroups, us a dispatch:", {k: round(v, 2) for k, v in costs.items()}, end="")
        assert costs["derived"] < 50


def test_host_costs(device):
    pipe, data = device.pipeline(kernels.increment()), device.array(np.zeros(64, np.uint32))
    begin = time.perf_counter()
    with device.commands() as commands:
        for _ in range(20_000):
            commands.dispatch(pipe, [data], b"\x40\0\0\0")
    record = (time.perf_counter() - begin) / 20_000 * 1e6
    buffers = [device.array(np.zeros(64, np.uint32)) for _ in range(3000)]
    begin = time.perf_counter()
    with device.commands() as many:
        for buffer in buffers:
            many.dispatch(pipe, [buffer], b"\x40\0\0\0")
    sets = (time.perf_counter() - begin) / 3000 * 1e6
    device.wait(device.submit(many))
    with device.commands() as short:
        short.dispatch(pipe, [data], b"\x40\0\0\0")
    begin = time.perf_counter()
    for _ in range(1000):
        value = device.submit(short)
    submit = (time.perf_counter() - begin) / 1000 * 1e6
    device.wait(value)
    begin = time.perf_counter()
    for _ in range(200):
        device.wait(device.submit(short))
    trip = (time.perf_counter() - begin) / 200 * 1e6
    print(f"\nhost us: record {record:.1f}, with a new set {sets:.1f}, submit {submit:.1f}, submit and wait {trip:.1f}")
    assert record < 20 and submit < 200
