"""Builtins on cooperative matrices: load, store, multiply-add, length, and CoopMatrix[...](value)."""

from __future__ import annotations

import ast
from typing import Any

from ..ir.nodes import Node
from ..ir.verify_matrix import bits, memory_problem
from ..lang.coopmat import CoopMatrix, MatrixLayout, RowMajor, line_alignment, product_problem
from ..lang.types import Array, RuntimeArray, i32, u32
from .typing import coerce, literal
from .values import Place, describe


class BuiltinMatrix:
    """Handlers, mixed into the walker."""

    def to_matrix(self, value: Any, t: CoopMatrix, node: ast.AST) -> Node:
        """T(scalar): every element; T(matrix): the same matrix with another component type."""
        if isinstance(value, Node) and isinstance(value.type, CoopMatrix):
            have = value.type
            if (have.rows, have.cols, have.use) != (t.rows, t.cols, t.use):
                raise self.error("E0703", f"{have.name} does not convert to {t.name}", node, "a conversion keeps rows, columns and use")
            if have.elem != t.elem and have.elem.bits == t.elem.bits and have.elem.is_int and t.elem.is_int:
                raise self.error("E0703", f"{have.name} does not convert to {t.name}", node, "signed and unsigned of one width: convert element by element, or load it as the other")
            return self.b.convert(value, t)
        if not isinstance(value, Node):
            value = literal(self.b, value, t.elem, self.span(node), explicit=True)
        return self.b.node("matrix_fill", t, (coerce(self.b, value, t.elem, f"an element of {t.name}", self.span(node), "E0703"),))

    def _matrix_type(self, t: Any, name: str, node: ast.AST) -> CoopMatrix:
        if not isinstance(t, CoopMatrix):
            raise self.error("E0702", f"{name}() takes a CoopMatrix type, this is {describe(t)}", node)
        return t

    def call_matrix_load(self, node: ast.AST, type: Any, place: Any, stride: Any, layout: Any = RowMajor) -> Node:
        t = self._matrix_type(type, "matrix_load", node)
        place = self._matrix_place(t, place, node)
        if place.write_only:
            raise self.error("E0309", f"{place.resource.name} is Out; it cannot be read", node, f"annotate it InOut to read what {place.resource.name} holds")
        step = self._stride(t, place, stride, self._layout(layout, node), node)
        place.resource.read = True
        return self.b.node("matrix_load", t, (place.ref, step), layout=layout)

    def call_matrix_store(self, node: ast.AST, place: Any, matrix: Any, stride: Any, layout: Any = RowMajor) -> None:
        matrix = self._matrix_value(matrix, "matrix_store", node)
        place = self._matrix_place(matrix.type, place, node)
        self.writable(place, self.span(node))
        step = self._stride(matrix.type, place, stride, self._layout(layout, node), node)
        line = matrix.type.cols if layout is RowMajor else matrix.type.rows
        if step.op == "const" and step.attrs["value"] * bits(place.type) < line * matrix.type.elem.bits:
            raise self.error("E0704", f"stride {step.attrs['value']} of {place.type.name} is shorter than {line} elements of {matrix.type.name}", node,
                             "rows (ColMajor: columns) that are stored may not overlap")
        self.b.node("matrix_store", None, (place.ref, matrix, step), layout=layout)

    def _layout(self, layout: Any, node: ast.AST) -> MatrixLayout:
        if not isinstance(layout, MatrixLayout):
            raise self.error("E0405", f"matrix layout is {describe(layout)}", node, "RowMajor or ColMajor")
        return layout

    def _matrix_place(self, t: CoopMatrix, place: Any, node: ast.AST) -> Place:
        if not isinstance(place, Place) or place.resource is None:
            raise self.error("E0704", f"{describe(place)} is no memory that a matrix can lie in", node)
        ref = place.ref
        of_array = ref.op == "index" and isinstance(ref.args[0].type.elem, Array | RuntimeArray)
        why = memory_problem(t, ref.type, of_array)
        if why:
            raise self.error("E0704", f"{t.name} in {place.what}: {why}", node)
        return place

    def _stride(self, t: CoopMatrix, place: Place, stride: Any, layout: MatrixLayout, node: ast.AST) -> Node:
        """Checked against Vulkan's rule: rows (ColMajor: columns) start at a multiple of 16 bytes, or of their own size if smaller."""
        stride = self.rvalue(stride, self.span(node))
        if isinstance(stride, Node) and stride.type == i32:
            stride = self.b.bitcast(stride, u32)
        step = coerce(self.b, stride, u32, "the stride", self.span(node))
        align = line_alignment(t, layout)
        if step.op == "const" and step.attrs["value"] * bits(place.type) // 8 % align:
            raise self.error("E0704", f"stride {step.attrs['value']} of {place.type.name} is no multiple of {align} bytes", node,
                             "rows (ColMajor: columns) of a matrix begin at multiples of 16 bytes, or of their own size where that is less")
        return step

    def _matrix_value(self, value: Any, name: str, node: ast.AST) -> Node:
        value = self.rvalue(value, self.span(node))
        if not isinstance(value, Node) or not isinstance(value.type, CoopMatrix):
            raise self.error("E0703", f"{name}() takes a matrix, this is {describe(value)}", node)
        return value

    def call_matrix_muladd(self, node: ast.AST, a: Any, b: Any, c: Any, saturate: Any = False) -> Node:
        a, b, c = (self._matrix_value(v, "matrix_muladd", node) for v in (a, b, c))
        why = product_problem(a.type, b.type, c.type)
        if why:
            raise self.error("E0703", f"matrix_muladd(): {why}", node)
        if self._flag(saturate, "matrix_muladd(saturate=...)", node) and c.type.elem.is_float:
            raise self.error("E0703", f"matrix_muladd(): {c.type.name} does not saturate", node, "only integers do")
        return self.b.node("matrix_muladd", c.type, (a, b, c), saturate=saturate)

    def call_matrix_length(self, node: ast.AST, type: Any) -> Node:
        return self.b.node("matrix_length", u32, (), matrix=self._matrix_type(type, "matrix_length", node))
