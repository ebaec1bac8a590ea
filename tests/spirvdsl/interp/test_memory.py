"""Places: std430 layout, struct elements, locals of every shape, workgroup memory, push and specialisation constants."""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl.interp import InterpError, interpret
from spirvdsl.interp.pack import pack
from spirvdsl.lang.types import Array, Field, Struct, Vector, bf16, bool_, f16, f32, i8, i32, u8, u16, u32, u64

from .harness import Kit

BLOCK = Struct("Block", (Field("d", f16), Field("qs", Array(i8, 32))))
MIXED = Struct("Mixed", (Field("a", f32), Field("v", Vector(f32, 3)), Field("t", Array(Vector(u16, 2), 3)), Field("inner", Struct("In", (Field("x", u8), Field("y", u64))))))


def test_a_block_of_a_quantised_format():
    k = Kit()
    ref = k.index(k.storage("blocks", BLOCK), k.gid())
    total = k.local(f32, "total")
    k.store(total, k.const(f32, 0.0))
    i = k.local(u32, "i")
    k.store(i, k.u32(0))
    cond, body, step = k.loop()
    with k.at(cond):
        k.yield_(k.binary("lt", k.load(i), k.u32(32)))
    with k.at(body):
        q = k.convert(k.load(k.index(k.member(ref, 1), k.load(i))), f32)
        k.store(total, k.binary("add", k.load(total), k.binary("mul", q, k.convert(k.load(k.member(ref, 0)), f32))))
    with k.at(step):
        k.store(i, k.binary("add", k.load(i), k.u32(1)))
    k.put(k.storage("out", f32), k.gid(), k.load(total))
    rng = np.random.default_rng(1)
    blocks = np.zeros(64, np.dtype([("d", "<f2"), ("qs", "i1", 32)]))
    blocks["d"], blocks["qs"] = rng.uniform(0.1, 1, 64), rng.integers(-128, 128, (64, 32))
    out = np.zeros(64, np.float32)
    interpret(k.module(), 2, {"blocks": blocks.view(np.uint8), "out": out}, {}, None)
    expected = np.zeros(64, np.float32)
    for j in range(32):
        expected += blocks["qs"][:, j].astype(np.float32) * blocks["d"].astype(np.float32)
    np.testing.assert_array_equal(out, expected)


def test_composites_move_whole_and_by_member():
    k = Kit()
    src, dst = k.storage("src", MIXED), k.storage("dst", MIXED)
    i = k.gid()
    k.put(dst, i, k.at(src, i))  # whole
    target = k.index(dst, i)
    k.store(k.index(k.member(target, 1), k.u32(2)), k.const(f32, 9.0))  # v.z
    inner = k.member(k.index(src, i), 3)
    k.store(k.member(k.member(target, 3), 1), k.binary("add", k.load(k.member(inner, 1)), k.const(u64, 1 << 40)))
    k.store(k.index(k.member(target, 2), k.u32(1)), k.const(Vector(u16, 2), (7, 8)))
    rows = [(float(n), (1.0, 2.0, 3.0 + n), ((1, 2), (3, 4), (5, n)), (n, n * 5)) for n in range(32)]
    src_bytes = np.concatenate([pack(MIXED, r) for r in rows])
    dst_bytes = np.zeros_like(src_bytes)
    interpret(k.module(), 1, {"src": src_bytes, "dst": dst_bytes}, {}, None)
    want = [(float(n), (1.0, 2.0, 9.0), ((1, 2), (7, 8), (5, n)), (n, n * 5 + (1 << 40))) for n in range(32)]
    np.testing.assert_array_equal(dst_bytes, np.concatenate([pack(MIXED, r) for r in want]))


def test_locals_indexed_at_run_time_and_by_component():
    """A table held in a local, a per-lane store into an array of vectors, and components of a vector local."""
    k = Kit()
    i = k.gid()
    table = k.local(Array(u32, 4), "table")
    k.store(table, k.const(Array(u32, 4), (10, 20, 30, 40)))
    picked = k.at(table, k.binary("and", i, k.u32(3)))
    vectors = k.local(Array(Vector(f32, 2), 4), "vectors")
    for n in range(4):
        k.store(k.index(vectors, k.u32(n)), k.const(Vector(f32, 2), (float(n), 0.5)))
    lane = k.binary("and", k.binary("shr", i, k.u32(1)), k.u32(3))
    k.store(k.index(vectors, lane), k.splat(k.convert(picked, f32), 2))
    total = k.const(Vector(f32, 2), (0.0, 0.0))
    for n in range(4):
        total = k.binary("add", total, k.load(k.index(vectors, k.u32(n))))
    v = k.local(Vector(f32, 2), "v")
    k.store(k.index(v, k.u32(1)), k.extract(total, 0))
    k.store(k.index(v, k.u32(0)), k.extract(total, 1))
    k.put(k.storage("out", Vector(f32, 2)), i, k.load(v))
    out = np.zeros((64, 2), np.float32)
    interpret(k.module(), 2, {"out": out}, {}, None)
    want = []
    for n in range(64):
        rows = [[float(j), 0.5] for j in range(4)]
        rows[n >> 1 & 3] = [(10, 20, 30, 40)[n & 3]] * 2
        s = np.sum(rows, axis=0)
        want.append([s[1], s[0]])
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("lanes", [0, 2])
def test_run_time_indexed_arrays_see_every_store(lanes):
    """Reads by lane between stores at one index, stores by lane, and stores in some lanes."""
    t = Vector(u32, lanes) if lanes else u32
    k = Kit()
    i = k.gid()

    def whole(x):
        return k.splat(x, lanes) if lanes else x

    a = k.local(Array(t, 4), "a")
    for n in range(4):
        k.put(a, k.u32(n), whole(k.u32(n)))
    mine, next_ = k.binary("and", i, k.u32(3)), k.binary("and", k.binary("add", i, k.u32(1)), k.u32(3))
    seen = [k.at(a, mine)]
    k.put(a, k.u32(2), whole(k.u32(20)))
    seen.append(k.at(a, mine))
    k.put(a, next_, whole(k.binary("add", i, k.u32(100))))
    seen += [k.at(a, mine), k.at(a, next_), k.at(a, k.u32(2))]
    k.put(a, k.u32(3), whole(k.u32(30)))
    then, _ = k.if_(k.binary("lt", i, k.u32(7)))
    with k.at(then):
        k.put(a, k.u32(0), whole(i))
        k.put(a, mine, whole(k.u32(77)))
    seen += [k.at(a, k.u32(n)) for n in range(4)]
    for n, value in enumerate(seen):
        k.put(k.storage(f"o{n}", u32), i, k.extract(value, lanes - 1) if lanes else value)
    out = {f"o{n}": np.zeros(32, np.uint32) for n in range(len(seen))}
    interpret(k.module(), 1, out, {}, None)
    for i in range(32):
        a, mine, next_, want = [0, 1, 2, 3], i & 3, (i + 1) & 3, []
        want.append(a[mine])
        a[2] = 20
        want.append(a[mine])
        a[next_] = i + 100
        want += [a[mine], a[next_], a[2]]
        a[3] = 30
        if i < 7:
            a[0] = i
            a[mine] = 77
        assert [int(out[f"o{n}"][i]) for n in range(len(seen))] == want + a


def test_local_structs_and_nested_arrays():
    point = Struct("Point", (Field("tag", bool_), Field("xs", Array(Array(i32, 3), 2))))
    k = Kit()
    i = k.gid()
    p = k.local(point, "p")
    k.store(k.member(p, 0), k.binary("lt", i, k.u32(16)))
    for a in range(2):
        for b in range(3):
            k.store(k.index(k.index(k.member(p, 1), k.u32(a)), k.u32(b)), k.const(i32, a * 3 + b))
    q = k.local(point, "q")
    k.store(q, k.load(p))
    row = k.index(k.member(q, 1), k.binary("and", i, k.u32(1)))
    k.store(k.index(row, k.binary("rem", i, k.u32(3))), k.convert(i, i32))
    value = k.load(k.index(k.index(k.member(q, 1), k.binary("and", i, k.u32(1))), k.u32(1)))
    k.put(k.storage("out", i32), i, k.select(k.load(k.member(q, 0)), value, k.const(i32, -1)))
    out = np.zeros(32, np.int32)
    interpret(k.module(), 1, {"out": out}, {}, None)
    want = [(n if n % 3 == 1 else (n & 1) * 3 + 1) if n < 16 else -1 for n in range(32)]
    assert out.tolist() == want


@pytest.mark.parametrize("groups", [1, 5])
def test_workgroup_memory_is_per_workgroup(groups):
    k = Kit()
    s = k.shared("tile", Array(Vector(f32, 2), 8))
    flags = k.shared("flags", Array(bool_, 8))
    t = k.builtin("local_index")
    k.store(k.index(s, t), k.vector(f32, (k.convert(k.gid(), f32), k.const(f32, 1.0)), 2))
    k.store(k.index(flags, t), k.binary("lt", t, k.u32(3)))
    k.node("barrier", None, scope="workgroup", memory=("workgroup",))
    other = k.binary("sub", k.u32(7), t)
    k.put(k.storage("out", Vector(f32, 2)), k.gid(), k.load(k.index(s, other)))
    k.put(k.storage("flag", u32), k.gid(), k.convert(k.load(k.index(flags, other)), u32))
    out, flag = np.zeros((groups * 8, 2), np.float32), np.zeros(groups * 8, np.uint32)
    interpret(k.module((8, 1, 1)), groups, {"out": out, "flag": flag}, {}, None)
    want = [[g * 8 + 7 - t, 1.0] for g in range(groups) for t in range(8)]
    assert out.tolist() == want and flag.tolist() == [0, 0, 0, 0, 0, 1, 1, 1] * groups


def test_push_spec_length_and_bf16():
    k = Kit()
    p = k.push(scale=f32, n=u32, wide=u64)
    add = k.spec("extra", u32, 5)
    x = k.storage("x", bf16)
    i = k.gid()
    length = k.node("array_length", u32, (x,))
    value = k.binary("mul", k.convert(k.at(x, i), f32), p["scale"])
    count = k.convert(k.binary("add", k.binary("add", length, add), p["n"]), f32)
    k.put(k.storage("out", bf16), i, k.convert(k.binary("add", value, count), bf16))
    k.put(k.storage("wide", u64), i, p["wide"])
    x = (np.arange(32, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    out, wide = np.zeros(32, np.uint16), np.zeros(32, np.uint64)
    module = k.module()
    interpret(module, 1, {"x": x, "out": out, "wide": wide}, {"scale": 2.0, "n": 3, "wide": 1 << 60}, {"extra": 6})
    got = (out.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(got, np.arange(32) * 2 + 41)
    assert (wide == 1 << 60).all()
    interpret(module, 1, {"x": x, "out": out, "wide": wide}, {"scale": 0.0, "n": 0, "wide": 0}, None)
    assert (out.astype(np.uint32) << 16).view(np.float32)[0] == 37


def test_uniform_buffer():
    from spirvdsl.ir.nodes import Resource

    k = Kit()
    t = Struct("Params", (Field("w", Array(f32, 4)), Field("n", u32)))
    k.resources["params"] = Resource("params", "uniform", t, k.span, binding=0)
    ref = k.resource(k.resources["params"])
    k.put(k.storage("out", f32), k.gid(), k.load(k.index(k.member(ref, 0), k.binary("rem", k.gid(), k.load(k.member(ref, 1))))))
    out = np.zeros(32, np.float32)
    interpret(k.module(), 1, {"params": pack(t, ((1.0, 2.0, 3.0, 4.0), 3)), "out": out}, {}, None)
    assert out.tolist() == [1.0 + i % 3 for i in range(32)]


def test_arguments_that_do_not_fit_are_refused():
    k = Kit()
    p = k.push(n=u32)
    k.spec("c", i32, 1)
    k.put(k.storage("out", u32), k.gid(), p["n"])
    module = k.module()
    good = np.zeros(32, np.uint32)
    locked = np.zeros(32, np.uint32)
    locked.flags.writeable = False
    for buffers, push, spec, size, words in [
        ({}, {"n": 1}, None, 32, "buffer 'out' is missing"), ({"out": good, "x": good}, {"n": 1}, None, 32, "no buffer 'x'"),
        ({"out": good}, {}, None, 32, "push member 'n' is missing"), ({"out": good}, {"n": 1, "m": 1}, None, 32, "no push member 'm'"),
        ({"out": np.zeros((32, 2), np.uint32)[:, 0]}, {"n": 1}, None, 32, "not C-contiguous"), ({"out": locked}, {"n": 1}, None, 32, "read-only"),
        ({"out": good}, {"n": -1}, None, 32, "push member 'n' .u32.: .*out of bounds"), ({"out": good}, {"n": 1.5}, None, 32, "1.5 is no u32"),
        ({"out": good}, {"n": "x"}, None, 32, "push member 'n' .u32."), ({"out": good}, {"n": 1}, {"c": 2.5}, 32, "constant 'c' .i32.: 2.5 is no i32"),
        ({"out": good}, {"n": 1}, {"z": 1}, 32, "no specialisation constant 'z'"), ({"out": good}, {"n": 1}, None, 24, "subgroup size 24"),
    ]:  # fmt: skip
        with pytest.raises(InterpError, match=words):
            interpret(module, 1, buffers, push, spec, subgroup_size=size)
    with pytest.raises(InterpError, match="grid"):
        interpret(module, (1, 2, 3, 4), {"out": good}, {"n": 1}, None)


def test_builtins_over_a_three_dimensional_grid():
    k = Kit()
    ids = ["global_id", "group_id", "num_groups", "local_id"]
    scalars = ["local_index", "subgroup_id", "num_subgroups", "subgroup_size", "subgroup_lane"]
    values = [k.extract(k.builtin(n), c) for n in ids for c in range(3)] + [k.builtin(n) for n in scalars]
    group = k.builtin("group_id")
    flat = k.binary("add", k.extract(group, 0), k.binary("mul", k.u32(2), k.binary("add", k.extract(group, 1), k.binary("mul", k.u32(3), k.extract(group, 2)))))
    row = k.binary("add", k.binary("mul", flat, k.u32(24)), k.builtin("local_index"))
    out = k.storage("out", u32)
    for c, v in enumerate(values):
        k.put(out, k.binary("add", k.binary("mul", row, k.u32(len(values))), k.u32(c)), v)
    module = k.module((4, 3, 2))
    for batch in (1, 1 << 15):
        got = np.zeros((12 * 24, len(values)), np.uint32)
        interpret(module, (2, 3, 2), {"out": got}, {}, None, subgroup_size=16, batch_lanes=batch)
        want = [
            [gx * 4 + x, gy * 3 + y, gz * 2 + z, gx, gy, gz, 2, 3, 2, x, y, z, local := x + 4 * (y + 3 * z), local // 16, 2, 16, local % 16]
            for gz in range(2) for gy in range(3) for gx in range(2) for z in range(2) for y in range(3) for x in range(4)
        ]  # fmt: skip
        np.testing.assert_array_equal(got, want)
