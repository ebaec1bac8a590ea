"""The types of the language: structural, frozen, compared by value.

Scalars, vectors of 2-4 lanes, fixed arrays, structs (std430), runtime arrays, and `Ref`, the IR's typed place.
`f32[4]` is an array type, `f32(x)` a conversion inside a kernel, `In[f32]` an annotation.
"""

from __future__ import annotations

from dataclasses import dataclass


class Type:
    """Base of all types. `name` is what an author reads in a message."""

    name: str

    def __getitem__(self, length: int) -> Array:
        """`f16[8]`: a fixed array of this type."""
        if not isinstance(length, int) or isinstance(length, bool) or length <= 0:
            raise TypeError(f"array length of {self.name}[...] must be a positive int, got {length!r}")
        return Array(self, length)

    def __call__(self, *args):
        raise TypeError(f"{self.name}(...) converts inside a kernel; outside one use numpy ({self.name} has no Python value)")

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class Scalar(Type):
    """kind: f, i, u or b (bool); bits: 8..64 (bool: 1); encoding: ieee or bf16."""

    kind: str
    bits: int
    encoding: str = "ieee"

    @property
    def name(self) -> str:
        if self.kind == "b":
            return "bool"
        return "bf16" if self.encoding == "bf16" else f"{self.kind}{self.bits}"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def is_signed(self) -> bool:
        return self.kind == "i"

    def range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.kind == "u":
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1


@dataclass(frozen=True, repr=False)
class Vector(Type):
    """2, 3 or 4 lanes of one scalar type."""

    elem: Scalar
    lanes: int

    @property
    def name(self) -> str:
        return f"{self.elem.name}x{self.lanes}"


@dataclass(frozen=True, repr=False)
class Array(Type):
    """A fixed number of elements."""

    elem: Type
    length: int

    @property
    def name(self) -> str:
        return f"{self.elem.name}[{self.length}]"


@dataclass(frozen=True, repr=False)
class RuntimeArray(Type):
    """What a storage buffer holds: elements whose number only the binding knows."""

    elem: Type

    @property
    def name(self) -> str:
        return f"{self.elem.name}[]"


@dataclass(frozen=True)
class Field:
    """One member of a struct."""

    name: str
    type: Type


@dataclass(frozen=True, repr=False)
class Struct(Type):
    """Members in declaration order; the layout in memory is std430 (layout.py)."""

    title: str
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        return self.title

    def index(self, field: str) -> int | None:
        """Position of the member called `field`, or None."""
        for i, f in enumerate(self.fields):
            if f.name == field:
                return i
        return None


@dataclass(frozen=True, repr=False)
class Ref(Type):
    """A place in memory: what IR nodes `local`, `resource`, `index` and `member` yield.

    storage: function | workgroup | storage | uniform | push.  Places are never stored or passed at run time.
    """

    elem: Type
    storage: str

    @property
    def name(self) -> str:
        return f"{self.storage}&{self.elem.name}"


bool_ = Scalar("b", 1)
f16, f32, f64 = (Scalar("f", b) for b in (16, 32, 64))
bf16 = Scalar("f", 16, "bf16")
i8, i16, i32, i64 = (Scalar("i", b) for b in (8, 16, 32, 64))
u8, u16, u32, u64 = (Scalar("u", b) for b in (8, 16, 32, 64))

SCALARS: dict[str, Scalar] = {t.name: t for t in (bool_, f16, f32, f64, bf16, i8, i16, i32, i64, u8, u16, u32, u64)}
VECTORS: dict[str, Vector] = {v.name: v for s in SCALARS.values() if s is not bf16 for n in (2, 3, 4) for v in [Vector(s, n)]}


def scalar_of(t: Type) -> Scalar | None:
    """The component type of a scalar or vector, else None."""
    if isinstance(t, Scalar):
        return t
    return t.elem if isinstance(t, Vector) else None


def lanes_of(t: Type) -> int:
    """1 for a scalar, the number of lanes of a vector."""
    return t.lanes if isinstance(t, Vector) else 1


def with_scalar(t: Type, s: Scalar) -> Type:
    """`t`'s shape (scalar or vector) with component `s`."""
    return Vector(s, t.lanes) if isinstance(t, Vector) else s
