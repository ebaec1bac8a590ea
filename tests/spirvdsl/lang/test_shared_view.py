"""shared_view(): one stretch of workgroup memory as arrays of several types, in the interpreter and on a device."""

from __future__ import annotations

import re

import numpy as np
import pytest

from spirvdsl import (
    CoopMatrix,
    In,
    MatrixAcc,
    Out,
    barrier,
    f16,
    f32,
    group_id,
    kernel,
    local_index,
    matrix_load,
    matrix_store,
    shared,
    shared_view,
    static_range,
    u8,
    u32,
    u32x4,
)
from spirvdsl.interp.faults import InterpError

T = CoopMatrix[f32, 8, 8, MatrixAcc]


@kernel(workgroup_size=32)
def several(x: In[u32x4], y: Out[f32], z: Out[u32]):
    words = shared(u32x4, 32)
    own = shared(f32, 3)
    halves, single, bytes = shared_view(words, f16), shared_view(words, u32), shared_view(shared_view(words, f32), u8)
    words[local_index] = x[group_id.x * 32 + local_index]
    if local_index < 3:
        own[local_index] = f32(local_index)
    barrier()
    for i in static_range(8):
        y[group_id.x * 256 + i * 32 + local_index] = f32(halves[i * 32 + local_index]) + own[2] - 2.0
    barrier()
    single[127 - local_index] = local_index + 256 * group_id.x
    barrier()
    z[group_id.x * 32 + local_index] = words[31 - local_index // 4].x + u32(bytes[127 * 4 + 1])


@kernel(workgroup_size=32)
def through_a_matrix(x: In[f32], y: Out[f32]):
    words = shared(u32x4, 16)
    numbers = shared_view(words, f32)
    matrix_store(words[0], matrix_load(T, x[0], 8), 2)
    barrier()
    y[local_index] = numbers[local_index] + numbers[63 - local_index]


@kernel(workgroup_size=8)
def half_written(x: In[f32], y: Out[f32]):
    words = shared(u32x4, 8)
    numbers = shared_view(words, f32)
    numbers[local_index] = x[local_index]
    barrier()
    y[local_index] = f32(words[local_index].x)


@kernel(workgroup_size=8)
def behind(x: In[f32], y: Out[f32], n: u32):
    words = shared(u8, 30)
    numbers = shared_view(words, f32)
    numbers[n] = x[0]
    barrier()
    y[0] = numbers[n]


def run_several(run, rng):
    x = rng.integers(-9, 10, (3, 256)).astype("f2")
    y, z = np.full((3, 256), np.nan, "f4"), np.full((3, 32), 7, "u4")
    run(several, 3, x.view("u4"), y, z)
    assert (y == x).all()
    lane = np.arange(32)
    first = 127 - (31 - lane // 4) * 4  # which lane stored the word that begins the u32x4
    assert (z == first + np.arange(3)[:, None] * 257).all()


def test_views_agree_in_the_interpreter(seed):
    run_several(lambda k, grid, *args: k.interpret(grid, *args), np.random.default_rng(seed))


@pytest.mark.parametrize("kernel", [several, through_a_matrix])
def test_views_agree_on_a_device(device, seed, kernel):
    missing = sorted(set(kernel.reflection.features) - device.caps.features)
    if missing:
        pytest.skip(f"{device.caps.name} lacks {', '.join(missing)}")
    rng = np.random.default_rng(seed)
    if kernel is several:
        run_several(lambda k, grid, *args: k[grid](*args), rng)
        return
    x, y = rng.integers(-9, 10, 64).astype("f4"), np.zeros(32, "f4")
    kernel[1](x, y)
    assert (y == x[:32] + x[:31:-1]).all()


def test_a_matrix_goes_through_words():
    x, y = np.arange(64, dtype="f4"), np.zeros(32, "f4")
    through_a_matrix.interpret(1, x, y, subgroup_size=8)
    assert (y == 63).all()


def test_what_no_store_has_reached_is_reported_through_every_view():
    with pytest.raises(InterpError, match="read of workgroup memory 'shared' that no store has reached"):
        half_written.interpret(1, np.ones(8, "f4"), np.ones(8, "f4"))


def test_a_view_ends_where_its_bytes_do():
    x, y = np.ones(1, "f4"), np.zeros(1, "f4")
    behind.interpret(1, x, y, n=6)
    assert y[0] == 1
    with pytest.raises(InterpError, match="index 7 is out of range of 'shared_f32', length 7"):
        behind.interpret(1, x, y, n=7)


def test_needs_and_layout():
    r, text = several.reflection, several.dis()
    assert r.features == ("workgroupMemoryExplicitLayout", "workgroupMemoryExplicitLayout16BitAccess", "workgroupMemoryExplicitLayout8BitAccess")
    assert r.workgroup_bytes == 512 + 12 and r.spirv_version == "1.4"
    assert len(re.findall(r"OpDecorate %shared\w* Aliased", text)) == 6  # five types of one array, and the other array
    assert re.findall(r"OpMemberDecorate %\w+_shared\S* 0 Offset (\d+)", text) == ["0", "512", "0", "0", "0", "0"]
