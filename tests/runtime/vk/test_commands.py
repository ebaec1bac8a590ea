"""Recording and submitting: results, barriers derived, counters, misuse, and sizes up to tens of thousands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from runtime.vk import Device, VulkanError
from tests.runtime.vk import kernels

N = 256
GROUPS = (N // kernels.LOCAL, 1, 1)


def run(device, commands):
    device.wait(device.submit(commands))


def test_saxpy(either, seed):
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(1000, dtype=np.float32) for _ in range(2))
    X, Y, out = either.array(x), either.array(y), either.array(np.full(1001, -7, np.float32))
    pipe = either.pipeline(kernels.saxpy())
    with either.commands() as commands:
        commands.dispatch(pipe, [X, Y, out], {"a": 2.5, "n": 1000}, (16, 1, 1))
    run(either, commands)
    got = out.numpy()
    np.testing.assert_allclose(got[:1000], np.float32(2.5) * x + y, rtol=1e-6, atol=1e-6)
    assert got[1000] == -7


def test_ranges_of_one_buffer(either):
    pipe = either.pipeline(kernels.increment())
    data = either.array(np.zeros(4 * N, np.uint32))
    step = 4 * N
    with either.commands() as commands:
        commands.dispatch(pipe, [data.range(step, step)], {"n": N}, GROUPS)
        commands.dispatch(pipe, [data.range(2 * step, step)], {"n": N}, GROUPS)
        assert commands.barriers == 0
        commands.dispatch(pipe, [data.range(step + step // 2, step)], {"n": N}, GROUPS)
        assert commands.barriers == 1
    run(either, commands)
    np.testing.assert_array_equal(data.numpy().reshape(8, -1)[:, 0], [0, 0, 1, 2, 2, 1, 0, 0])


def test_a_long_dependent_chain(either):
    """Every dispatch needs the one before it: a lost barrier or dispatch changes the count."""
    count = 12_000
    pipe, data = either.pipeline(kernels.increment()), either.array(np.zeros(kernels.LOCAL, np.uint32))
    with either.commands() as commands:
        for _ in range(count):
            commands.dispatch(pipe, [data], b"\x40\0\0\0", (1, 1, 1))
    assert (commands.dispatches, commands.barriers) == (count, count - 1)
    run(either, commands)
    assert (data.numpy() == count).all()


def test_thousands_of_descriptor_sets(either):
    """Each range is its own set; independent ranges need no barrier."""
    count, step = 3000, 256
    pipe, data = either.pipeline(kernels.increment()), either.array(np.zeros(count * step // 4, np.uint32))
    with either.commands() as commands:
        for _ in range(2):
            for i in range(count):
                commands.dispatch(pipe, [data.range(i * step, step)], {"n": step // 4}, (1, 1, 1))
    assert commands.barriers == 1 and len(commands._sets) == count
    run(either, commands)
    assert (data.numpy() == 2).all()


def test_copy_and_fill(either):
    a, b = either.buffer(1024), either.buffer(1024)
    with either.commands() as commands:
        commands.fill(a, 0x01020304)
        commands.fill(a.range(16, 32), 0xFFFFFFFF)
        commands.copy(a.range(8, 100), b.range(3, 100))
        commands.copy(b.range(3, 100), a.range(512, 100))
    assert commands.barriers == 3
    run(either, commands)
    words = either.download(a, 0, 1024)
    expected = np.tile(np.array([4, 3, 2, 1], np.uint8), 256)
    expected[16:48] = 255
    expected[512:612] = expected[8:108]
    np.testing.assert_array_equal(words, expected)


def test_fill_up_to_an_odd_end(either):
    buffer = either.buffer(6)
    with either.commands() as commands:
        commands.fill(buffer, 0x11111111)
    run(either, commands)
    assert (either.download(buffer, 0, 6) == 0x11).all()


def test_a_copy_waits_for_shaders_and_shaders_for_a_copy(either):
    pipe = either.pipeline(kernels.increment())
    a, b = either.array(np.zeros(N, np.uint32)), either.array(np.zeros(N, np.uint32))
    with either.commands() as commands:
        for _ in range(50):
            commands.dispatch(pipe, [a], {"n": N}, GROUPS)
            commands.dispatch(pipe, [a], {"n": N}, GROUPS)
            commands.copy(a, b)
            commands.dispatch(pipe, [b], {"n": N}, GROUPS)
            commands.copy(b, a)
    run(either, commands)
    assert (a.numpy() == 150).all()


def test_indirect(either):
    pipe, data, args = either.pipeline(kernels.increment()), either.array(np.zeros(N, np.uint32)), either.buffer(64)
    with either.commands() as commands:
        commands.fill(args, 1)
        commands.fill(args.range(16, 4), 2)
        commands.dispatch_indirect(pipe, [data], {"n": N}, args.range(16, 12))
    run(either, commands)
    np.testing.assert_array_equal(data.numpy().reshape(4, -1)[:, 0], [1, 1, 0, 0])
    for bad in (args.range(16, 8), args.range(18, 12)):
        with pytest.raises(VulkanError, match="indirect arguments"):
            either.commands().dispatch_indirect(pipe, [data], {"n": N}, bad)


def test_uniform_buffers_and_gaps_in_binding_numbers(either):
    pipe, data = either.pipeline(kernels.uniform_add()), either.array(np.arange(N, dtype=np.uint32))
    args = either.array(np.array([0] * 64 + [5], np.uint32))
    with either.commands() as commands:
        commands.dispatch(pipe, [data, args.range(256, 4)], None, GROUPS)
    run(either, commands)
    np.testing.assert_array_equal(data.numpy(), np.arange(N) + 5)


def test_specialisation(either):
    x, out = either.array(np.arange(N, dtype=np.uint32)), either.empty(N, np.uint32)
    for spec, factor in ((None, 3), ({"factor": 10}, 10), ({"factor": 0xFFFFFFFF}, 0xFFFFFFFF)):
        with either.commands() as commands:
            commands.dispatch(either.pipeline(kernels.scale(), spec), [x, out], b"", GROUPS)
        run(either, commands)
        np.testing.assert_array_equal(out.numpy(), (np.arange(N, dtype=np.uint64) * factor).astype(np.uint32))


def test_a_kernel_without_bindings(either):
    with either.commands() as commands:
        commands.dispatch(either.pipeline(kernels.empty()), [], None, (3, 1, 1))
    run(either, commands)


def test_kernels_of_several_layouts_alternate(either):
    """Sets and push constants are bound again after a kernel of another layout."""
    inc, sax, mul = (either.pipeline(k()) for k in (kernels.increment, kernels.saxpy, kernels.scale))
    u, v = either.array(np.zeros(N, np.uint32)), either.array(np.zeros(N, np.uint32))
    x, y = either.array(np.ones(N, np.float32)), either.array(np.zeros(N, np.float32))
    with either.commands() as commands:
        for _ in range(4):
            commands.dispatch(inc, [u], {"n": N}, GROUPS)
            commands.dispatch(sax, [x, x, y], {"a": 2.0, "n": N}, GROUPS)
            commands.dispatch(mul, [u, v], None, GROUPS)
            commands.dispatch(inc, [u], {"n": N}, GROUPS)
            commands.dispatch(sax, [x, x, y], {"a": 3.0, "n": N // 2}, GROUPS)
    run(either, commands)
    assert (u.numpy() == 8).all() and (v.numpy() == 21).all()
    np.testing.assert_array_equal(y.numpy(), [4.0] * (N // 2) + [3.0] * (N // 2))


def test_recorded_once_submitted_often(either):
    """In steady state a submit records nothing, and several may be queued at once."""
    pipe, data = either.pipeline(kernels.increment()), either.array(np.zeros(N, np.uint32))
    with either.commands() as commands:
        for _ in range(5):
            commands.dispatch(pipe, [data], {"n": N}, GROUPS)
    begun, calls, submits = (getattr(either.counters, n) for n in ("begin_command_buffer", "cmd_calls", "submits"))
    values = [either.submit(commands) for _ in range(100)]
    assert values == list(range(values[0], values[0] + 100))
    either.wait(values[-1])
    assert all(either.done(v) for v in values)
    counters = either.counters
    assert (counters.begin_command_buffer, counters.cmd_calls, counters.submits) == (begun, calls, submits + 100)
    assert (data.numpy() == 500).all()


def test_counters_count_what_is_recorded(device):
    pipe, data = device.pipeline(kernels.increment()), device.array(np.zeros(N, np.uint32))
    before = device.counters.cmd_calls
    with device.commands() as commands:
        commands.dispatch(pipe, [data], {"n": N}, GROUPS)  # pipeline, set, push, dispatch
        commands.dispatch(pipe, [data], {"n": N}, GROUPS)  # barrier, dispatch
        commands.dispatch(pipe, [data], {"n": 7}, GROUPS)  # barrier, push, dispatch
    assert device.counters.cmd_calls == before + 4 + 2 + 3 + 1  # and the barrier that ends every recording


def test_another_layout_loses_sets_and_push_constants(device):
    """The same push bytes are pushed again for a kernel of another layout: Vulkan has forgotten them."""
    good = kernels.increment()
    wider = replace(good, hash=good.hash + "wider", reflection=replace(
        good.reflection, bindings=(*good.reflection.bindings, kernels.storage("unused", 5, "in", "u32"))))
    one, other = device.pipeline(good), device.pipeline(wider)
    data, more = device.array(np.zeros(N, np.uint32)), device.array(np.zeros(N, np.uint32))
    with device.commands() as commands:
        for pipe, bindings in ((one, [data]), (other, [data, more]), (one, [data])):
            before = device.counters.cmd_calls
            barriers = commands.barriers
            commands.dispatch(pipe, bindings, {"n": N}, GROUPS)
            # pipeline, set, push, dispatch
            assert device.counters.cmd_calls - before == 4 + commands.barriers - barriers
    run(device, commands)
    assert (data.numpy() == 3).all()


def test_submits_are_ordered_among_themselves(either):
    """Results of a submit are visible to the next one without any wait."""
    pipe, data = either.pipeline(kernels.increment()), either.array(np.zeros(N, np.uint32))
    other = either.empty(N, np.uint32)
    with either.commands() as add, either.commands() as copy:
        add.dispatch(pipe, [data], {"n": N}, GROUPS)
        copy.copy(data, other)
        copy.dispatch(pipe, [other], {"n": N}, GROUPS)
        copy.copy(other, data)
    for _ in range(20):
        value = either.submit(add)
        either.submit(copy, wait_for=value)
    assert (data.numpy() == 40).all()


def test_timestamps(either):
    if not either.caps.timestamp_valid_bits:
        pytest.skip("this queue has no timestamps")
    pipe, data = either.pipeline(kernels.increment()), either.array(np.zeros(N, np.uint32))
    with either.commands() as commands:
        commands.timestamp("start")
        for i in range(300):  # more than one query pool
            commands.dispatch(pipe, [data], {"n": N}, GROUPS)
            commands.timestamp(f"step {i}")
    with pytest.raises(VulkanError, match="not ready"):
        commands.timings()
    for _ in range(2):  # a resubmitted recording resets its own queries
        run(either, commands)
        timings = commands.timings()
        assert [label for label, _ in timings] == ["start"] + [f"step {i}" for i in range(300)]
        assert timings[0][1] == 0.0 and all(us >= 0 for _, us in timings) and sum(us for _, us in timings) > 0
        assert sum(us for _, us in timings) < 60e6


def test_profiles_name_every_command(device):
    if not device.caps.timestamp_valid_bits:
        pytest.skip("this queue has no timestamps")
    pipe, data = device.pipeline(kernels.increment()), device.array(np.zeros(N, np.uint32))
    with device.commands(profile=True) as commands:
        commands.fill(data, 0)
        commands.dispatch(pipe, [data], {"n": N}, GROUPS, label="mine")
        commands.dispatch(pipe, [data], {"n": N}, GROUPS)
        commands.copy(data.range(0, 16), data.range(64, 16))
    run(device, commands)
    assert [label for label, _ in commands.timings()] == ["begin", "fill", "mine", "increment", "copy"]


def test_reset_records_anew(either):
    pipe, data = either.pipeline(kernels.increment()), either.array(np.zeros(N, np.uint32))
    commands = either.commands(reusable=False)
    for turn in range(5):
        commands.dispatch(pipe, [data.range(0, 4 * N - 256 * (turn % 2))], {"n": N - 64 * (turn % 2)}, GROUPS)
        commands.end()
        run(either, commands)
        if turn == 0:
            with pytest.raises(VulkanError, match="reusable=False"):
                either.submit(commands)
        commands.reset()
    assert data.numpy()[0] == 5 and data.numpy()[-1] == 3


def test_paranoid_mode_has_a_barrier_everywhere_and_the_same_bits(device, seed):
    x = np.random.default_rng(seed).standard_normal(N, dtype=np.float32)
    results = []
    with Device(paranoid=True) as careful:
        for dev in (device, careful):
            pipe = dev.pipeline(kernels.saxpy())
            a, b, c = dev.array(x), dev.array(x[::-1]), dev.array(np.zeros(N, np.float32))
            with dev.commands() as commands:
                for _ in range(10):
                    commands.dispatch(pipe, [a, b, c], {"a": 0.3, "n": N}, GROUPS)
                    commands.dispatch(pipe, [c, a, b], {"a": -0.7, "n": N}, GROUPS)
            run(dev, commands)
            results.append(c.numpy())
            assert commands.barriers == (20 if dev is careful else 19)
    np.testing.assert_array_equal(results[0].view(np.uint32), results[1].view(np.uint32))


def test_explicit_barriers(device):
    pipe, data = device.pipeline(kernels.increment()), device.array(np.zeros(N, np.uint32))
    with device.commands() as commands:
        commands.dispatch(pipe, [data], {"n": N}, GROUPS)
        commands.barrier()
        commands.dispatch(pipe, [data], {"n": N}, GROUPS)
    assert commands.barriers == 0
    run(device, commands)
    assert (data.numpy() == 2).all()


def test_misuse_is_one_line(device):
    pipe, data = device.pipeline(kernels.increment()), device.array(np.zeros(N, np.uint32))
    over = device.caps.max_workgroup_count[0] + 1
    cases = [
        ("takes 1 bindings", lambda c: c.dispatch(pipe, [], {"n": 1})),
        ("takes 1 bindings", lambda c: c.dispatch(pipe, [data, data], {"n": 1})),
        (r"push constants \['n'\] are missing", lambda c: c.dispatch(pipe, [data])),
        ("missing or unknown", lambda c: c.dispatch(pipe, [data], {"n": 1, "m": 2})),
        ("n cannot take 1.5: it is u32", lambda c: c.dispatch(pipe, [data], {"n": 1.5})),
        ("n cannot take -1", lambda c: c.dispatch(pipe, [data], {"n": -1})),
        ("takes 4 bytes of push constants, got 8", lambda c: c.dispatch(pipe, [data], bytes(8))),
        ("maxComputeWorkGroupCount", lambda c: c.dispatch(pipe, [data], {"n": 1}, (over, 1, 1))),
        ("maxComputeWorkGroupCount", lambda c: c.dispatch(pipe, [data], {"n": 1}, (1, 1, -1))),
        ("no multiple of the device's storage buffer alignment",
         lambda c: c.dispatch(pipe, [data.range(4, 64)], {"n": 1})),
        ("sizes must be equal", lambda c: c.copy(data.range(0, 8), data.range(16, 4))),
        ("overlaps", lambda c: c.copy(data.range(0, 8), data.range(4, 8))),
        ("multiples of 4", lambda c: c.fill(data.range(2, 4), 0)),
        ("multiples of 4", lambda c: c.fill(data.range(0, 6), 0)),
        ("the value a u32", lambda c: c.fill(data, 1 << 32)),
        ("still open", device.submit),
    ]
    for words, act in cases:
        with pytest.raises(VulkanError, match=words) as caught:
            act(device.commands())
        assert "\n" not in str(caught.value)
    with device.commands() as closed:
        pass
    for act in (closed.end, lambda: closed.fill(data, 0), lambda: closed.dispatch(pipe, [data], {"n": 1})):
        with pytest.raises(VulkanError, match="closed"):
            act()
    with pytest.raises(VulkanError, match="cannot wait for timeline value"):
        device.submit(closed, wait_for=10**9)
    with pytest.raises(VulkanError, match="cannot wait for timeline value"):
        device.wait(10**9)


def test_a_binding_over_the_range_limit_is_refused(device):
    limit = device.caps.max_storage_buffer_range
    if limit + 16 > min(device.caps.max_memory_allocation_size, 1 << 28):
        pytest.skip("the limit is too high to allocate past it")
    pipe, big = device.pipeline(kernels.increment()), device.buffer(limit + 16)
    commands = device.commands()
    with pytest.raises(VulkanError, match=f"maxStorageBufferRange {limit}"):
        commands.dispatch(pipe, [big], {"n": 1})
    commands.dispatch(pipe, [big.range(0, limit)], {"n": 1})


def test_things_of_another_device_are_refused(device, staged):
    mine, theirs = device.array(np.zeros(N, np.uint32)), staged.array(np.zeros(N, np.uint32))
    pipe = device.pipeline(kernels.increment())
    cases = [("another device", lambda c: c.dispatch(pipe, [theirs], {"n": 1})),
             ("another device", lambda c: c.copy(mine, theirs)),
             ("another device", lambda c: c.fill(theirs, 0)),
             ("made for another device", lambda c: c.dispatch(staged.pipeline(kernels.increment()), [mine], {"n": 1}))]
    for words, act in cases:
        with pytest.raises(VulkanError, match=words):
            act(device.commands())
    mine.buffer.free()
    with pytest.raises(VulkanError, match="has been freed"):
        device.commands().dispatch(pipe, [mine], {"n": 1})


def test_what_commands_use_stays_alive(device):
    pipe, data = device.pipeline(kernels.increment()), device.array(np.zeros(N, np.uint32))
    with device.commands() as commands:
        temporary = device.array(np.full(N, 41, np.uint32))
        commands.dispatch(pipe, [temporary], {"n": N}, GROUPS)
        commands.copy(temporary, data)
        del temporary
    device.array(np.zeros(4 * N, np.uint32))
    run(device, commands)
    assert (data.numpy() == 42).all()
