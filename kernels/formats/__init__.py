"""GGUF block formats: one file each. FORMATS is the table every other part enumerates."""

from __future__ import annotations

from .base import BlockFormat
from .floats import BF16, F16, F32
from .iq4 import IQ4_NL, IQ4_XS
from .q2_k import Q2_K
from .q3_k import Q3_K
from .q4_0 import Q4_0
from .q4_1 import Q4_1
from .q4_k import Q4_K
from .q5_0 import Q5_0
from .q5_1 import Q5_1
from .q5_k import Q5_K
from .q6_k import Q6_K
from .q8_0 import Q8_0

_ALL = (F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS)
FORMATS: dict[str, type[BlockFormat]] = {f.name: f for f in _ALL}

__all__ = ["FORMATS", "BlockFormat", *sorted(f.__name__ for f in _ALL)]
