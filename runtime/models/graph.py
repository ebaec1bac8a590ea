"""The operations a model is written in. An architecture never names a kernel; plan/ maps runs of operations to kernels.

Values are named f32 rows [tokens, width]; `x` is the residual stream. Sources of the maths: llama.cpp's graphs and the HF classes.

    embed      out <- rows of `weight` by token id
    rms_norm   out <- a / sqrt(mean(a^2) + eps) * weight
    linear     out <- weight . a (+ bias)
    head_norm  out <- rms_norm per head of head_dim values, in place of a
    rope       out <- a rotated by its position (NEOX pairing)
    kv_store   keys a and values b into the cache of `layer`
    attention  out <- softmax(scale q k^T) v over the cache of `layer`
    swiglu     out <- silu(a) * b
    add        out <- a + b

Experts (values with a row per (token, slot) pair are [tokens * used, width]; p is (expert, weight) of each pair):

    route          out <- the n_used experts of largest softmax(a), ties to the lower index, with these weights
    route_norm     the same, weights divided by their sum
    expert_linear  out <- weight[expert] . a for every pair; a has a row a token or a row a pair
    expert_sum     out <- sum over the slots of a token of weight * a
    gate_scale     out <- a * sigmoid(weight . b)
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("embed", "rms_norm", "linear", "head_norm", "rope", "kv_store", "attention", "swiglu", "add", "route", "route_norm", "expert_linear", "expert_sum", "gate_scale")


@dataclass(frozen=True)
class Op:
    """One operation: kind (of KINDS), result, arguments, the tensor it uses, and its layer (-1: none)."""

    kind: str
    out: str
    ins: tuple[str, ...]
    weight: str = ""
    bias: str = ""
    layer: int = -1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"operation {self.kind} is not in KINDS")
