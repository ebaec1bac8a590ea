"""What comes out: spirv-val accepts every shape; the words, the reflection and the checks say what the kernel means."""

from __future__ import annotations

import re

import numpy as np
import pytest

from spirvdsl import (
    CoopMatrix,
    InOut,
    MatrixAcc,
    barrier,
    cache,
    f16,
    f32,
    i8,
    i32,
    kernel,
    local_index,
    matrix_length,
    matrix_load,
    matrix_store,
    memory_barrier,
    shared,
    u8,
    u32,
)
from spirvdsl.compiled import MatrixProduct, MatrixType
from spirvdsl.spirv.check import first_finding
from spirvdsl.spirv.validate import first_error
from spirvdsl.spirv.words import version_of, walk
from tests.spirvdsl.matrix.kernels import Elementwise, Gemm, Product
from tests.spirvdsl.spirv import mutate

SHAPES = [(8, 8, 8, 8), (16, 16, 16, 32), (16, 8, 16, 32), (16, 16, 32, 32), (16, 16, 16, 64)]


@pytest.mark.parametrize(("m", "n", "k", "lanes"), SHAPES)
@pytest.mark.parametrize(("t", "c"), [(f16, f32), (f16, f16), (i8, i32), (u8, u32), (f32, f32)])
def test_every_shape_is_valid_and_says_what_it_needs(m, n, k, lanes, t, c):
    saturate = t in (i8, u8)
    r = Product.stamp(
        M=m, N=n, K=k, T=t, C=c, LANES=lanes, SATURATE=saturate).reflection
    assert r.products == (MatrixProduct(m, n, k, t.name, t.name, c.name, c.name, "subgroup", saturate),)
    assert r.matrices == tuple(MatrixType(x.name, *shape, use, "subgroup") for x, shape, use in (
        (t, (m, k), "MatrixA"), (t, (k, n), "MatrixB"), (c, (m, n), "MatrixAcc")))
    assert {"cooperativeMatrix", "vulkanMemoryModel"} <= set(r.features)
    assert ("shaderFloat16" in r.features) == (t == f16) and ("shaderInt8" in r.features) == (t in (i8, u8))


def test_signedness_follows_the_components():
    text = {t: Product.stamp(M=8, N=8, K=8, T=t, C=c, SATURATE=s).dis() for t, c, s in ((f16, f32, False), (i8, i32, False), (u8, u32, True))}
    found = {t: re.search(r"OpCooperativeMatrixMulAddKHR \S+ \S+ \S+ \S+ ?(.*)", x)[1] for t, x in text.items()}
    signed = "MatrixASignedComponentsKHR|MatrixBSignedComponentsKHR|MatrixCSignedComponentsKHR|MatrixResultSignedComponentsKHR"
    assert found == {f16: "", i8: signed, u8: "SaturatingAccumulationKHR"}


def test_a_product_without_its_signs_is_found():
    spirv = Product.stamp(M=8, N=8, K=8, T=i8, C=i32).compile().spirv
    mutant = mutate.without_last_operand(spirv, "OpCooperativeMatrixMulAddKHR")
    assert first_error(mutant) is None  # spirv-val 2025.5 lets it pass
    assert "signedness operands" in first_finding(list(walk(mutant)), version_of(mutant))[1]
    assert first_finding(list(walk(spirv)), version_of(spirv)) is None


def test_elements_with_constant_index_stay_out_of_memory():
    """Extract and insert for i[0], a pointer into the matrix only for an index known at run time."""
    text = Elementwise[8, 8, 8].dis()
    pointers = re.findall(r"OpAccessChain %ptr_Function_f32 .*", text)
    assert len(pointers) == 1 and pointers[0].count("%") == 4  # array element, matrix element: one chain for the load and the store
    assert text.count("OpCompositeInsert") == 8 and text.count("OpCompositeExtract") == 8


def test_workgroup_memory_is_not_private():
    """Vulkan memory model: each access of workgroup memory makes itself visible, so that barriers stay 264 (0x108)."""
    text = Gemm[8, 8, 8, 8].dis()
    assert re.findall(r"OpStore \S+ \S+ (.*)", text).count("MakePointerAvailable|NonPrivatePointer %u32_2") == 2  # two stagings
    assert text.count("MakePointerVisible|NonPrivatePointer %u32_2") == 2 * (1 + 2) + 1  # B and two of A at two steps of k; copy out
    assert set(re.findall(r"OpControlBarrier (.*)", text)) == {"%u32_2 %u32_2 %u32_264"}


@kernel(workgroup_size=8)
def talks(x: InOut[f32], q: InOut[u32]):
    x[local_index] = 1.0
    barrier(storage=True)
    memory_barrier()
    m = matrix_load(CoopMatrix[f32, 8, 8, MatrixAcc], x[0], 8)
    q[0] = q[0] + 1
    matrix_store(x[0], m, 8)


@kernel(workgroup_size=8)
def plain(x: InOut[f32]):
    s = shared(f32, 8)
    s[local_index] = x[local_index]
    barrier(storage=True)
    x[local_index] = s[7 - local_index]


def test_buffers_are_shared_only_where_a_barrier_covers_them():
    text = talks.dis()
    assert re.findall(r"OpCooperativeMatrix(?:Load|Store)KHR .* (NonPrivatePointer)", text) == ["NonPrivatePointer"] * 2
    assert re.findall(r"OpControlBarrier (.*)|OpMemoryBarrier (.*)", text) == [("%u32_2 %u32_2 %u32_24904", ""), ("", "%u32_5 %u32_24904")]
    assert "NonPrivatePointer" not in Product[8, 8, 8].dis()


@kernel(workgroup_size=8)
def only_asks(x: InOut[u32]):
    x[0] = matrix_length(CoopMatrix[f32, 8, 8, MatrixAcc])


def test_a_type_alone_makes_a_matrix_kernel():
    assert "OpMemoryModel Logical Vulkan" in only_asks.dis()
    assert only_asks.reflection.matrices == (MatrixType("f32", 8, 8, "MatrixAcc", "subgroup"),)
    found = np.zeros(1, "u4")
    only_asks.interpret(1, found, subgroup_size=8)
    assert found[0] == 8


def test_reflection_survives_the_cache():
    made = Product.stamp(M=8, N=8, K=8, T=i8, C=i32).compile()
    assert cache.decode("key", cache.encode("key", made)) == made


def test_other_kernels_keep_their_memory_model():
    text = plain.dis()
    assert "OpMemoryModel Logical GLSL450" in text and "NonPrivate" not in text and "%u32_328" in text
    assert plain.reflection.matrices == () and plain.reflection.products == ()
