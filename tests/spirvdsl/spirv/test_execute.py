"""Hand-built IR on a device: control flow, conversions, structs and dots give what Python says.

The kernels are the cases of the lowering tests; inputs are random, results are computed lane by lane in plain Python or numpy.
"""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl.lang.types import Type, Vector, bf16, bool_, f32, i8, i32, i64, u8, u16, u32
from spirvdsl.spirv import compile_module

from . import flow_cases  # noqa: F401  (registers cases)
from .cases import CASES
from .kit import Kit

LANES = 32


def execute(device, module, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """One workgroup; buffers that are not given start as zeros of the size they need. Returns every buffer's bytes by name."""
    compiled = compile_module(module)
    buffers, arrays = [], {}
    for binding in compiled.reflection.bindings:
        raw = inputs.get(binding.name)
        host = np.zeros(LANES * binding.stride, np.uint8) if raw is None else np.ascontiguousarray(raw).view(np.uint8).reshape(-1)
        buffer = device.buffer(host.nbytes)
        device.upload(buffer, 0, host)
        buffers.append(buffer)
        arrays[binding.name] = (buffer, host.nbytes)
    commands = device.commands(reusable=False)
    commands.dispatch(device.pipeline(compiled), buffers, b"", (1, 1, 1))
    commands.end()
    device.wait(device.submit(commands))
    return {name: np.array(device.download(buffer, 0, size)) for name, (buffer, size) in arrays.items()}


def outputs(found: dict[str, np.ndarray], dtype) -> list[np.ndarray]:
    return [raw.view(dtype) for name, raw in found.items() if name.startswith("out")]


def inputs_of(name: str) -> list[str]:
    module = CASES[name][0]()
    return [r.name for r in module.resources if r.kind == "storage" and r.access == "in"]


def run_flow(device, name: str, *values: np.ndarray) -> np.ndarray:
    """A flow case with its u32 inputs in order; its first output."""
    names = inputs_of(name)
    assert len(names) == len(values), names
    return outputs(execute(device, CASES[name][0](), **dict(zip(names, values, strict=True))), np.uint32)[0]


def test_if(device, seed):
    a, b = (np.random.default_rng(seed + i).integers(0, 2, LANES, dtype=np.uint32) for i in range(2))
    wanted = np.where(a != 0, 1 + 2 * b, 4)
    assert (run_flow(device, "flow.if", a, b) == wanted).all() and len(set(wanted)) == 3


def nested(n: int) -> int:
    total = 0
    for i in range(n):
        for j in range(i):
            if j == 3:
                continue
            if j > 7:
                break
            total += j
        if total > 100:
            break
    return total


def test_nested_loops_with_break_and_continue(device):
    n = np.arange(LANES, dtype=np.uint32)
    assert run_flow(device, "flow.loop", n).tolist() == [nested(int(i)) for i in n]


def test_early_return(device):
    """Lanes that reach 9 leave before the store; the others store twice the same."""
    n = np.arange(LANES, dtype=np.uint32)
    found = run_flow(device, "flow.return", n, np.ones(LANES, np.uint32))
    assert found.tolist() == [i * (i - 1) // 2 if i <= 9 else 0 for i in range(LANES)]


def test_while_true(device):
    assert run_flow(device, "flow.while_true").tolist() == [11] * LANES


def test_body_that_always_breaks(device):
    n = np.arange(LANES, dtype=np.uint32) % 3
    assert (run_flow(device, "flow.body_always_breaks", n) == (n > 0)).all()


def test_branching_condition_and_step(device):
    n, extra = np.arange(0, 2 * LANES, 2, dtype=np.uint32), np.arange(LANES, dtype=np.uint32) % 2

    def wanted(n: int, extra: int) -> int:
        total = 0
        while total < n and total < 50:
            total += 1 + 2 * extra
        return total

    assert run_flow(device, "flow.branching_condition", n, extra).tolist() == [wanted(int(a), int(b)) for a, b in zip(n, extra, strict=True)]


def test_calls(device):
    n = np.array([i * i if i % 2 else i for i in range(LANES)], np.uint32)
    wanted = [next((i for i in range(v) if i * i == v), -1) for v in n.tolist()]
    module = CASES["flow.call"][0]()
    names = [r.name for r in module.resources if r.access == "in"]
    found = execute(device, module, **{names[0]: n})
    assert outputs(found, np.int32)[0].tolist() == wanted
    assert found["cells"].view(np.uint32).tolist() == list(range(LANES))


def test_workgroup_reduction(device, seed):
    x = np.random.default_rng(seed).integers(-50, 50, LANES).astype(np.float32)
    found = execute(device, CASES["flow.workgroup"][0](), **{inputs_of("flow.workgroup")[0]: x})
    assert (outputs(found, np.float32)[0] == x.sum()).all() and x.sum() != 0


def test_structs_are_copied_byte_for_byte(device, seed):
    """Small ones by members, large ones whole; padding bytes are not moved and stay zero."""
    rng, module = np.random.default_rng(seed), CASES["memory.struct"][0]()
    sizes = {"BLOCK": ("Block", 20), "WIDE": ("Wide", 34), "NEST": ("Nest", 64)}
    # halves below 0x7c00 are no NaN, so that every bit pattern survives a move through a float register
    given = {f"src_{title}": rng.integers(1, 0x70, (LANES, size), dtype=np.uint8) for title, size in sizes.values()}
    found = execute(device, module, **given)
    for title, size in sizes.values():
        copied, source = found[f"dst_{title}"].reshape(LANES, size), given[f"src_{title}"]
        used = 54 if title == "Nest" else size
        assert (copied[:, :used] == source[:, :used]).all() and not copied[:, used:].any()


def convert_on(device, source: Type, target: Type, given: np.ndarray, dtype) -> np.ndarray:
    """In batches of LANES elements of one workgroup each would be slow: one lane converts many."""
    kit = Kit("convert")
    count = len(given) // LANES
    x, y, i = kit.buffer("x", source, "in"), kit.buffer("y", target, "out"), kit.gid()
    with flow_cases.counted(kit, kit.const(u32, count)) as step:
        at = kit.binary("add", kit.binary("mul", step, kit.const(u32, LANES)), i)
        kit.store(kit.index(y, at), kit.convert(kit.load(kit.index(x, at)), target))
    return execute(device, kit.module(), x=given, y=np.zeros(len(given), dtype))["y"].view(dtype)


def test_every_bf16_to_f32(device):
    every = np.arange(65536, dtype=np.uint16)
    found = convert_on(device, bf16, f32, every, np.uint32)
    assert (found == every.astype(np.uint32) << 16).all()


def test_f32_to_bf16_rounds_to_nearest_even(device, seed):
    bits = np.random.default_rng(seed).integers(0, 1 << 32, 8192, dtype=np.uint32)
    bits[:8] = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x80000000, 0x00007FFF]
    found = convert_on(device, f32, bf16, bits, np.uint16)
    values = bits.view(np.float32)
    nan = np.isnan(values)
    # independent of the bit trick: the two neighbours in float64, the nearer one, ties to the even one
    low = (bits & 0xFFFF0000).astype(np.uint32)
    with np.errstate(invalid="ignore"):
        a, b = low.view(np.float32).astype(np.float64), (low + 0x10000).view(np.float32).astype(np.float64)
        b = np.where(np.isinf(b), np.sign(a) * 2.0**128, b)
        x = values.astype(np.float64)
        upper = (np.abs(x - b) < np.abs(x - a)) | ((np.abs(x - b) == np.abs(x - a)) & (low >> 16 & 1 == 1))
    wanted = np.where(np.isinf(values), low >> 16, (low >> 16) + upper).astype(np.uint16)
    assert (found[~nan] == wanted[~nan]).all()
    assert np.isnan((found[nan].astype(np.uint32) << 16).view(np.float32)).all() and nan.sum() > 10


@pytest.mark.parametrize(
    ("source", "target", "dtypes"),
    [
        (i8, i32, (np.int8, np.int32)), (i8, u32, (np.int8, np.uint32)), (u8, i32, (np.uint8, np.int32)), (i32, i8, (np.int32, np.int8)),
        (u32, i8, (np.uint32, np.int8)), (i32, i64, (np.int32, np.int64)), (u32, i64, (np.uint32, np.int64)), (i64, u16, (np.int64, np.uint16)),
        (i8, f32, (np.int8, np.float32)), (u32, f32, (np.uint32, np.float32)),
    ],
)  # fmt: skip
def test_integer_conversions(device, seed, source, target, dtypes):
    info = np.iinfo(dtypes[0])
    given = np.random.default_rng(seed).integers(info.min, info.max, 256, dtype=dtypes[0], endpoint=True)
    assert (convert_on(device, source, target, given, dtypes[1]) == given.astype(dtypes[1])).all()


def test_bool_converts_to_one(device):
    kit = Kit()
    kit.keep(kit.convert(kit.input(bool_, "x"), f32))
    found = execute(device, kit.module(), x=np.arange(LANES, dtype=np.uint32) % 3)
    assert outputs(found, np.float32)[0].tolist() == [float(i % 3 > 0) for i in range(LANES)]


@pytest.mark.parametrize(("signed_a", "signed_b"), [(True, True), (False, False), (True, False), (False, True)])
def test_integer_dot(device, seed, signed_a, signed_b):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 256, (LANES, 4), dtype=np.uint8) for _ in range(2))
    acc = np.full(LANES, 2**31 - 1 if signed_a or signed_b else 2**32 - 1, np.int64)
    result, dtype = (i32, np.int32) if signed_a or signed_b else (u32, np.uint32)
    kit = Kit()
    x, y = kit.input(u32, "x"), kit.input(u32, "y")
    kit.keep(kit.node("int_dot", result, (x, y), signed_a=signed_a, signed_b=signed_b), "out_plain")
    kit.keep(kit.node("int_dot", result, (x, y, kit.input(result, "acc")), signed_a=signed_a, signed_b=signed_b, saturate=True), "out_sat")
    found = execute(device, kit.module(), x=a, y=b, acc=acc.astype(dtype))
    wide = [v.view(np.int8 if signed else np.uint8).astype(np.int64) for v, signed in ((a, signed_a), (b, signed_b))]
    dot = (wide[0] * wide[1]).sum(1)
    assert (found["out_plain"].view(dtype) == dot).all()
    assert (found["out_sat"].view(dtype) == np.minimum(acc + dot, acc)).all() and (dot != 0).all()


def test_vector_component_and_dynamic_extract(device, seed):
    v = np.random.default_rng(seed).random((LANES, 4), dtype=np.float32)
    kit = Kit()
    lane = kit.binary("and", kit.gid(), kit.const(u32, 3))
    x = kit.input(Vector(f32, 4), "x")
    kit.keep(kit.node("extract_dynamic", f32, (x, lane)), "out_a")
    kit.keep(kit.load(kit.index(kit.index(kit.resource(kit.resources[0]), kit.gid()), lane)), "out_b")
    kit.keep(kit.node("shuffle", Vector(f32, 2), (x, x), lanes=(3, 4)), "out_c")
    found = execute(device, kit.module(), x=v)
    picked = v[np.arange(LANES), np.arange(LANES) % 4]
    assert (found["out_a"].view(np.float32) == picked).all() and (found["out_b"].view(np.float32) == picked).all()
    assert (found["out_c"].view(np.float32).reshape(LANES, 2) == v[:, [3, 0]]).all()


def test_array_length(device):
    kit = Kit()
    kit.keep(kit.node("array_length", u32, (kit.buffer("x", Vector(f32, 4), "in"),)))
    found = execute(device, kit.module(), x=np.zeros(7 * 4, np.float32))
    assert outputs(found, np.uint32)[0].tolist() == [7] * LANES


def test_atomics_count_every_lane(device):
    kit = Kit()
    cell = kit.index(kit.buffer("cell", u32), kit.const(u32, 0))
    kit.keep(kit.node("atomic", u32, (cell, kit.const(u32, 3)), fn="add", scope="device"))
    found = execute(device, kit.module())
    assert sorted(outputs(found, np.uint32)[0].tolist()) == list(range(0, 3 * LANES, 3))
    assert found["cell"].view(np.uint32)[0] == 3 * LANES
