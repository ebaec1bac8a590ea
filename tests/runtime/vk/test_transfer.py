"""Uploads and downloads, mapped and through staging rings; arrays."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from runtime.vk import VulkanError
from tests.runtime.vk.conftest import SLOT


@pytest.mark.parametrize("nbytes", [1, 3, 4, SLOT - 1, SLOT, SLOT + 1, 9 * SLOT + 5])
def test_bytes_come_back(either, seed, nbytes):
    data = np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)
    buffer = either.buffer(nbytes + 40)
    guard = np.full(nbytes + 40, 0xA5, np.uint8)
    either.upload(buffer, 0, guard)
    either.upload(buffer, 20, data)
    np.testing.assert_array_equal(either.download(buffer, 20, nbytes), data)
    guard[20:20 + nbytes] = data
    np.testing.assert_array_equal(either.download(buffer, 0, nbytes + 40), guard)


def test_staged_buffers_are_not_mapped(device, staged):
    assert staged.buffer(64).mapped is None
    if device.caps.unified_memory:
        assert device.buffer(64).mapped is not None


def test_the_source_may_change_after_upload_returns(staged):
    data = np.arange(6 * SLOT, dtype=np.uint8)
    buffer = staged.buffer(data.nbytes)
    staged.upload(buffer, 0, data)
    expected = data.copy()
    data[:] = 0
    np.testing.assert_array_equal(staged.download(buffer, 0, expected.nbytes), expected)


def test_a_mapped_file_is_read_in_place(either, tmp_path, seed):
    data = np.random.default_rng(seed).integers(0, 256, 3 * SLOT + 77, dtype=np.uint8)
    path = tmp_path / "weights"
    path.write_bytes(data.tobytes())
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        buffer = either.buffer(data.nbytes)
        either.upload(buffer, 0, memoryview(mapped))
        view = np.frombuffer(mapped, np.uint8)
        either.upload(buffer, 5, view[5:9])
        del view
    np.testing.assert_array_equal(either.download(buffer, 0, data.nbytes), data)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "u1", "c8", "?"])
def test_arrays(either, seed, dtype):
    values = np.random.default_rng(seed).integers(0, 2, (3, 5, 7)).astype(dtype)
    array = either.array(values)
    assert (array.shape, array.dtype, array.nbytes, array.size) == ((3, 5, 7), values.dtype, values.nbytes, 105)
    np.testing.assert_array_equal(array.numpy(), values)
    array.write(values[::-1])
    np.testing.assert_array_equal(array.numpy(), values[::-1])


def test_arrays_of_any_order_and_rank(either):
    values = np.arange(24, dtype=np.int32).reshape(4, 6)
    for v in (values.T, values[::2, ::3], np.float64(3.5), values[None]):
        np.testing.assert_array_equal(either.array(v).numpy(), v)
    assert either.empty(5, np.float16).shape == (5,)


def test_empty_data_is_no_transfer(either):
    buffer = either.buffer(16)
    submits = either.counters.submits
    either.upload(buffer, 0, b"")
    assert either.download(buffer, 3, 0).size == 0
    assert either.counters.submits == submits


def test_outside_the_buffer(either):
    buffer = either.buffer(16)
    for offset, size in ((-1, 4), (13, 4), (0, 17)):
        with pytest.raises(VulkanError, match="outside the buffer of 16 bytes"):
            either.upload(buffer, offset, bytes(size))
        with pytest.raises(VulkanError, match="outside the buffer of 16 bytes"):
            either.download(buffer, offset, size)


def test_wrong_size_for_an_array(either):
    with pytest.raises(VulkanError, match="cannot take values"):
        either.empty((2, 3), np.float32).write(np.zeros(7))


def test_ranges(device):
    buffer = device.buffer(100)
    part = buffer.range(10, 50).range(5, 10)
    assert (part.offset, part.size, part.end) == (15, 10, 25) and part.buffer is buffer and part.whole is part
    array = device.empty((4, 4), np.float32)
    assert array.range(16, 8).offset == array.offset + 16
    for offset, size in ((0, 0), (-1, 5), (99, 2), (0, 101)):
        with pytest.raises(VulkanError, match="outside"):
            buffer.range(offset, size)
    with pytest.raises(VulkanError, match="outside the slice"):
        part.range(6, 5)


def test_large_copies_use_threads(monkeypatch, staged):
    """With many cores, pieces are copied by several threads, which end with the transfer."""
    from runtime.vk import transfer

    monkeypatch.setattr(transfer.os, "cpu_count", lambda: 16)
    monkeypatch.setattr(transfer, "THREADED_BYTES", 8192)
    data = np.arange(5 * SLOT + 3, dtype=np.uint32).view(np.uint8)
    buffer = staged.buffer(data.nbytes)
    staged.upload(buffer, 0, data)
    np.testing.assert_array_equal(staged.download(buffer, 0, data.nbytes), data)
