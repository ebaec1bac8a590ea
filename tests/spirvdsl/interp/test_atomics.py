"""Atomics: lanes take turns in lane order; old values and final memory against a Python loop."""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl.interp import interpret
from spirvdsl.lang.types import Array, f32, i32, i64, u32, u64

from .harness import Kit

N = 96
FNS = {
    "add": lambda o, v, c: o + v, "sub": lambda o, v, c: o - v, "min": lambda o, v, c: min(o, v), "max": lambda o, v, c: max(o, v),
    "and": lambda o, v, c: o & v, "or": lambda o, v, c: o | v, "xor": lambda o, v, c: o ^ v, "exchange": lambda o, v, c: v,
    "compare_exchange": lambda o, v, c: v if o == c else o,
}  # fmt: skip
SPREADS = {"one": lambda i: 0, "pairs": lambda i: i // 2, "few": lambda i: i * 7 % 3, "own": lambda i: i, "mixed": lambda i: 0 if i < 40 else i}


@pytest.mark.parametrize("spread", sorted(SPREADS))
@pytest.mark.parametrize("fn", sorted(FNS))
@pytest.mark.parametrize("t", [u32, i32, i64, u64], ids=str)
def test_storage_atomics(fn, t, spread):
    rng = np.random.default_rng(7)
    dtype = np.dtype(f"{t.kind}{t.bits // 8}")
    lo, hi = t.range()
    values = rng.integers(lo, hi, N, dtype=dtype) if fn != "compare_exchange" else rng.integers(0, 3, N).astype(dtype)
    expect = rng.integers(0, 3, N).astype(dtype)
    start = rng.integers(0, 3, N).astype(dtype)
    where = np.uint32([SPREADS[spread](i) for i in range(N)])
    for masked in (False, True):
        k = Kit()
        i = k.gid()
        block = k.if_(k.binary("ne", k.binary("and", i, k.u32(3)), k.u32(1)))[0] if masked else k.block
        with k.at(block):
            ref = k.index(k.storage("mem", t), k.at(k.storage("where", u32), i))
            args = [k.at(k.storage("values", t), i)] + ([k.at(k.storage("expect", t), i)] if fn == "compare_exchange" else [])
            k.put(k.storage("out", t), i, k.node("atomic", t, (ref, *args), fn=fn, scope="device"))
        memory, out = start.copy(), np.zeros(N, dtype)
        buffers = {"mem": memory, "where": where, "values": values, "expect": expect, "out": out}
        module = k.module()
        interpret(module, N // 32, {n: buffers[n] for n in k.resources}, {}, None)
        want, old = start.tolist(), [0] * N
        for lane in range(N):
            if masked and lane & 3 == 1:
                continue
            at = int(where[lane])
            old[lane] = want[at]
            want[at] = int(np.array(FNS[fn](want[at], int(values[lane]), int(expect[lane])) % (1 << t.bits), np.uint64).astype(dtype))
        assert memory.tolist() == want and out.tolist() == old


def test_workgroup_atomics_loads_stores_and_floats():
    k = Kit()
    counter = k.shared("counter", Array(f32, 2))
    t = k.builtin("local_index")
    ref = k.index(counter, k.u32(1))
    first, _ = k.if_(k.binary("eq", t, k.u32(0)))
    with k.at(first):
        k.node("atomic", None, (ref, k.const(f32, 0.5)), fn="store", scope="workgroup")
    k.node("barrier", None, scope="workgroup", memory=("workgroup",))
    k.put(k.storage("old", f32), k.gid(), k.node("atomic", f32, (ref, k.convert(t, f32)), fn="add", scope="workgroup"))
    k.node("barrier", None, scope="workgroup", memory=("workgroup",))
    k.put(k.storage("end", f32), k.gid(), k.node("atomic", f32, (ref,), fn="load", scope="workgroup"))
    old, end = np.zeros(64, np.float32), np.zeros(64, np.float32)
    interpret(k.module(), 2, {"old": old, "end": end}, {}, None)
    assert (end == 31 * 16 + 0.5).all()
    assert old.reshape(2, 32).tolist() == [[i * (i - 1) / 2 + 0.5 for i in range(32)]] * 2
