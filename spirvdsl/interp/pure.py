"""One numpy function per pure IR node: what the interpreter executes and what constant folding evaluates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.nodes import Node
from ..lang.coopmat import component_of
from ..lang.types import scalar_of
from . import arith, mathfn
from .values import bitcast, build_vector, dtype_of, splat, squeeze

_UNARY = ("neg", "not", "any", "all", "is_nan", "is_inf")


def function_of(node: Node) -> Callable:
    """A function of the node's argument values; KeyError for ops that are not pure computation (places, control, memory)."""
    op = node.op
    if op in _UNARY:
        return arith.unary(op)
    maker = _MAKERS.get(op)
    return maker(node) if maker else arith.binary(op, component_of(node.args[0].type))


def _extract(node: Node) -> Callable:
    path = node.attrs["index"]
    path = (path,) if isinstance(path, int) else tuple(path)

    def body(value):
        for i in path:
            value = value[i] if isinstance(value, tuple) else squeeze(value[i])
        return value

    return body


def _insert(node: Node) -> Callable:
    i = node.attrs["index"]

    def body(value, element):
        if isinstance(value, tuple):
            return value[:i] + (element,) + value[i + 1 :]
        if hasattr(value, "with_component"):  # a partly undefined vector
            return value.with_component(i, element)
        return build_vector(tuple(value[:i]) + (element,) + tuple(value[i + 1 :]), value.dtype)

    return body


def _shuffle(node: Node) -> Callable:
    lanes, dtype = node.attrs["lanes"], dtype_of(scalar_of(node.type))

    def body(a, b):
        rows = [*a, *b]
        if len(lanes) == 1:
            return squeeze(rows[lanes[0]])
        return build_vector(tuple(rows[i] for i in lanes), dtype)

    return body


def extract_dynamic(value, index):
    """Component `index` of a vector, per lane; an index out of range gives component 0 (the check reports it)."""
    n = value.shape[0]
    if index.ndim == 0:
        k = int(index)
        return squeeze(value[k if 0 <= k < n else 0])
    k = index.astype(np.intp)
    k = np.where((k < 0) | (k >= n), 0, k)
    if value.shape[1] == 1:
        return value[:, 0].take(k)
    return value[k, np.arange(value.shape[1])]


def _vector(node: Node) -> Callable:
    dtype = dtype_of(node.type.elem)
    return lambda *parts: build_vector(parts, dtype)


def _splat(node: Node) -> Callable:
    lanes = node.type.lanes
    return lambda x: splat(x, lanes)


def _bitcast(node: Node) -> Callable:
    src, dst = node.args[0].type, node.type
    return lambda v: bitcast(v, src, dst)


def _int_dot(node: Node) -> Callable:
    at = node.attrs
    return mathfn.int_dot(at["signed_a"], at["signed_b"])


def _dot(node: Node) -> Callable:
    if scalar_of(node.type).encoding == "bf16":
        return lambda a, b: arith.round_bf16(mathfn.dot(a, b))
    return mathfn.dot


_MAKERS: dict[str, Callable[[Node], Callable]] = {
    "select": lambda n: arith.select,
    "convert": lambda n: arith.convert(n.args[0].type, n.type),
    "bitcast": _bitcast, "vector": _vector, "splat": _splat, "extract": _extract, "insert": _insert, "shuffle": _shuffle,
    "extract_dynamic": lambda n: extract_dynamic,
    "struct": lambda n: lambda *members: members, "array": lambda n: lambda *members: members,
    "math": lambda n: mathfn.function(n.attrs["fn"], n.args[0].type),
    "dot": _dot, "int_dot": _int_dot,
}
