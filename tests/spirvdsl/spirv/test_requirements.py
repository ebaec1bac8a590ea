"""Version, capabilities, extensions and device features: the lowest that each kernel needs, as literal tables."""

from __future__ import annotations

import pytest

from spirvdsl.diagnostics import CompileError
from spirvdsl.ir.nodes import FloatControls
from spirvdsl.lang.types import f16, f32
from spirvdsl.spirv import compile_module
from spirvdsl.spirv.features import FEATURE_OF, features
from spirvdsl.spirv.grammar import ENUM_BY_VALUE, ENUMS
from spirvdsl.spirv.requirements import requirements
from spirvdsl.spirv.words import walk

from . import flow_cases, matrix_cases, mutate  # noqa: F401  (the former register cases)
from .cases import CASES, compiled
from .kit import Kit

# case -> version, features. Written by hand from the specifications, not from what the compiler printed.
EXPECTED = {
    "add.f32": ("1.3", ()),
    "add.f16": ("1.3", ("shaderFloat16", "storageBuffer16BitAccess")),
    "add.f64": ("1.3", ("shaderFloat64",)),
    "add.i64": ("1.3", ("shaderInt64",)),
    "add.i16": ("1.3", ("shaderInt16", "storageBuffer16BitAccess")),
    "add.u8": ("1.3", ("shaderInt8", "storageBuffer8BitAccess")),
    "convert.u8.u32": ("1.3", ("storageBuffer8BitAccess",)),
    "convert.f16.f32": ("1.3", ("storageBuffer16BitAccess",)),
    "convert.f32.f16": ("1.3", ("storageBuffer16BitAccess",)),
    "convert.bf16.f32": ("1.3", ("storageBuffer16BitAccess",)),
    "convert.f32.bf16": ("1.3", ("storageBuffer16BitAccess",)),
    "convert.u8.f32": ("1.3", ("shaderInt8", "storageBuffer8BitAccess")),
    "memory.storage_only": ("1.3", ("storageBuffer16BitAccess", "storageBuffer8BitAccess")),
    "bitcast.u32.u8x4": ("1.3", ("shaderInt8", "storageBuffer8BitAccess")),
    "int_dot": ("1.3", ("shaderIntegerDotProduct",)),
    "memory.struct": ("1.4", ("shaderFloat16", "shaderInt16", "shaderInt8", "storageBuffer16BitAccess", "storageBuffer8BitAccess")),
    "memory.push": (
        "1.3",
        ("shaderInt64", "storageBuffer16BitAccess", "storageBuffer8BitAccess", "storagePushConstant16", "storagePushConstant8"),
    ),
    "memory.uniform": ("1.3", ("storageBuffer16BitAccess", "uniformAndStorageBuffer16BitAccess")),
    "atomic.add.u32.storage": ("1.3", ()),
    "atomic.add.u64.storage": ("1.3", ("shaderBufferInt64Atomics", "shaderInt64")),
    "atomic.max.u64.workgroup": ("1.3", ("shaderInt64", "shaderSharedInt64Atomics")),
    "atomic.add.f32.storage": ("1.3", ("shaderBufferFloat32AtomicAdd",)),
    "atomic.add.f32.workgroup": ("1.3", ("shaderSharedFloat32AtomicAdd",)),
    "atomic.exchange.f32.storage": ("1.3", ("shaderBufferFloat32Atomics",)),
    "atomic.load.f32.workgroup": ("1.3", ("shaderSharedFloat32Atomics",)),
    "builtins": ("1.3", ("subgroup.basic",)),
    "barriers": ("1.3", ("subgroup.basic",)),
    "flow.workgroup": ("1.3", ()),
    "flow.hints": ("1.4", ()),
    "subgroup.add.f32": ("1.3", ("subgroup.arithmetic", "subgroup.basic", "subgroup.clustered")),
    "subgroup.add.f16": (
        "1.3",
        ("shaderFloat16", "shaderSubgroupExtendedTypes", "storageBuffer16BitAccess", "subgroup.arithmetic", "subgroup.basic", "subgroup.clustered"),
    ),
    "subgroup.shuffle.f32": ("1.3", ("subgroup.basic", "subgroup.shuffle")),
    "subgroup.shuffle_up.f32": ("1.3", ("subgroup.basic", "subgroup.shuffle_relative")),
    "subgroup.broadcast.f32": ("1.3", ("subgroup.basic", "subgroup.shuffle")),  # the lane is no constant
    "subgroup.quad_broadcast.f32": ("1.3", ("subgroup.basic", "subgroup.quad")),
    "subgroup.rotate.f32": ("1.3", ("shaderSubgroupRotate", "subgroup.basic")),
    "subgroup.vote": ("1.3", ("subgroup.ballot", "subgroup.basic", "subgroup.vote")),
    "subgroup.special": ("1.3", ("subgroup.ballot", "subgroup.basic", "subgroup.quad")),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_lowest_needs(name):
    reflection = compiled(name).reflection
    assert (reflection.spirv_version, reflection.features) == EXPECTED[name]


def declared(spirv: bytes) -> tuple[list[str], list[str]]:
    code = list(walk(spirv))
    caps = [ENUM_BY_VALUE["Capability"][d.values()[0]].name for d in code if d.op == "OpCapability"]
    return caps, [d.values()[0] for d in code if d.op == "OpExtension"]


def test_declarations_are_sorted_and_minimal():
    spirv = compiled("int_dot").spirv
    assert declared(spirv) == (["Shader", "DotProductInput4x8BitPacked", "DotProduct"], ["SPV_KHR_integer_dot_product"])
    for name in CASES:
        caps, exts = declared(compiled(name).spirv)
        numbers = [ENUMS["Capability"][c].value for c in caps]
        assert numbers == sorted(set(numbers)) and exts == sorted(set(exts))


def test_extension_goes_where_the_version_has_it_in_core():
    """8-bit storage is an extension up to 1.4 (SPIR-V 1.5 has it in core)."""
    assert declared(compiled("convert.u8.u32").spirv)[1] == ["SPV_KHR_8bit_storage"]
    code = list(walk(compiled("convert.u8.u32").spirv))
    assert requirements(code, at_least=15).extensions == ()


def test_float_controls():
    kit = Kit("controls", controls=FloatControls(True, (16, 32), (), (16,), (32,)))
    a = kit.input(f32)
    kit.keep(kit.binary("add", kit.binary("mul", a, a), a))
    kit.keep(kit.unary("neg", kit.input(f16)))
    kernel = compile_module(kit.module())
    wanted = ("denorm_preserve_f16", "denorm_preserve_f32", "rte_f16", "signed_zero_inf_nan_preserve_f32")
    assert tuple(f for f in kernel.reflection.features if f.startswith("float")) == tuple(f"float_controls.{w}" for w in wanted)
    assert declared(kernel.spirv)[1] == ["SPV_KHR_float_controls"]
    code = list(walk(kernel.spirv))
    exact = {d.values()[0] for d in code if d.op == "OpDecorate" and d.values()[1] == ENUMS["Decoration"]["NoContraction"].value}
    assert exact == {d.result_id for d in code if d.op in ("OpFAdd", "OpFMul", "OpFNegate")}


def test_contradicting_denormals_are_refused():
    kit = Kit("both", controls=FloatControls(denorm_preserve=(32,), denorm_flush=(32,)))
    kit.keep(kit.input(f32))
    with pytest.raises(CompileError, match="both preserved and flushed"):
        compile_module(kit.module())


def test_every_capability_that_can_be_emitted_has_a_feature_row():
    emitted = {cap for name in CASES for cap in declared(compiled(name).spirv)[0]}
    assert emitted <= set(FEATURE_OF)


def test_unknown_capability_fails_closed():
    header, code = mutate.split(compiled("add.f32").spirv)
    code[0] = [2 << 16 | 17, ENUMS["Capability"]["Geometry"].value]
    with pytest.raises(CompileError, match="capability Geometry has no row"):
        features(list(walk(mutate.join(header, code))))
