"""The cooperative matrices of a module's words: types, and products with their operand flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..compiled import MatrixProduct, MatrixType
from .grammar import ENUM_BY_VALUE, ENUMS
from .requirements import ModuleTypes
from .words import Decoded

_SATURATING = ENUMS["CooperativeMatrixOperands"]["SaturatingAccumulationKHR"].value
_USES = {0: "MatrixA", 1: "MatrixB", 2: "MatrixAcc"}


def matrix_types(code: Sequence[Decoded]) -> tuple[MatrixType, ...]:
    """Every matrix type once, in the order of declaration."""
    types = ModuleTypes(code)
    return tuple(_type_of(types, d) for d in code if d.op == "OpTypeCooperativeMatrixKHR")


def matrix_products(code: Sequence[Decoded]) -> tuple[MatrixProduct, ...]:
    """Every kind of multiply-add once, in the order of first use."""
    types = ModuleTypes(code)
    return tuple(dict.fromkeys(_products(code, types)))


def _products(code: Sequence[Decoded], types: ModuleTypes) -> Iterator[MatrixProduct]:
    for inst in code:
        if inst.op != "OpCooperativeMatrixMulAddKHR":
            continue
        a, b, c, *flags = inst.values()
        ta, tb, tc, tr = (_type_of(types, d) for d in (types.of(a), types.of(b), types.of(c), types.by_id[inst.type_id]))
        saturating = bool(flags and flags[0] & _SATURATING)
        yield MatrixProduct(ta.rows, tb.cols, ta.cols, ta.component, tb.component, tc.component, tr.component, tr.scope, saturating)


def _type_of(types: ModuleTypes, inst: Decoded) -> MatrixType:
    component, *constants = inst.values()
    scope, rows, cols, use = (types.by_id[c].values()[0][0] for c in constants)
    number = types.by_id[component]
    kind = "f" if number.op == "OpTypeFloat" else "i" if number.values()[1] else "u"
    return MatrixType(f"{kind}{number.values()[0]}", rows, cols, _USES[use], ENUM_BY_VALUE["Scope"][scope].name.lower())
