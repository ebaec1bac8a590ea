"""What the compiler hands out: a SPIR-V module and the facts a runtime needs to bind and launch it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Binding:
    """One storage or uniform buffer. access: in | out | inout; element: type name; stride: bytes of one element."""

    name: str
    set: int
    binding: int
    access: str
    kind: str
    element: str
    stride: int


@dataclass(frozen=True)
class PushMember:
    """One member of the push-constant block. type: u32, i32, f32, u64 ...; offset and size in bytes."""

    name: str
    type: str
    offset: int
    size: int


@dataclass(frozen=True)
class SpecConstant:
    """A specialisation constant: its SPIR-V SpecId, type and default."""

    name: str
    id: int
    type: str
    default: int | float | bool


@dataclass(frozen=True)
class MatrixType:
    """A cooperative matrix that a kernel uses. component: f16 ...; use: MatrixA | MatrixB | MatrixAcc; scope: subgroup."""

    component: str
    rows: int
    cols: int
    use: str
    scope: str


@dataclass(frozen=True)
class MatrixProduct:
    """result[m,n] = a[m,k] * b[k,n] + c[m,n], in component types f16, i32 ..."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    result: str
    scope: str
    saturating: bool = False


@dataclass(frozen=True)
class Reflection:
    """Interface of a compiled kernel.

    features names what the device must have, in Vulkan's own spelling (shaderFloat16, storageBuffer8BitAccess ...),
    `subgroup.<class>` for subgroup operation classes, and `float_controls.<mode>_f<bits>` for float controls.
    matrices and products are what it asks of the device's list of cooperative matrices.
    """

    entry: str
    workgroup_size: tuple[int, int, int]
    bindings: tuple[Binding, ...]
    push: tuple[PushMember, ...]
    push_bytes: int
    workgroup_bytes: int
    spec_constants: tuple[SpecConstant, ...]
    features: tuple[str, ...]
    spirv_version: str
    subgroup_size: int | None = None
    matrices: tuple[MatrixType, ...] = ()
    products: tuple[MatrixProduct, ...] = ()


@dataclass(frozen=True)
class CompiledKernel:
    """name: the entry's name in messages; spirv: little-endian words; hash: hex SHA-256 of the words."""

    name: str
    spirv: bytes
    reflection: Reflection
    hash: str
