"""The residency plan: what will be on the device, to the byte, before anything is allocated.

Weights, KV cache (reserved first), rope table, vectors, scratch and headroom against the device's memory budget. The plan
fits, or shrinks the context to what fits when the context was left open, or declines with the numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from kernels.rope import padded_head
from kernels.rows import PAGE, padded

from ..errors import PlanError
from ..models import Model
from .planes import PlaneSet, plane_sets

KV_BYTES = {"f16": 2, "f32": 4}
_HEADROOM = 0.03  # of the budget: what drivers take for pipelines and descriptors
_RING = 4096  # token ids the device keeps for the host
_SLOTS = 16  # sequences with rows and sampling state of their own
_CHUNK = 64 << 20  # most bytes of GGUF data uploaded at once


@dataclass(frozen=True)
class Plan:
    """Everything decided about serving one model on one device. Bytes unless said otherwise."""

    model: Model
    device: str
    planes: tuple[PlaneSet, ...]
    kv: str
    n_ctx: int
    pages: int
    window: int
    splits: int
    kv_layer_bytes: int
    kv_bytes: int
    rope_bytes: int
    vector_bytes: int
    scratch: dict[str, int]
    chunk: int
    budget: int
    limit: int
    notes: tuple[str, ...]

    @property
    def weight_bytes(self) -> int:
        return sum(p.bytes for p in self.planes)

    @property
    def total(self) -> int:
        return self.weight_bytes + self.kv_bytes + self.rope_bytes + self.vector_bytes + sum(self.scratch.values())

    @property
    def load_bytes(self) -> int:
        """Two buffers that GGUF data passes through; gone before the scratch is made."""
        return 2 * self.chunk

    def plane(self, tensor: str) -> PlaneSet:
        """The plane set that holds a tensor."""
        return next(p for p in self.planes if tensor in p.tensors)


def row_bytes(model: Model) -> dict[str, int]:
    """Activation buffers, bytes a row; names are those of lower.py."""
    c = model.config
    d, ff, heads = padded(c.n_embd), padded(c.n_ff), padded(c.n_head * c.head_dim)
    qkv, hdp = (c.n_head + 2 * c.n_head_kv) * c.head_dim, padded_head(c.head_dim)
    pair = padded(c.n_ff_exp) * c.n_used  # a row of each chosen expert
    experts = {"r": padded(c.n_expert) * 4, "p": c.n_used * 8, "em": pair * 4, "emq": pair, "ems": pair // 4} if c.n_expert else {}
    return experts | {"x": d * 4, "h": d * 4, "hq": d, "hs": d // 4, "qkv": qkv * 4, "q": c.n_head * hdp * 4, "a": heads * 4, "aq": heads, "as": heads // 4,
            "g": ff * 4, "u": ff * 4, "m": ff * 4, "mq": ff, "ms": ff // 4}


def scratch_bytes(model: Model, window: int, splits: int, logit_rows: int, pages: int = 0) -> dict[str, int]:
    """Every buffer that is neither weight nor cache, for `window` rows and a page table of `pages`."""
    c, hdp = model.config, padded_head(model.config.head_dim)
    out = {n: b * window for n, b in row_bytes(model).items()}
    return out | {"partial": max(16, c.n_head * splits * hdp * 4 * (splits > 1)), "stats": max(16, c.n_head * splits * 8 * (splits > 1)),
                  "logits": c.n_vocab * 4 * logit_rows, "best": 8 * (c.n_vocab // 1024 + 1), "rows": 16 * (_SLOTS + window), "ring": _RING * 4,
                  "state": 32 * _SLOTS, "table": 4 * pages, "nil": 256}


def vector_bytes(model: Model, planes: tuple[PlaneSet, ...]) -> int:
    """Norms and biases, padded, the biases of a fused plane set a second time, one after the other; codebooks."""
    rows = {n: i.shape[0] for n, i in model.file.tensors.items() if len(i.shape) == 1}
    fused = [[t.replace(".weight", ".bias") for t in p.tensors] for p in planes if len(p.tensors) > 1]
    books = {p.type_name: 2 * len(p.format.CODEBOOK) for p in planes}
    return 4 * (sum(map(padded, rows.values())) + sum(padded(sum(rows[b] for b in names)) for names in fused if names[0] in rows)) + sum(books.values())


def make_plan(model: Model, caps: Any, budget: int, *, ctx: int | None = None, kv: str = "f16", arm: str | None = None,
              max_alloc_mib: int | None = None, window: int | None = None, logit_rows: int = 1) -> Plan:
    """Decide. budget: free device memory in bytes. ctx None: the largest that fits, at most what the model was trained for.

    Raises PlanError: unknown kv type or arm, context too long for the model, or not enough memory (with what would fit).
    """
    if kv not in KV_BYTES:
        raise PlanError(f"--kv {kv} is not served yet; f16 and f32 are")
    c = model.config
    if ctx is not None and not 1 <= ctx <= c.n_ctx_train:
        raise PlanError(f"context {ctx} is not between 1 and the {c.n_ctx_train} tokens {model.name} was trained for; lower --ctx")
    limit = min(caps.max_storage_buffer_range, caps.max_memory_allocation_size, (max_alloc_mib << 20) if max_alloc_mib else 1 << 62)
    forced = arm or os.environ.get("RUNTIME_ARM") or None
    planes = plane_sets(model, caps, limit, forced)
    splits = 1 if caps.is_cpu else max(1, min(16, 256 // c.n_head_kv))
    window, logit_rows, notes = _fitting_window(model, window or (32 if caps.is_cpu else 512), logit_rows, limit, caps)
    vectors = vector_bytes(model, planes)
    scratch = scratch_bytes(model, window, splits, logit_rows)
    chunk = -(-min(_CHUNK, limit - 32, max(i.nbytes for i in model.file.tensors.values())) // 16) * 16 + 16  # 16: wide loads may pass the end
    fixed = sum(p.bytes for p in planes) + vectors + max(sum(scratch.values()), 2 * chunk)
    layer_page = c.n_head_kv * PAGE * padded_head(c.head_dim) * KV_BYTES[kv]
    per_page = c.n_layer * 2 * layer_page + PAGE * (c.n_rot // 2) * 8 + 4
    widest = max(layer_page, PAGE * (c.n_rot // 2) * 8)
    by_memory, by_binding = (int(budget * (1 - _HEADROOM)) - fixed) // per_page, limit // widest
    fit = max(0, min(by_memory, by_binding)) * PAGE
    wanted = ctx or c.n_ctx_train
    if fit < PAGE or (ctx is not None and -(-ctx // PAGE) * PAGE > fit):
        pages = -(-wanted // PAGE)
        what = f"needs {fixed + pages * per_page >> 20} MiB, {caps.name} has {budget >> 20} MiB free" if by_memory < pages else (
            f"needs a buffer of {pages * widest >> 20} MiB, {limit >> 20} MiB are allowed")
        raise PlanError(f"{model.name} with a context of {wanted} {what}; " + (f"--ctx {fit} would fit" if fit else "no context fits; use a smaller model or another device"))
    n_ctx = min(wanted, fit)
    if n_ctx < wanted:
        notes.append(f"context shrunk from {wanted} to {n_ctx} tokens to fit")
    pages = -(-n_ctx // PAGE)
    scratch["table"] = 4 * pages
    return Plan(model, caps.name, planes, kv, n_ctx, pages, window, splits, pages * layer_page, c.n_layer * 2 * pages * layer_page,
                n_ctx * (c.n_rot // 2) * 8, vectors, scratch, chunk, budget, limit, tuple(notes))


def _fitting_window(model: Model, window: int, logit_rows: int, limit: int, caps: Any) -> tuple[int, int, list[str]]:
    """(window, logit rows, notes): fewer rows where a buffer of all would be over the limit of one binding."""
    widest = max(*row_bytes(model).values(), model.config.n_vocab * 4 if logit_rows > 1 else 0)
    most = min(limit // widest, 65535 // max(1, model.config.n_used))  # experts: a workgroup row for every (token, slot)
    if most < 1 or model.config.n_vocab * 4 > limit:
        raise PlanError(f"one row of activations or logits of {model.name} is over the {limit >> 20} MiB one buffer may have on {caps.name}; raise --max-alloc-mib or use another device")
    if window <= most:
        return window, logit_rows, []
    return most, min(logit_rows, most), [f"prefill windows shrunk from {window} to {most} tokens: a buffer may have {limit >> 20} MiB, a grid 65,535 rows"]
