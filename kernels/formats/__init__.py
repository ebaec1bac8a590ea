"""GGUF block formats: one file each. FORMATS is the table every other part enumerates."""

from __future__ import annotations

from .base import BlockFormat
from .floats import BF16, F16, F32
from .q4_0 import Q4_0
from .q4_k import Q4_K
from .q5_0 import Q5_0
from .q5_k import Q5_K
from .q6_k import Q6_K
from .q8_0 import Q8_0

FORMATS: dict[str, type[BlockFormat]] = {f.name: f for f in (F32, F16, BF16, Q8_0, Q4_0, Q5_0, Q4_K, Q5_K, Q6_K)}

__all__ = ["BF16", "F16", "F32", "FORMATS", "Q4_0", "Q4_K", "Q5_0", "Q5_K", "Q6_K", "Q8_0", "BlockFormat"]
