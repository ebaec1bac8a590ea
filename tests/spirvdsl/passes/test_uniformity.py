"""Barriers, subgroup and matrix operations under control flow that lanes may take apart, and under control flow that they cannot."""

from __future__ import annotations

import textwrap

import pytest

from spirvdsl.cli import catalogue
from spirvdsl.diagnostics import CompileError
from tests.spirvdsl.lang.loading import load

HEAD = """
from spirvdsl import *

T = CoopMatrix[f32, 8, 8, MatrixAcc]

def first_above(x, n, limit):
    for i in range(n):
        if x[i] > limit:
            return i
    return n

def summed(x):
    return subgroup_add(x)

@kernel(workgroup_size={size}, subgroup_size={lanes})
def k(x: In[f32], y: InOut[f32], n: u32):
"""

APART = [  # (workgroup, subgroup size, what the message names, body; >>> before the operation)
    (64, None, "'local_index < 5' depends on local_index", "if local_index < 5:\n    >>>barrier()"),
    (64, None, "global_id.x", "if global_id.x < n:\n    >>>barrier()"),
    (64, None, "'x[local_index] > 0.0' depends on local_index", "if x[local_index] > 0.0:\n    >>>barrier()"),
    (64, None, "'global_id.x >= n'", "if global_id.x >= n:\n    return\n>>>barrier()"),
    (64, None, "global_id.x", "if n > 3:\n    if global_id.x >= n:\n        return\n>>>barrier()"),
    (64, None, "subgroup_id", "if subgroup_id == 0:\n    >>>barrier()"),
    (64, 32, "subgroup_add()", "if subgroup_add(x[local_index]) > 1.0:\n    >>>barrier()"),
    (64, None, "local_index", "for i in range(local_index, n, 64):\n    >>>barrier()"),
    (64, None, "local_index", "i = local_index\nwhile i < n:\n    i += 64\n    >>>subgroup_barrier()"),
    (64, None, "local_index", "for i in range(n):\n    if x[i] > f32(local_index):\n        break\n    >>>barrier()"),
    (64, None, "local_index", "for i in range(n):\n    >>>barrier()\n    if x[i] > f32(local_index):\n        break"),
    (64, None, "local_index", "for i in range(n):\n    if x[i] > f32(local_index):\n        continue\n    >>>barrier()"),
    (64, None, "local_index", "a = n\nif x[0] > f32(local_index):\n    a = n + 1\nif a > 3:\n    >>>barrier()"),
    (64, None, "local_index", "a = u32(0)\nwhile a < n:\n    if x[a] > f32(local_index):\n        break\n    a += 1\nif a > 3:\n    >>>barrier()"),
    (64, None, "local_index", "a = n\nfor i in range(3):\n    if a > 7:\n        >>>barrier()\n    a = n + local_index"),
    (64, None, "first_above(", "if first_above(x, n, f32(local_index)) > 2:\n    >>>barrier()"),
    (64, None, "atomic_add()", "s = shared(u32, 1)\nif atomic_add(s[0], 1) == 0:\n    >>>barrier()"),
    (64, None, "a volatile load", "if volatile_load(y[0]) > 0.0:\n    >>>barrier()"),
    (64, None, "subgroup_shuffle()", "if subgroup_shuffle(x[0], n) > 0.0:\n    >>>barrier()"),
    (64, None, "subgroup_elect()", "if subgroup_elect():\n    y[0] = >>>subgroup_add(1.0)"),
    (64, None, "local_index", "if local_index < 32:\n    y[local_index] = >>>summed(1.0)"),
    (64, None, "local_index // 32", "if local_index // 32 == n:\n    y[local_index] = >>>subgroup_max(x[0])"),
    (64, None, "local_index // 8", "if local_index // 8 < n:\n    y[local_index] = >>>subgroup_add(x[local_index], cluster=16)"),
    (48, 16, "local_index // 24", "if local_index // 24 < n:\n    y[local_index] = >>>subgroup_add(x[local_index], cluster=16)"),
    ((8, 8), None, "local_id.y", "if local_id.y < n:\n    y[local_index] = >>>subgroup_add(x[local_index], cluster=16)"),
    (64, None, "local_index", "if local_index < n:\n    y[local_index] = >>>subgroup_shuffle_xor(x[local_index], 1)"),
    (64, None, "local_index", "if local_index > n:\n    >>>matrix_store(y[0], T(0.0), 8)"),
    (64, None, "an element of a matrix", "m = matrix_load(T, x[0], 8)\nif m[0] > 0.0:\n    >>>matrix_store(y[0], m, 8)"),
    (64, None, "an element of a matrix", "m = [matrix_load(T, x[0], 8)]\nif m[0][0] > 0.0:\n    >>>matrix_store(y[0], m[0], 8)"),
    (64, None, "local_index", "m = T(0.0)\nif local_index > n:\n    m = >>>matrix_load(T, x[0], 8)\nmatrix_store(y[0], m, 8)"),
    (64, None, "the place of matrix_load() differs between the lanes of a subgroup: it depends on local_index // 32", "m = >>>matrix_load(T, x[local_index // 32 * 64], 8)\nmatrix_store(y[0], m, 8)"),
    (64, None, "the stride of matrix_store() differs", ">>>matrix_store(y[0], T(0.0), local_index)"),
    (64, None, "the value that fills a matrix differs", "m = >>>T(x[local_index])\nmatrix_store(y[0], m, 8)"),
    (64, None, "the factor of a matrix differs", "m = T(0.0)\nm = >>>m * x[local_index]\nmatrix_store(y[0], m, 8)"),
]

TOGETHER = [
    (64, None, "if n > 3 and x[n] > 1.0:\n    barrier()"),
    (64, None, "if group_id.x > n:\n    return\nbarrier()"),
    (64, None, "if local_index < n:\n    y[local_index] = 0.0\nbarrier()"),
    (64, None, "for i in range(local_index, n, 64):\n    y[i] = 0.0\nbarrier()"),
    (64, None, "for i in range(n):\n    if x[i] > 1.0:\n        break\n    barrier()\nbarrier()"),
    (64, None, "for i in range(n):\n    if x[i] > f32(local_index):\n        break\nbarrier()"),
    (64, None, "for i in range(n):\n    if x[i] > f32(local_index):\n        continue\n    y[local_index] = 0.0\nbarrier()"),
    (64, None, "for i in range(n):\n    barrier()\n    if x[i] > f32(local_index):\n        continue\n    y[local_index] = 0.0"),
    (64, None, "if subgroup_id == 0:\n    y[0] = subgroup_add(x[local_index])\n    matrix_store(y[64], T(1.0), 8)"),
    (64, None, "for i in range(subgroup_id, n, num_subgroups):\n    matrix_store(y[i * 64], matrix_load(T, x[i * 64], 8) * 2.0, 8)"),
    (64, None, "if subgroup_any(x[local_index] > 0.0):\n    y[local_index] = subgroup_add(x[local_index])"),
    (64, None, "if local_index // 8 < n:\n    y[local_index] = subgroup_add(x[local_index], cluster=8)"),
    (64, None, "if global_id.x // 8 < n:\n    y[local_index] = subgroup_add(x[local_index], cluster=4)"),
    (64, None, "at = group_id.x * 64 + local_index\nif at // 8 < n:\n    y[at] = subgroup_add(x[at], cluster=8)"),
    (64, None, "if subgroup_lane // 8 < n:\n    y[local_index] = subgroup_add(x[local_index], cluster=8)"),
    (64, 32, "matrix_store(y[local_index // 32 * 64], T(x[subgroup_id]) * subgroup_broadcast_first(x[local_index]), 8)"),
    (64, 32, "if local_index // 32 == 1:\n    y[local_index] = subgroup_add(x[local_index])"),
    (64, 32, "if local_index < 32:\n    y[local_index] = subgroup_add(x[local_index])"),
    (256, None, "if local_index >= 128:\n    y[local_index] = subgroup_add(x[local_index])"),
    ((8, 8), None, "if local_id.y < n:\n    y[local_index] = subgroup_add(x[local_index], cluster=8)"),
    ((64, 1, 1), None, "if local_id.y < n and global_id.z == 0:\n    barrier()"),
    (64, None, "if local_index // 2 < n:\n    y[local_index] = subgroup_shuffle_xor(x[local_index], 1)"),
    (64, None, "a = local_index\na = n\nif a > 3:\n    barrier()"),
    (64, None, "a = n\nif local_index > n:\n    a = local_index\na = n\nif a > 3:\n    barrier()"),
    (64, None, "s = shared(u32, 1)\nif local_index == 0:\n    s[0] = n\nbarrier()\nif s[0] > 3:\n    barrier()"),
    (64, None, "if subgroup_elect():\n    if subgroup_elect():\n        y[0] = 1.0"),
    (64, None, "a = n\nif n > 3:\n    a = local_index\n    y[a] = 0.0\n    return\nif a > 2:\n    barrier()"),
    (1, None, "if local_index < n:\n    barrier()"),
    (64, None, "y[local_index] = workgroup_sum(x[local_index])"),
    (64, None, "if first_above(x, n, 3.0) > 2:\n    barrier()"),
    (64, None, "a = T(0.0)\nfor i in range(n):\n    if x[i] > 0.0:\n        a = a + matrix_load(T, x[i * 64], 8)\nmatrix_store(y[0], a, 8)"),
]


def made(folder, size, lanes, body):
    return load(folder, HEAD.format(size=size, lanes=lanes) + textwrap.indent(body, "    ") + "\n", dedented=False).k


@pytest.mark.parametrize(("size", "lanes", "why", "body"), APART, ids=[f"{i}-{b[3].splitlines()[0][:30]}" for i, b in enumerate(APART)])
def test_apart(tmp_path, size, lanes, why, body):
    source = HEAD.format(size=size, lanes=lanes) + textwrap.indent(body, "    ")
    at = source.index(">>>")
    with pytest.raises(CompileError) as caught:
        made(tmp_path, size, lanes, body.replace(">>>", "")).ir()
    error = caught.value
    assert error.code == "E0705" and (why in error.message or "first_above" in body), str(error)
    site = error.span.parent or error.span
    assert site.line == source[:at].count("\n") + 1, str(error)
    assert ("the condition is at" in str(error)) == ("differs" not in error.message)


@pytest.mark.parametrize(("size", "lanes", "body"), TOGETHER, ids=[f"{i}-{b[2].splitlines()[0][:30]}" for i, b in enumerate(TOGETHER)])
def test_together(tmp_path, size, lanes, body):
    made(tmp_path, size, lanes, body).compile()


def test_shipped_kernels_pass():
    """ir() holds the check; a kernel that it refused would not be in the catalogue's goldens either."""
    entries = catalogue.load("kernels.catalogue")
    assert len(entries) > 100
    for entry in entries[:: len(entries) // 40]:
        entry.kernel.ir()
