"""GLSL.std.450 functions, bit operations and the packed integer dot product."""

from __future__ import annotations

from ..ir.nodes import Node
from ..ir.ops import MATH
from ..lang.types import scalar_of, u32
from .context import FunctionLowering, internal, lowers

PACKED = "PackedVectorFormat4x8Bit"


@lowers("math")
def _math(f: FunctionLowering, node: Node) -> int:
    fn = node.attrs["fn"]
    info = MATH[fn]
    component = scalar_of(node.args[0].type)
    op = {"f": info.float_op, "i": info.signed_op, "u": info.unsigned_op}.get(component.kind, "")
    if not op or component.encoding != "ieee":
        raise internal(f"{fn}() has no instruction for {node.args[0].type}", node.span)
    args = [f.value(a) for a in node.args]
    if op.startswith("Op"):
        return f.emit_t(op, node.type, *args)
    return f.glsl(op, node.type, *args)


@lowers("int_dot")
def _int_dot(f: FunctionLowering, node: Node) -> int:
    """Four 8-bit products. OpSUDot wants the signed vector first; operands are brought to u32 so that their types agree."""
    a, b = (_packed(f, n) for n in node.args[:2])
    signed_a, signed_b = node.attrs["signed_a"], node.attrs["signed_b"]
    if signed_b and not signed_a:
        a, b = b, a
    op = "OpSDot" if signed_a and signed_b else "OpSUDot" if signed_a or signed_b else "OpUDot"
    if len(node.args) == 3:
        if not node.attrs.get("saturate"):
            raise internal("an accumulating integer dot saturates; write add for the other", node.span)
        return f.emit_t(op + "AccSat", node.type, a, b, f.value(node.args[2]), PACKED)
    return f.emit_t(op, node.type, a, b, PACKED)


def _packed(f: FunctionLowering, node: Node) -> int:
    value = f.value(node)
    return value if node.type == u32 else f.emit_t("OpBitcast", u32, value)
