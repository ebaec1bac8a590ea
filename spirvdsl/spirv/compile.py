"""The whole back end in one call."""

from __future__ import annotations

import hashlib

from ..compiled import CompiledKernel
from ..ir.nodes import Module
from .check import check
from .lower import lower
from .reflect import reflect
from .validate import validate
from .words import version_of, walk


def compile_module(module: Module) -> CompiledKernel:
    """Lower, check, validate and reflect a kernel. CompileError (E08xx, E0304, E0901) when the module is not valid."""
    written = lower(module)
    spirv = written.to_bytes()
    spans = [i.span for i in written.instructions()]
    code, version = list(walk(spirv)), version_of(spirv)
    check(code, version, spans)
    validate(spirv, spans)
    return CompiledKernel(module.name, spirv, reflect(module, code, version), hashlib.sha256(spirv).hexdigest())
