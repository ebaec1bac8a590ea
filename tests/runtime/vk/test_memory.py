"""Placing buffers in memory: the free list, memory types, blocks, and giving memory back."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.vk import VulkanError
from runtime.vk.freelist import FreeList
from runtime.vk.memory import ALIGNMENT, CACHED, DEVICE_LOCAL, HOST, LARGE_BYTES, choose_type

PROTECTED = 0x20


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(1, 300), st.sampled_from([1, 4, 16, 256]), st.booleans()), max_size=60))
def test_taken_ranges_never_overlap_and_all_come_back(requests):
    free, taken = FreeList(4096), []
    for size, alignment, give_one_back in requests:
        if give_one_back and taken:
            free.give(*taken.pop(len(taken) // 2))
        offset = free.take(size, alignment)
        if offset is None:
            continue
        assert offset % alignment == 0 and offset + size <= 4096
        assert all(offset + size <= o or o + s <= offset for o, s in taken)
        taken.append((offset, size))
        assert free.free_bytes == 4096 - sum(s for _, s in taken)
    for entry in taken:
        free.give(*entry)
    assert free.empty and free.take(4096, 1) == 0


def test_a_range_cannot_be_freed_twice():
    free = FreeList(64)
    offset = free.take(16, 1)
    free.give(offset, 16)
    with pytest.raises(ValueError, match="freed twice"):
        free.give(offset, 16)


def test_memory_types_as_a_discrete_card_lists_them():
    types = [0, DEVICE_LOCAL, HOST, HOST | CACHED, DEVICE_LOCAL | HOST, DEVICE_LOCAL | PROTECTED]
    everything = (1 << len(types)) - 1
    assert choose_type(types, everything, DEVICE_LOCAL, 0, HOST) == 1
    assert choose_type(types, everything, DEVICE_LOCAL, HOST, 0) == 4
    assert choose_type(types, everything, HOST, CACHED, DEVICE_LOCAL) == 3
    assert choose_type(types, 0b010111, HOST, CACHED, DEVICE_LOCAL) == 2
    assert choose_type(types, 0b100001, DEVICE_LOCAL, 0, 0) is None


def test_small_buffers_share_a_block_and_are_aligned(either):
    buffers = [either.buffer(100) for _ in range(20)]
    blocks = {b._allocation.block for b in buffers}
    assert len(blocks) == 1
    offsets = sorted(b._allocation.offset for b in buffers)
    assert all(o % ALIGNMENT == 0 for o in offsets) and len(set(offsets)) == 20


def test_a_dropped_buffers_memory_is_used_again(either):
    gc.collect()  # what earlier tests dropped must not make room while this one looks
    either.synchronize()
    either.memory()
    kept = either.buffer(1 << 16)
    first = either.buffer(1 << 16)
    offset, block = first._allocation.offset, first._allocation.block
    del first
    gc.collect()
    either.synchronize()
    again = either.buffer(1 << 16)
    assert again._allocation.block is block and again._allocation.offset == offset
    del kept


def test_a_large_buffer_has_its_own_memory_and_gives_it_back(either):
    either.memory()
    before = either.memory_pool.used
    big = either.buffer(LARGE_BYTES + 4096)
    assert either.memory_pool.used > before + LARGE_BYTES
    del big
    gc.collect()
    either.memory()
    assert either.memory_pool.used == before


def test_free_does_not_wait_for_the_last_reference(either):
    either.memory()
    before = either.memory_pool.used
    big = either.buffer(LARGE_BYTES + 4096)
    big.free()
    big.free()
    either.memory()
    assert either.memory_pool.used == before and big.mapped is None


def test_a_view_keeps_the_memory_when_the_buffer_is_gone(device):
    host = device.buffer(4096, host=True)
    view = host.mapped
    view[:] = 7
    offset, block = host._allocation.offset, host._allocation.block
    del host
    gc.collect()
    device.synchronize()
    others = [device.buffer(4096, host=True) for _ in range(8)]
    for other in others:
        other.mapped[:] = 9
        assert (other._allocation.block, other._allocation.offset) != (block, offset)
    assert (view == 7).all()
    view[:] = 1  # still writable


@pytest.mark.parametrize("nbytes, words", [(0, "at least 1 byte"), (-4, "at least 1 byte")])
def test_a_buffer_has_bytes(device, nbytes, words):
    with pytest.raises(VulkanError, match=words):
        device.buffer(nbytes)


def test_sizes_over_the_devices_limits_are_refused_by_name(device):
    caps = device.caps
    with pytest.raises(VulkanError, match="maxBufferSize"):
        device.buffer(caps.max_buffer_size + 1)
    if caps.max_memory_allocation_size < caps.max_buffer_size:
        with pytest.raises(VulkanError, match="maxMemoryAllocationSize"):
            device.buffer(caps.max_memory_allocation_size + 1)


def test_the_budget(device):
    budget = device.memory()
    assert 0 < budget.budget <= budget.size and 0 <= budget.used <= budget.size


def test_host_buffers_are_mapped_on_every_device(either):
    host = either.buffer(1000, host=True)
    host.mapped[:] = np.arange(1000) % 251
    np.testing.assert_array_equal(either.download(host, 0, 1000), host.mapped)
    assert host.mapped.size == host.size == 1000
