"""spirvdsl: kernels are decorated Python functions, lowered to SPIR-V you can read.

See docs/tutorial.md; the names below are the language.
"""

from __future__ import annotations

from .compiled import Binding, CompiledKernel, PushMember, Reflection, SpecConstant
from .diagnostics import CompileError
from .ir.nodes import FloatControls
from .lang import types as _types
from .lang.builtins import BUILTINS as _BUILTINS
from .lang.coopmat import ColMajor, CoopMatrix, MatrixA, MatrixAcc, MatrixB, RowMajor
from .lang.format import DiskBlock, Format, spirv_decode
from .lang.kernel import FunctionKernel, Kernel, Launchable, Stamp, kernel
from .lang.library import workgroup_max, workgroup_sum
from .lang.resources import In, InOut, Out, Param, Push, Spec, Uniform
from .lang.struct import struct

__version__ = "0.1.0"

globals().update({n: t for n, t in _types.SCALARS.items() if n != "bool"})
globals().update(_types.VECTORS)
globals().update(_BUILTINS)
bool_ = _types.bool_

__all__ = [
    "Binding", "ColMajor", "CompileError", "CompiledKernel", "CoopMatrix", "DiskBlock", "FloatControls", "Format", "FunctionKernel", "In",
    "InOut", "Kernel", "Launchable", "MatrixA", "MatrixAcc", "MatrixB", "Out", "Param", "Push", "PushMember", "Reflection", "RowMajor", "Spec", "SpecConstant", "Stamp", "Uniform", "bool_", "kernel",
    "spirv_decode", "struct", "workgroup_max", "workgroup_sum", *(n for n in _types.SCALARS if n != "bool"), *_types.VECTORS, *_BUILTINS,
]
