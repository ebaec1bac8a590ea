"""Annotations that bind a kernel to the outside: buffers, push constants, specialisation constants, template parameters.

    def saxpy(x: In[f32], y: In[f32], out: Out[f32], a: f32, n: u32)      # a scalar annotation is a push constant
    class Gemv(Kernel): q: In["fmt.Quants"]; rows: Push[u32]; ROWS: Param[int] = 4

A string inside the brackets is evaluated when the template is stamped, with the parameters as names. Where it gives None the
stamp has no such member: In["u16 if fmt.CODEBOOK else None"].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Annotation:
    """kind: in | out | inout | uniform | push | spec | param; of: the type, or its text until a template is stamped."""

    kind: str
    of: Any


class _Marker:
    """`In`, `Out` ...: subscripting yields the annotation."""

    def __init__(self, kind: str, doc: str):
        self.kind, self.__doc__ = kind, doc

    def __getitem__(self, of: Any) -> Annotation:
        return Annotation(self.kind, of)

    def __repr__(self) -> str:
        return self.kind


In = _Marker("in", "A storage buffer the kernel reads; a store to it is an error.")
Out = _Marker("out", "A storage buffer the kernel writes; a load from it is an error.")
InOut = _Marker("inout", "A storage buffer the kernel reads and writes.")
Uniform = _Marker("uniform", "A uniform buffer holding one struct.")
Push = _Marker("push", "A push constant (class kernels; in a function a bare scalar annotation says the same).")
Spec = _Marker("spec", "A specialisation constant: 32-bit int, f32 or bool, with a literal default; set at pipeline creation.")
Param = _Marker("param", "A template parameter, given in [] when the class is stamped.")
