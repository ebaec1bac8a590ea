"""GGUF block formats: one file each. FORMATS is the table every other part enumerates."""

from __future__ import annotations

from .base import BlockFormat
from .few import Q1_0, Q2_0
from .floats import BF16, F16, F32
from .fp4 import MXFP4, NVFP4
from .iq1 import IQ1_M, IQ1_S
from .iq2 import IQ2_S, IQ2_XS, IQ2_XXS
from .iq3 import IQ3_S, IQ3_XXS
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
from .ternary import TQ1_0, TQ2_0

_ALL = (
    F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS, IQ2_XXS,
    IQ1_S, IQ1_M, MXFP4, NVFP4, TQ1_0, TQ2_0, Q1_0, Q2_0,
)  # fmt: skip
FORMATS: dict[str, type[BlockFormat]] = {f.name: f for f in _ALL}

__all__ = ["FORMATS", "BlockFormat", *sorted(f.__name__ for f in _ALL)]
