"""Model graphs: one file an architecture, each a list of named operations over named tensors. ARCHITECTURES is the table."""

from __future__ import annotations

from .config import Config, Model, read_model
from .graph import Op

__all__ = ["Config", "Model", "Op", "read_model"]
