"""Arithmetic, comparison, selection and composites: SPIR-V instruction by IR op and by kind of scalar."""

from __future__ import annotations

from ..ir.nodes import Node
from ..lang.coopmat import component_of
from ..lang.types import Type, Vector, bool_, lanes_of
from .context import FunctionLowering, internal, lowers

# IR op -> instruction for f, i, u, b components
_BY_KIND: dict[str, dict[str, str]] = {
    "add": {"f": "OpFAdd", "i": "OpIAdd", "u": "OpIAdd"},
    "sub": {"f": "OpFSub", "i": "OpISub", "u": "OpISub"},
    "mul": {"f": "OpFMul", "i": "OpIMul", "u": "OpIMul"},
    "div": {"f": "OpFDiv", "i": "OpSDiv", "u": "OpUDiv"},
    "rem": {"f": "OpFRem", "i": "OpSRem", "u": "OpUMod"},
    "neg": {"f": "OpFNegate", "i": "OpSNegate", "u": "OpSNegate"},
    "and": {"i": "OpBitwiseAnd", "u": "OpBitwiseAnd", "b": "OpLogicalAnd"},
    "or": {"i": "OpBitwiseOr", "u": "OpBitwiseOr", "b": "OpLogicalOr"},
    "xor": {"i": "OpBitwiseXor", "u": "OpBitwiseXor", "b": "OpLogicalNotEqual"},
    "not": {"i": "OpNot", "u": "OpNot", "b": "OpLogicalNot"},
    "shl": {"i": "OpShiftLeftLogical", "u": "OpShiftLeftLogical"},
    "shr": {"i": "OpShiftRightArithmetic", "u": "OpShiftRightLogical"},
    "eq": {"f": "OpFOrdEqual", "i": "OpIEqual", "u": "OpIEqual", "b": "OpLogicalEqual"},
    "ne": {"f": "OpFUnordNotEqual", "i": "OpINotEqual", "u": "OpINotEqual", "b": "OpLogicalNotEqual"},
    "lt": {"f": "OpFOrdLessThan", "i": "OpSLessThan", "u": "OpULessThan"},
    "le": {"f": "OpFOrdLessThanEqual", "i": "OpSLessThanEqual", "u": "OpULessThanEqual"},
    "gt": {"f": "OpFOrdGreaterThan", "i": "OpSGreaterThan", "u": "OpUGreaterThan"},
    "ge": {"f": "OpFOrdGreaterThanEqual", "i": "OpSGreaterThanEqual", "u": "OpUGreaterThanEqual"},
    "any": {"b": "OpAny"},
    "all": {"b": "OpAll"},
    "is_nan": {"f": "OpIsNan"},
    "is_inf": {"f": "OpIsInf"},
    "dot": {"f": "OpDot"},
}


@lowers(*_BY_KIND)
def _by_kind(f: FunctionLowering, node: Node) -> int:
    component = component_of(node.args[0].type)
    op = _BY_KIND[node.op].get(component.kind)
    if op is None or component.encoding != "ieee":
        raise internal(f"'{node.op}' has no instruction for {node.args[0].type}", node.span)
    args = [f.value(a) for a in node.args]
    if lanes_of(node.args[0].type) == 1 and node.op in ("any", "all"):
        return args[0]
    return f.emit_t(op, node.type, *args)


@lowers("select")
def _select(f: FunctionLowering, node: Node) -> int:
    """A scalar condition over vectors is widened: choosing vectors by one bool needs 1.4."""
    cond, a, b = node.args
    cond_id, lanes = f.value(cond), lanes_of(node.type)
    if lanes > 1 and lanes_of(cond.type) == 1:
        cond_id = splat(f, cond_id, Vector(bool_, lanes))
    return f.emit_t("OpSelect", node.type, cond_id, f.value(a), f.value(b))


def splat(f: FunctionLowering, value: int, result: Vector) -> int:
    """`result.lanes` copies of one component."""
    return construct(f, result, (value,) * result.lanes)


def construct(f: FunctionLowering, result: Type, parts: tuple[int, ...]) -> int:
    """A composite of its parts; a pooled constant where all parts are constants and none is itself a vector part."""
    whole = len(parts) == result.lanes if isinstance(result, Vector) else True
    if whole and all(f.pool.is_constant(p) for p in parts):
        return f.pool.composite(result, parts)
    return f.emit_t("OpCompositeConstruct", result, *parts)


@lowers("vector", "struct", "array")
def _composite(f: FunctionLowering, node: Node) -> int:
    return construct(f, node.type, tuple(f.value(a) for a in node.args))


@lowers("splat")
def _splat(f: FunctionLowering, node: Node) -> int:
    return splat(f, f.value(node.args[0]), node.type)


@lowers("extract")
def _extract(f: FunctionLowering, node: Node) -> int:
    index = node.attrs["index"]
    path = index if isinstance(index, tuple) else (index,)
    return f.emit_t("OpCompositeExtract", node.type, f.value(node.args[0]), *path)


@lowers("extract_dynamic")
def _extract_dynamic(f: FunctionLowering, node: Node) -> int:
    return f.emit_t("OpVectorExtractDynamic", node.type, *(f.value(a) for a in node.args))


@lowers("insert")
def _insert(f: FunctionLowering, node: Node) -> int:
    composite, element = (f.value(a) for a in node.args)
    index = node.attrs["index"]
    return f.emit_t("OpCompositeInsert", node.type, element, composite, *(index if isinstance(index, tuple) else (index,)))


@lowers("shuffle")
def _shuffle(f: FunctionLowering, node: Node) -> int:
    """One lane alone is no vector: it is extracted."""
    a, b = node.args
    lanes = node.attrs["lanes"]
    if len(lanes) == 1:
        source, lane = (a, lanes[0]) if lanes[0] < a.type.lanes else (b, lanes[0] - a.type.lanes)
        return f.emit_t("OpCompositeExtract", node.type, f.value(source), lane)
    return f.emit_t("OpVectorShuffle", node.type, f.value(a), f.value(b), *lanes)
