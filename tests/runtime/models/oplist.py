"""A float64 interpreter of the operations that a model is written in: the meaning of runtime/models/graph.py.

One function an operation, one value a name, nothing fused. It reads the operations and the rotation of the product and
the weights of the file, and shares no code with tests/reference/forward.py, which must come to the same logits.
"""

from __future__ import annotations

import numpy as np

from runtime.gguf import dequantize
from runtime.models import Model
from runtime.models.rope import frequencies


class Interpreter:
    """Runs model.ops over token ids, all positions at once."""

    def __init__(self, model: Model):
        self.model, self.config = model, model.config

    def logits(self, tokens) -> np.ndarray:
        """f64 [n, vocabulary]."""
        self.values: dict[str, np.ndarray] = {}
        self.cache: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.tokens = np.asarray(tokens)
        for op in self.model.ops:
            result = getattr(self, op.kind)(op, *(self.values[name] for name in op.ins))
            if op.out:
                self.values[op.out] = result
        return self.values["logits"]

    def tensor(self, name: str) -> np.ndarray:
        info = self.model.file.tensors[name]
        return dequantize(info.type_name, self.model.file.data(name), info.shape).astype(np.float64)

    def heads(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), -1, self.config.head_dim)

    def embed(self, op) -> np.ndarray:
        return self.tensor(op.weight)[self.tokens]

    def rms_norm(self, op, a) -> np.ndarray:
        mean = np.einsum("...i,...i->...", a, a) / a.shape[-1]
        return self.tensor(op.weight) * a / np.sqrt(mean + self.config.eps)[..., None]

    def linear(self, op, a) -> np.ndarray:
        y = np.einsum("tk,rk->tr", a, self.tensor(op.weight), optimize=True)
        return y + self.tensor(op.bias) if op.bias else y

    def head_norm(self, op, a) -> np.ndarray:
        return self.rms_norm(op, self.heads(a)).reshape(a.shape)

    def rope(self, op, a) -> np.ndarray:
        radians, magnitude = frequencies(self.config)
        turn = magnitude * np.exp(1j * np.arange(len(a))[:, None, None] * radians)
        real, imaginary = np.split(self.heads(a), 2, -1)
        turned = (real + 1j * imaginary) * turn
        return np.concatenate([turned.real, turned.imag], -1).reshape(a.shape)

    def kv_store(self, op, a, b) -> None:
        self.cache[op.layer] = self.heads(a), self.heads(b)

    def attention(self, op, a) -> np.ndarray:
        queries, (keys, values) = self.heads(a), self.cache[op.layer]
        shared = queries.reshape(len(a), keys.shape[1], -1, self.config.head_dim)  # [t, kv head, query of the group, c]
        scores = np.einsum("tkgc,skc->tkgs", shared, keys) / np.sqrt(self.config.head_dim)
        late = np.arange(len(keys))[None, :] > np.arange(len(a))[:, None]
        weights = np.exp(np.where(late[:, None, None, :], -np.inf, scores - scores.max(-1, keepdims=True)))
        weights /= weights.sum(-1, keepdims=True)
        return np.einsum("tkgs,skc->tkgc", weights, values).reshape(a.shape)

    def swiglu(self, op, a, b) -> np.ndarray:
        return a * b / (1 + np.exp(-a))

    def route(self, op, a) -> tuple[np.ndarray, np.ndarray]:
        """(experts, weights), both [n, used]."""
        weights = np.exp(a - a.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        chosen = np.argsort(-weights, axis=1, kind="stable")[:, : self.config.n_used]
        return chosen, np.take_along_axis(weights, chosen, 1)

    def route_norm(self, op, a) -> tuple[np.ndarray, np.ndarray]:
        chosen, weights = self.route(op, a)
        return chosen, weights / weights.sum(1, keepdims=True)

    def expert_linear(self, op, a, choice) -> np.ndarray:
        x = a if a.ndim == 3 else np.repeat(a[:, None], self.config.n_used, 1)
        return np.einsum("tsrk,tsk->tsr", self.tensor(op.weight)[choice[0]], x)

    def expert_sum(self, op, a, choice) -> np.ndarray:
        return np.einsum("tsr,ts->tr", a, choice[1])

    def gate_scale(self, op, a, b) -> np.ndarray:
        return a / (1 + np.exp(-(b @ self.tensor(op.weight))))[:, None]

    def add(self, op, a, b) -> np.ndarray:
        return a + b


class Rounded(Interpreter):
    """The same in the number formats of the device, everything else in float64.

    q8: matrices read activations as the int arm does, int8 with one scale of amax / 127 for each 32 of a row.
    cache: the type of keys and values.
    """

    def __init__(self, model: Model, q8: bool, cache: type):
        super().__init__(model)
        self.q8, self.cache_type = q8, cache

    def linear(self, op, a) -> np.ndarray:
        if not self.q8:
            return super().linear(op, a)
        width = a.shape[1]
        blocks = np.pad(a, ((0, 0), (0, -width % 32))).reshape(len(a), -1, 32)
        scale = np.abs(blocks).max(-1, keepdims=True) / 127
        rounded = np.round(blocks / np.where(scale > 0, scale, 1)) * scale
        return super().linear(op, rounded.reshape(len(a), -1)[:, :width])

    def kv_store(self, op, a, b) -> None:
        super().kv_store(op, *(x.astype(self.cache_type).astype(np.float64) for x in (a, b)))
