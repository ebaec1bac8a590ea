"""Type rules of the ops on cooperative matrices, and of the common ops where they meet one."""

from __future__ import annotations

from collections.abc import Callable

from ..lang.coopmat import CoopMatrix, MatrixLayout, product_problem
from ..lang.types import Array, Ref, RuntimeArray, Type, Vector, i32, scalar_of, u32
from .nodes import Module, Node, walk


def holds_matrix(t: Type | None) -> bool:
    """Whether a value or place of this type is, or contains, a cooperative matrix."""
    while isinstance(t, Ref | Array | RuntimeArray):
        t = t.elem
    return isinstance(t, CoopMatrix) or any(holds_matrix(f.type) for f in getattr(t, "fields", ()))


def uses_matrices(module: Module) -> bool:
    """Whether a module names a cooperative matrix type anywhere: such modules have the Vulkan memory model."""
    return any(n.op == "matrix_length" or holds_matrix(n.type) for fn in module.functions for n in (*fn.params, *walk(fn.body)))


def memory_problem(matrix: Type | None, ref: Type | None, of_array: bool) -> str:
    """Why a matrix cannot be loaded from, or stored to, an element `ref`; of_array: the element lies in an array."""
    if not isinstance(matrix, CoopMatrix):
        return f"{matrix.name if matrix is not None else 'nothing'} is no CoopMatrix"
    if not isinstance(ref, Ref) or ref.storage not in ("workgroup", "storage") or not of_array:
        return "the place is no element of a buffer or of a shared array"
    s = scalar_of(ref.elem)
    if s is None or s.is_bool or (isinstance(ref.elem, Vector) and ref.elem.lanes == 3):
        return f"the array holds {ref.elem.name}; numbers and vectors of 2 or 4 can be read as a matrix"
    if s != matrix.elem and s.kind != "u":
        return f"the array holds {ref.elem.name}, the matrix {matrix.elem.name}; only unsigned words are read as something else"
    if bits(ref.elem) % matrix.elem.bits:
        return f"the array holds {ref.elem.name}, narrower than the matrix's {matrix.elem.name}"
    return ""


def bits(t: Type) -> int:
    """Bits of a scalar or vector."""
    s = scalar_of(t)
    return s.bits * (t.lanes if isinstance(t, Vector) else 1)


def _of_array(ref: Node) -> bool:
    return ref.op == "index" and isinstance(ref.args[0].type.elem, Array | RuntimeArray)


def _fill(node: Node) -> str | None:
    t = node.type
    return None if isinstance(t, CoopMatrix) and node.args[0].type == t.elem else f"cannot fill {t} with {node.args[0].type}"


def _scale(node: Node) -> str | None:
    m, s = (a.type for a in node.args)
    return None if isinstance(m, CoopMatrix) and m.elem == s and node.type == m else f"cannot scale {m} by {s}"


def _load(node: Node) -> str | None:
    ref, stride = node.args
    if stride.type != u32 or not isinstance(node.attrs["layout"], MatrixLayout):
        return "has no u32 stride or no layout"
    return memory_problem(node.type, ref.type, _of_array(ref)) or None


def _store(node: Node) -> str | None:
    ref, matrix, stride = node.args
    if stride.type != u32 or not isinstance(node.attrs["layout"], MatrixLayout):
        return "has no u32 stride or no layout"
    return memory_problem(matrix.type, ref.type, _of_array(ref)) or None


def _muladd(node: Node) -> str | None:
    a, b, c = (x.type for x in node.args)
    why = product_problem(a, b, c)
    if why or node.type != c:
        return why or f"the result is {c}"
    return "saturates floats" if node.attrs["saturate"] and c.elem.is_float else None


def _length(node: Node) -> str | None:
    return None if isinstance(node.attrs["matrix"], CoopMatrix) and node.type == u32 else "is not the u32 length of a matrix type"


MATRIX_RULES: dict[str, Callable[[Node], str | None]] = {
    "matrix_fill": _fill, "matrix_scale": _scale, "matrix_load": _load, "matrix_store": _store, "matrix_muladd": _muladd,
    "matrix_length": _length,
}


def elementwise_problem(node: Node) -> str | None:
    """add, sub, mul, div, neg of matrices."""
    t, ok = node.args[0].type, ("add", "sub", "mul", "div", "neg")
    if node.op not in ok or any(a.type != t for a in node.args) or node.type != t:
        return f"is not defined for {', '.join(str(a.type) for a in node.args)} as {node.type}"
    return None


def convert_problem(node: Node) -> str | None:
    """convert between matrices: the component type changes, the shape and the use do not."""
    a, t = node.args[0].type, node.type
    ok = isinstance(a, CoopMatrix) and isinstance(t, CoopMatrix) and (a.rows, a.cols, a.use) == (t.rows, t.cols, t.use)
    return None if ok else f"cannot convert {a} to {t}"


def index_problem(node: Node) -> str | None:
    """index of a place that holds a matrix: an element of this lane."""
    ref, i = (a.type for a in node.args)
    if ref.storage != "function" or i not in (i32, u32):
        return f"cannot index {ref} by {i}"
    return None if node.type == Ref(ref.elem.elem, ref.storage) else f"type should be {Ref(ref.elem.elem, ref.storage)}"
