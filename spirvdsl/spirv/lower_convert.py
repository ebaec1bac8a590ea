"""Numeric conversion and bit casts.

bf16 is a 16-bit integer in SPIR-V (pool.py): to f32 it is a shift, from f32 a round-to-nearest-even in integers. Other types
go through f32. Rounding of f64 or i64 to bf16 happens twice that way (f32 first).
"""

from __future__ import annotations

from ..ir.nodes import Node
from ..lang.coopmat import component_of, with_component
from ..lang.types import Scalar, Type, Vector, bool_, f32, scalar_of, u16, u32, with_scalar
from .context import FunctionLowering, lowers
from .lower_values import splat


def _is_bf16(t: Type) -> bool:
    return component_of(t).encoding == "bf16"


@lowers("convert")
def _convert(f: FunctionLowering, node: Node) -> int:
    return convert(f, f.value(node.args[0]), node.args[0].type, node.type)


def convert(f: FunctionLowering, value: int, source: Type, target: Type) -> int:
    """`value` of type `source` as `target`, lanes unchanged."""
    if source == target:
        return value
    if _is_bf16(source):
        return convert(f, _bf16_to_f32(f, value), with_scalar(source, f32), target)
    if _is_bf16(target):
        return _f32_to_bf16(f, convert(f, value, source, with_scalar(source, f32)))
    a, b = component_of(source), component_of(target)
    if a.is_bool:
        return f.emit_t("OpSelect", target, value, _constant(f, target, 1), _constant(f, target, 0))
    if a.is_float or b.is_float:
        return f.emit_t(_float_op(a, b), target, value)
    return _int_to_int(f, value, source, target)


def _float_op(a: Scalar, b: Scalar) -> str:
    if a.is_float and b.is_float:
        return "OpFConvert"
    if a.is_float:
        return "OpConvertFToS" if b.is_signed else "OpConvertFToU"
    return "OpConvertSToF" if a.is_signed else "OpConvertUToF"


def _int_to_int(f: FunctionLowering, value: int, source: Type, target: Type) -> int:
    """Extend by the source's signedness, or wrap. OpUConvert must yield an unsigned type, so a cast may follow."""
    a, b = component_of(source), component_of(target)
    if a.bits == b.bits:
        return f.emit_t("OpBitcast", target, value)
    if (a if b.bits > a.bits else b).is_signed:
        return f.emit_t("OpSConvert", target, value)
    unsigned = with_component(target, Scalar("u", b.bits))
    made = f.emit_t("OpUConvert", unsigned, value)
    return made if unsigned == target else f.emit_t("OpBitcast", target, made)


def _constant(f: FunctionLowering, t: Type, value: int) -> int:
    component = scalar_of(t)
    made = f.pool.constant(component, float(value) if component.is_float else value)
    return splat(f, made, t) if isinstance(t, Vector) else made


def _bf16_to_f32(f: FunctionLowering, value: int) -> int:
    wide = f.emit_t("OpUConvert", u32, value)
    return f.emit_t("OpBitcast", f32, f.emit_t("OpShiftLeftLogical", u32, wide, f.pool.u32(16)))


def _f32_to_bf16(f: FunctionLowering, value: int) -> int:
    """Add half an ulp less one, and the lowest kept bit, then drop 16 bits; a NaN keeps its high bits and becomes quiet."""
    k = f.pool.u32
    bits = f.emit_t("OpBitcast", u32, value)
    high = f.emit_t("OpShiftRightLogical", u32, bits, k(16))
    odd = f.emit_t("OpBitwiseAnd", u32, high, k(1))
    rounded = f.emit_t("OpIAdd", u32, f.emit_t("OpIAdd", u32, bits, k(0x7FFF)), odd)
    rounded = f.emit_t("OpShiftRightLogical", u32, rounded, k(16))
    quiet = f.emit_t("OpBitwiseOr", u32, high, k(0x40))
    magnitude = f.emit_t("OpBitwiseAnd", u32, bits, k(0x7FFFFFFF))
    is_nan = f.emit_t("OpUGreaterThan", bool_, magnitude, k(0x7F800000))
    return f.emit_t("OpUConvert", u16, f.emit_t("OpSelect", u32, is_nan, quiet, rounded))


@lowers("bitcast")
def _bitcast(f: FunctionLowering, node: Node) -> int:
    value = f.value(node.args[0])
    if f.pool.type(node.args[0].type) == f.pool.type(node.type):
        return value
    return f.emit_t("OpBitcast", node.type, value)
