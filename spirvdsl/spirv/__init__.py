"""SPIR-V back end: IR -> words, validated, reflected and hashed."""

from __future__ import annotations

from .compile import compile_module
from .dis import disassemble
from .lower import lower

__all__ = ["compile_module", "disassemble", "lower"]
