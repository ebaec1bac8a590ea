"""What expressions and assignments mean, against numpy: literals, vectors, structs, arrays, lists, operators."""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl import (
    FloatControls,
    In,
    InOut,
    Out,
    Spec,
    any_true,
    atomic_add,
    atomic_compare_exchange,
    atomic_max,
    barrier,
    bitcast,
    bool_,
    dot,
    f16,
    f32,
    f32x2,
    f32x4,
    global_id,
    i32,
    kernel,
    local_array,
    local_index,
    select,
    shared,
    static_range,
    struct,
    type_of,
    u8,
    u32,
    u32x4,
    workgroup_size,
    workgroup_sum,
)

N = 8
X = np.linspace(-3, 4, N).astype("f4")
U = np.arange(N, dtype="u4") * 7 + 1
OFFSET = 3


def zeros(dtype="f4", n=N):
    return np.zeros(n, dtype)


@struct
class Inner:
    a: f32
    b: u32


@struct
class Outer:
    head: Inner
    data: f32[3]


@kernel(workgroup_size=N)
def literals(x: In[f32], u: In[u32], y: Out[f32], z: Out[u32]):
    i = global_id.x
    y[i] = 2 * x[i] + 1 - OFFSET / 2  # OFFSET / 2 is Python's 1.5
    z[i] = (u[i] << 2 | 1) ^ 0xF0 & ~u[i]


def test_weak_literals():
    y, z = zeros(), zeros("u4")
    literals.interpret(1, X, U, y, z)
    np.testing.assert_array_equal(y, np.float32(2) * X + np.float32(1) - np.float32(1.5))
    np.testing.assert_array_equal(z, (U << 2 | 1) ^ 0xF0 & ~U)


@kernel(workgroup_size=N)
def integers(u: In[u32], s: In[i32], z: Out[u32], t: Out[i32]):
    i = global_id.x
    z[i] = u[i] // 3 * 10 + u[i] % 5
    t[i] = s[i] // 4 * 100 + s[i] % 4 + (s[i] >> 1)


def test_floor_division_is_pythons():
    s, z, t = np.arange(-4, 4, dtype="i4"), zeros("u4"), zeros("i4")
    integers.interpret(1, U, s, z, t)
    np.testing.assert_array_equal(z, U // 3 * 10 + U % 5)
    np.testing.assert_array_equal(t, [v // 4 * 100 + v % 4 + (v >> 1) for v in s.tolist()])


@kernel(workgroup_size=N)
def vectors(x: In[f32x4], y: Out[f32x4], z: Out[f32]):
    i = global_id.x
    v = x[i]
    v.x = 10
    v.yz = v.zy
    v[3] += v.x
    y[i] = f32x4(v.wz, v.xx) * 2
    y[i].y = 5
    a, b, _, _ = x[i]
    z[i] = dot(v.xy, f32x2(a, b)) + v[i % 4]


def test_vectors_and_swizzles():
    x = np.random.default_rng(1).integers(-8, 8, (N, 4)).astype("f4")
    y, z = np.zeros((N, 4), "f4"), zeros()
    vectors.interpret(1, x, y, z)
    v = np.stack([np.full(N, 10), x[:, 2], x[:, 1], x[:, 3] + 10], 1)
    want = np.stack([v[:, 3], v[:, 2], v[:, 0], v[:, 0]], 1) * 2
    want[:, 1] = 5
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(z, v[:, 0] * x[:, 0] + v[:, 1] * x[:, 1] + v[np.arange(N), np.arange(N) % 4])


@kernel(workgroup_size=N)
def structs(o: InOut[Outer], y: Out[f32]):
    i = global_id.x
    copy = Inner(o[i].head.a + 1, b=i)
    copy.a *= 2
    o[i].head = copy
    o[i].data[i % 3] = copy.a
    y[i] = o[i].data[0] + o[i].data[1] + o[i].data[2]


def test_structs():
    o = np.zeros(N, np.dtype([("head", [("a", "f4"), ("b", "u4")]), ("data", "f4", 3)]))
    o["head"]["a"] = X
    y = zeros()
    structs.interpret(1, o, y)
    want = (X + np.float32(1)) * 2
    np.testing.assert_array_equal(o["head"]["a"], want)
    np.testing.assert_array_equal(o["head"]["b"], np.arange(N))
    np.testing.assert_array_equal(y, want)


@kernel(workgroup_size=N)
def arrays(x: In[f32], y: Out[f32]):
    i = local_index
    tile, mine = shared(f32, N), local_array(f32, 3)
    tile[i] = x[i]
    for j in range(3):
        mine[j] = f32(j)
    barrier()
    mine[i % 3] += 10
    y[i] = tile[N - 1 - i] + mine[0] * 2 + mine[2] + len(tile) + f32(len(x))


def test_shared_and_local_arrays():
    y = zeros()
    arrays.interpret(1, X, y)
    i = np.arange(N)
    np.testing.assert_array_equal(y, X[::-1] + np.float32(2) * (10 * (i % 3 == 0)) + (2 + 10 * (i % 3 == 2)) + 8 + 8)


@kernel(workgroup_size=N)
def pushed(y: Out[f32], a: f32, n: u32, k: Spec[u32] = 3, on: Spec[bool_] = True):
    i = global_id.x
    y[i] = a * f32(n + k) if on else -1.0


@pytest.mark.parametrize(("spec", "want"), [(None, 2.5 * 7), ({"k": 10}, 2.5 * 14), ({"on": False}, -1)])
def test_push_and_specialisation_constants(spec, want):
    y = zeros()
    pushed.interpret(1, y, a=2.5, n=4, spec=spec)
    np.testing.assert_array_equal(y, np.full(N, want, "f4"))


@kernel(workgroup_size=N)
def conversions(x: In[f32], z: Out[u32], h: Out[f16], s: Out[i32]):
    i = global_id.x
    z[i] = bitcast(x[i], u32)
    h[i] = f16(x[i])
    s[i] = i32(x[i]) + i32(x[i] > 0) + i32(u8(300 - 256))
    t: f32 = 3
    assert type_of(t) == f32 and type_of(x[i]) == f32


def test_conversions():
    z, h, s = zeros("u4"), zeros("f2"), zeros("i4")
    conversions.interpret(1, X, z, h, s)
    np.testing.assert_array_equal(z, X.view("u4"))
    np.testing.assert_array_equal(h, X.astype("f2"))
    np.testing.assert_array_equal(s, np.trunc(X).astype("i4") + (X > 0) + 44)


@kernel(workgroup_size=N)
def logic(x: In[f32], z: Out[u32], n: u32):
    i = global_id.x
    inside = -1 < x[i] < 2
    # the right side would read out of bounds
    low = i + 1 < n and x[i + 1] > 0
    edge = i == 0 or x[i - 1] < 0 or not x[i] < 3
    z[i] = u32(inside) + 2 * u32(low) + 4 * u32(edge) + (u32(8) if x[i] > 1 else 0) + select(x[i] < 0, u32(16), 0)


def test_logic_is_lazy():
    z = zeros("u4")
    logic.interpret(1, X, z, n=N)
    want = [(-1 < X[i] < 2) + 2 * (i + 1 < N and X[i + 1] > 0) + 4 * (i == 0 or X[i - 1] < 0 or not X[i] < 3) + 8 * (X[i] > 1) + 16 * (X[i] < 0) for i in range(N)]
    np.testing.assert_array_equal(z, want)


@kernel(workgroup_size=N)
def order(x: InOut[f32], y: Out[f32]):
    i = global_id.x
    old = x[i]
    x[i] = 1.0
    a, b = old, x[i]
    a, b = b, a
    items = [x[i], x[i] + 1]
    x[i] = 7.0
    y[i] = a * 100 + b * 10 + items[0] + items[1]


def test_values_are_read_where_they_stand():
    x, y = np.full(N, 5, "f4"), zeros()
    order.interpret(1, x, y)
    np.testing.assert_array_equal(y, 100 + 50 + 1 + 2)
    np.testing.assert_array_equal(x, 7)


@kernel(workgroup_size=N)
def lists(x: In[f32], y: Out[f32], n: u32):
    i = global_id.x
    acc = [[f32(r * 2 + c) for c in static_range(2)] for r in static_range(3)]
    for _ in range(n):
        for r in static_range(3):
            for c in static_range(2):
                acc[r][c] += x[i] if c else 1.0
    odd = [q for q in (1, 2, 3, 4, 5) if q % 2]
    pairs = sum([a * b for a, b in zip(odd, (10, 20, 30))])
    y[i] = sum([sum(row) for row in acc]) + pairs + max(acc[0]) + len(odd)


def test_lists_of_registers():
    y = zeros()
    lists.interpret(1, X, y, n=3)
    acc = np.array([[[r * 2 + c + (3 * v if c else 3) for c in range(2)] for r in range(3)] for v in X])
    np.testing.assert_allclose(y, acc.sum((1, 2)) + 10 + 60 + 150 + acc[:, 0].max(1) + 3, rtol=1e-6)


@kernel(workgroup_size=N)
def tiles(x: In[f32], y: Out[f32]):
    both = [shared(f32, N) for _ in static_range(2)]
    for t in static_range(2):
        both[t][local_index] = x[local_index] * (t + 1)
    barrier()
    y[local_index] = both[0][N - 1 - local_index] + 10 * both[1][local_index] + min(x[0], 2, x[1])


def test_every_iteration_has_its_own_shared_array():
    y = zeros()
    tiles.interpret(1, X, y)
    np.testing.assert_allclose(y, X[::-1] + 20 * X + min(X[0], 2, X[1]), rtol=1e-6)


@kernel(workgroup_size=N)
def atomics(z: InOut[u32], x: In[u32]):
    total = shared(u32, 1)
    if local_index == 0:
        total[0] = 0
    barrier()
    atomic_add(total[0], x[global_id.x])
    atomic_max(z[1], x[global_id.x])
    atomic_compare_exchange(z[2], 0, 9)
    barrier()
    if local_index == 0:
        z[0] = total[0]


def test_atomics():
    z = zeros("u4", 3)
    atomics.interpret(1, z, U)
    np.testing.assert_array_equal(z, [U.sum(), U.max(), 9])


@kernel(workgroup_size=N, float_controls=FloatControls())
def groups(x: In[f32], y: Out[f32], z: Out[u32]):
    i = global_id.x
    y[i] = workgroup_sum(x[i]) + f32(workgroup_size.x)
    v = u32x4(i, 1, 2, 3)
    z[i] = u32(any_true(v == 2)) + v.x // 2


@pytest.mark.parametrize("width", [4, 8, 32])
def test_subgroups(width):
    y, z = zeros(), zeros("u4")
    groups.interpret(1, X, y, z, subgroup_size=width)
    np.testing.assert_allclose(y, X.sum() + N, rtol=1e-6)
    np.testing.assert_array_equal(z, 1 + np.arange(N) // 2)
