"""IR -> IR passes, each in a file of its own. They take a module and return another; the input is never changed."""

from __future__ import annotations

from ..ir.nodes import Module
from .dce import dce
from .fold import fold
from .inline import inline
from .uniformity import check_uniformity


def run_passes(module: Module) -> Module:
    """The standard pipeline before lowering: fold, inline, fold, dead code. Deterministic.

    Raises CompileError E0408 when inlining makes the kernel too large.
    """
    module = fold(module)
    if len(module.functions) > 1:  # nothing to inline otherwise, and nothing new to fold
        module = fold(inline(module))
    return dce(module)


__all__ = ["check_uniformity", "dce", "fold", "inline", "run_passes"]
