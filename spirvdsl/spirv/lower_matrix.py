"""Cooperative matrices (SPV_KHR_cooperative_matrix 1.0): fill, scale, load, store, multiply-add, length.

Integer products carry signedness operands taken from the component types: without them a driver takes bytes as unsigned,
and spirv-val 2025.5 does not notice (check.py does).
"""

from __future__ import annotations

from ..ir.nodes import Node
from ..lang.types import u32
from .context import FunctionLowering, lowers
from .lower_memory import access_of, place_of, pointer
from .lower_values import construct

_SIGNED = ("MatrixASignedComponentsKHR", "MatrixBSignedComponentsKHR", "MatrixCSignedComponentsKHR", "MatrixResultSignedComponentsKHR")


@lowers("matrix_fill")
def _fill(f: FunctionLowering, node: Node) -> int:
    """A composite of one constituent fills the matrix."""
    return construct(f, node.type, (f.value(node.args[0]),))


@lowers("matrix_scale")
def _scale(f: FunctionLowering, node: Node) -> int:
    return f.emit_t("OpMatrixTimesScalar", node.type, *(f.value(a) for a in node.args))


@lowers("matrix_load")
def _load(f: FunctionLowering, node: Node) -> int:
    ref, stride = node.args
    place = place_of(f, ref)
    access, layout = access_of(f, place, False, False), f.pool.u32(node.attrs["layout"].value)
    return f.emit_t("OpCooperativeMatrixLoadKHR", node.type, pointer(f, place), layout, f.value(stride), *access)


@lowers("matrix_store")
def _store(f: FunctionLowering, node: Node) -> None:
    ref, matrix, stride = node.args
    place = place_of(f, ref)
    f.parent.written[place.resource] = None
    access, layout = access_of(f, place, False, True), f.pool.u32(node.attrs["layout"].value)
    f.effect("OpCooperativeMatrixStoreKHR", pointer(f, place), f.value(matrix), layout, f.value(stride), *access)


@lowers("matrix_muladd")
def _muladd(f: FunctionLowering, node: Node) -> int:
    a, b, c = node.args
    signs = [name for name, x in zip(_SIGNED, (a, b, c, c), strict=True) if x.type.elem.is_signed]
    if node.attrs["saturate"]:
        signs.append("SaturatingAccumulationKHR")
    extra = ("|".join(signs),) if signs else ()
    return f.emit_t("OpCooperativeMatrixMulAddKHR", node.type, *(f.value(x) for x in node.args), *extra)


@lowers("matrix_length")
def _length(f: FunctionLowering, node: Node) -> int:
    return f.emit_t("OpCooperativeMatrixLengthKHR", u32, f.pool.type(node.attrs["matrix"]))
