"""Cases of cooperative matrices, and of workgroup memory under several types (cases.py says what a case is)."""

from __future__ import annotations

from spirvdsl.lang.coopmat import ColMajor, CoopMatrix, MatrixA, MatrixAcc, MatrixB, RowMajor
from spirvdsl.lang.types import Array, Ref, Scalar, Vector, f16, f32, i8, i32, u32

from .cases import case
from .kit import Kit


def _product(kit: Kit, t: Scalar, c: Scalar, saturate: bool) -> None:
    types = CoopMatrix[t, 16, 16, MatrixA], CoopMatrix[t, 16, 8, MatrixB], CoopMatrix[c, 16, 8, MatrixAcc]
    zero = kit.const(u32, 0)
    x = kit.index(kit.buffer("x", t, "in"), zero)
    stage = kit.index(kit.declare("workgroup", "stage", Array(Vector(u32, 4), 64)), zero)
    z = kit.index(kit.buffer("z", c, "out"), zero)
    a = kit.node("matrix_load", types[0], (x, kit.const(u32, 16)), layout=RowMajor)
    b = kit.node("matrix_load", types[1], (stage, kit.const(u32, 3)), layout=ColMajor)
    acc = kit.node("matrix_fill", types[2], (kit.const(c, 0),))
    made = kit.node("matrix_muladd", types[2], (a, b, acc), saturate=saturate)
    kit.node("matrix_store", None, (z, made, kit.const(u32, 8)), layout=RowMajor)
    kit.node("matrix_store", None, (stage, a, kit.const(u32, 3)), layout=RowMajor)


@case("matrix.half", "op:matrix_load", "op:matrix_store", "op:matrix_fill", "op:matrix_muladd")
def _half(kit: Kit) -> None:
    _product(kit, f16, f32, False)


@case("matrix.bytes")
def _bytes(kit: Kit) -> None:
    _product(kit, i8, i32, True)


@case("matrix.elements", "op:matrix_scale", "op:matrix_length")
def _elements(kit: Kit) -> None:
    """Arithmetic, conversion, constant and dynamic elements."""
    t = CoopMatrix[f32, 8, 8, MatrixAcc]
    x = kit.index(kit.buffer("x", f32, "in"), kit.const(u32, 0))
    m = kit.node("matrix_load", t, (x, kit.const(u32, 8)), layout=RowMajor)
    n = kit.node("matrix_scale", t, (m, kit.input(f32)))
    for op in ("add", "sub", "mul", "div"):
        n = kit.binary(op, n, m)
    n = kit.unary("neg", n)
    n = kit.node("insert", t, (n, kit.input(f32)), index=3)
    var = kit.local(t, "m")
    kit.store(var, n)
    at = kit.node("index", Ref(f32, "function"), (var, kit.binary("rem", kit.gid(), kit.node("matrix_length", u32, (), matrix=t))))
    kit.store(at, kit.binary("add", kit.load(at), kit.extract(n, 1)))
    half = kit.convert(kit.load(var), CoopMatrix[f16, 8, 8, MatrixAcc])
    out = kit.index(kit.buffer("h", f16, "out"), kit.const(u32, 0))
    kit.node("matrix_store", None, (out, half, kit.const(u32, 8)), layout=RowMajor)


@case("workgroup.views")
def _views(kit: Kit) -> None:
    """Words, halves and bytes of one array, and an array beside it."""
    words = kit.declare("workgroup", "words", Array(u32, 32))
    beside = kit.declare("workgroup", "beside", Array(f32, 32))
    lane = kit.builtin("local_index")
    kit.store(kit.index(words, lane), kit.input(u32))
    kit.store(kit.index(beside, lane), kit.input(f32))
    kit.node("barrier", None, scope="workgroup", memory=("workgroup",))
    for t, name in ((f16, "halves"), (i8, "bytes")):
        view = kit.declare("workgroup", name, Array(t, 64 if t is f16 else 128))
        kit.resources[-1].views = words.attrs["resource"]
        kit.keep(kit.convert(kit.load(kit.index(view, lane)), f32 if t is f16 else i32), name)
    kit.keep(kit.load(kit.index(beside, lane)), "beside")
