"""Arithmetic, comparison, conversion and bit operations as numpy functions, by op name and scalar type.

Exactly the IR's meaning (ir/ops.py) in the type's own precision: integers wrap, floats round once per operation.
What is undefined there gives some value here; the checks that report it are checks.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from ..lang.coopmat import component_of
from ..lang.types import Scalar, Type
from .values import dtype_of, map_leaves, round_bf16


def trunc_div(a, b):
    """Signed integer division that truncates toward zero."""
    return (a - np.fmod(a, b)) // b


_ANY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}
_BY_KIND = {
    ("div", "f"): operator.truediv, ("div", "u"): operator.floordiv, ("div", "i"): trunc_div,
    ("rem", "f"): np.fmod, ("rem", "u"): operator.mod, ("rem", "i"): np.fmod,
}
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def binary(op: str, s: Scalar) -> Callable:
    """Function of two values of scalar type `s` (shift counts may have any integer type)."""
    if op in ("shl", "shr"):
        shift = operator.lshift if op == "shl" else operator.rshift
        dtype = dtype_of(s)
        return lambda x, n: shift(x, n if n.dtype == dtype else n.astype(dtype))
    fn = _ANY.get(op) or _BY_KIND[op, s.kind]
    if s.encoding == "bf16" and op not in COMPARE:
        return lambda a, b: round_bf16(fn(a, b))
    return fn


def unary(op: str) -> Callable:
    """neg, not, any, all, is_nan, is_inf."""
    return {
        "neg": operator.neg, "not": operator.invert, "is_nan": np.isnan, "is_inf": np.isinf,
        "any": lambda v: _lane(v.any(axis=0)), "all": lambda v: _lane(v.all(axis=0)),
    }[op]


def _lane(row):
    return row[0] if row.shape[0] == 1 else row


def select(cond, a, b):
    """a where cond, else b; composites member by member."""
    if cond.ndim == 0:
        return a if cond else b
    if isinstance(a, tuple):
        return map_leaves(lambda x, y: np.where(cond, x, y), a, b)
    return np.where(cond, a, b)


def convert(src: Type, dst: Type) -> Callable:
    """Numeric conversion between scalar or vector types of the same lanes."""
    d = component_of(dst)
    if d.encoding == "bf16":
        return round_bf16
    if d.is_bool:
        return lambda v: v != 0
    dtype = dtype_of(d)
    return lambda v: v.astype(dtype)


def float_to_int_limits(src: Scalar, dst: Scalar) -> tuple[float, float]:
    """(lo, hi): a float x converts to `dst` when lo < x < hi, compared in the source's type or wider."""
    least, most = dst.range()
    lo = float(least) - 1.0
    if lo == float(least):  # 64-bit: least - 1 is not a double; the next double below is out of range anyway
        lo = float(np.nextafter(float(least), -np.inf))
    return lo, float(most + 1)


def flush(x):
    """Subnormal floats become zero of the same sign."""
    tiny = np.finfo(x.dtype).tiny
    return np.where(np.abs(x) < tiny, np.copysign(x.dtype.type(0), x), x)
