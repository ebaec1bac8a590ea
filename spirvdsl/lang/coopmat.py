"""Cooperative matrices (SPV_KHR_cooperative_matrix): a small matrix that the lanes of one subgroup hold together.

    A = CoopMatrix[f16, 16, 16, MatrixA]        # rows x columns; MatrixA is M x K, MatrixB K x N, MatrixAcc M x N
    a = matrix_load(A, x[i], stride)            # the builtins matrix_* are in builtins.py
    acc = matrix_muladd(a, b, acc)

Which shapes exist is the device's to say (runtime.vk lists them); sizes are template parameters. Which element of the matrix
a lane holds where is the device's secret too: m[i] names the i-th element of this lane, and lanes together hold them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from .types import Scalar, Type, scalar_of, with_scalar


class MatrixUse(Enum):
    """Which operand of a * b + c a matrix is. The value is SPIR-V's CooperativeMatrixUse."""

    MatrixA = 0
    MatrixB = 1
    MatrixAcc = 2

    def __repr__(self) -> str:
        return self.name


class MatrixLayout(Enum):
    """How a matrix lies in memory. The value is SPIR-V's CooperativeMatrixLayout."""

    RowMajor = 0
    ColMajor = 1

    def __repr__(self) -> str:
        return self.name


MatrixA, MatrixB, MatrixAcc = MatrixUse
RowMajor, ColMajor = MatrixLayout
_LARGEST = 256  # rows or columns; devices list 8 to 64


@dataclass(frozen=True, repr=False)
class CoopMatrix(Type):
    """CoopMatrix[component, rows, cols, use]: held by a subgroup. TypeError for parts that make no matrix."""

    elem: Scalar
    rows: int
    cols: int
    use: MatrixUse

    def __class_getitem__(cls, parts: Any) -> CoopMatrix:
        if not isinstance(parts, tuple) or len(parts) != 4:
            raise TypeError("CoopMatrix[component, rows, cols, use] takes four parts")
        elem, rows, cols, use = parts
        if not isinstance(elem, Scalar) or elem.is_bool or elem.encoding != "ieee":
            raise TypeError(f"a matrix of {elem!r}: components are ints and floats, not bool or bf16")
        for n, what in ((rows, "rows"), (cols, "columns")):
            if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= _LARGEST:
                raise TypeError(f"{n!r} {what}: a compile-time int, 1 to {_LARGEST}")
        if not isinstance(use, MatrixUse):
            raise TypeError(f"use {use!r}: MatrixA, MatrixB or MatrixAcc")
        return cls(elem, rows, cols, use)

    @property
    def name(self) -> str:
        return f"CoopMatrix[{self.elem.name}, {self.rows}, {self.cols}, {self.use.name}]"

    @property
    def size(self) -> int:
        """Elements of the whole matrix."""
        return self.rows * self.cols


def component_of(t: Type | None) -> Scalar | None:
    """As scalar_of, and the component type of a matrix."""
    return t.elem if isinstance(t, CoopMatrix) else scalar_of(t) if t is not None else None


def with_component(t: Type, s: Scalar) -> Type:
    """`t`'s shape (scalar, vector or matrix) with component `s`."""
    return CoopMatrix(s, t.rows, t.cols, t.use) if isinstance(t, CoopMatrix) else with_scalar(t, s)


def product_problem(a: Type | None, b: Type | None, c: Type | None) -> str:
    """Why a * b + c is no matrix product, or ""."""
    for t, use, what in ((a, MatrixA, "first"), (b, MatrixB, "second"), (c, MatrixAcc, "third")):
        if not isinstance(t, CoopMatrix) or t.use is not use:
            return f"the {what} operand is {t.name if t is not None else 'nothing'}, not a {use.name}"
    if a.cols != b.rows:
        return f"{a.name} has {a.cols} columns and {b.name} {b.rows} rows"
    if (c.rows, c.cols) != (a.rows, b.cols):
        return f"the product has {a.rows} x {b.cols} elements and {c.name} {c.rows} x {c.cols}"
    if len({t.elem.is_float for t in (a, b, c)}) != 1:
        return f"{a.name}, {b.name} and {c.name} mix ints and floats"
    if a.elem.bits != b.elem.bits:
        return f"{a.elem.name} and {b.elem.name} have different widths"
    if c.elem.bits < a.elem.bits:
        return f"{c.elem.name} is narrower than the factors"
    return ""


def line_alignment(t: CoopMatrix, layout: MatrixLayout) -> int:
    """Bytes that the start of a row (ColMajor: column) in memory is a multiple of (VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986)."""
    return min(16, (t.cols if layout is RowMajor else t.rows) * t.elem.bits // 8)
