"""Weights as they will lie on the device: plane sets (one or several tensors with one format), cut into row shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernels.formats import FORMATS, BlockFormat
from kernels.rows import padded

from ..errors import PlanError
from ..models import Model
from .arms import choose

_SHARD_ROWS = 64  # shards are multiples of this many rows


@dataclass(frozen=True)
class PlaneSet:
    """Tensors that share a dispatch: their rows one below the other, k columns, in `shards` of (first row, rows)."""

    name: str
    tensors: tuple[str, ...]
    type_name: str
    rows: int
    k: int
    arm: str
    reason: str
    shards: tuple[tuple[int, int], ...]
    experts: int = 0  # stacked matrices that make up the rows; 0: a plain matrix

    @property
    def format(self) -> type[BlockFormat]:
        return FORMATS[self.type_name]

    @property
    def blocks(self) -> int:
        """Blocks of 32 a row, padding included."""
        return padded(self.k) // 32

    def plane_bytes(self, rows: int) -> tuple[int, int]:
        """Bytes of the quant and the scale plane of so many rows."""
        elements = rows * self.blocks * 32 // self.format.elements
        q, s = self.format.plane_bytes()
        return elements * q, elements * s

    @property
    def bytes(self) -> int:
        return sum(self.plane_bytes(self.rows))

    def bind(self, shard: int) -> dict[str, Any]:
        """Buffers of a shard by kernel argument: quants, scales, and the codebook of a format that has one."""
        book = {"codebook": ("codebook", self.type_name)} if self.format.CODEBOOK else {}
        return {"q": (self.name, shard, 0), "s": (self.name, shard, 1), **book}


def plane_sets(model: Model, caps: Any, limit: int, forced: str | None) -> tuple[PlaneSet, ...]:
    """Every matrix of the model, in file order; q, k and v (or q and k) of a layer together where they share a format.

    limit: most bytes of one binding and allocation. PlanError when even 64 rows do not fit.
    """
    out: dict[str, PlaneSet] = {}
    done: set[str] = set()
    for name, info in model.file.tensors.items():
        if len(info.shape) < 2 or name in done:
            continue
        group = _fusable(model, name)
        made = _plane_set(model, group, caps, limit, forced)
        if len(made.shards) > 1 and len(group) > 1:
            group = (name,)
            made = _plane_set(model, group, caps, limit, forced)
        out[made.name] = made
        done.update(group)
    return tuple(out.values())


def _fusable(model: Model, name: str) -> tuple[str, ...]:
    """q, k, v when `name` begins them and all have its type and columns; q and k when v differs (Q4_K_M); else the tensor alone."""
    stem, _, role = name.rpartition(".attn_")
    trio = tuple(f"{stem}.attn_{r}.weight" for r in "qkv")
    if role not in ("q.weight", "k.weight", "v.weight") or not all(t in model.file.tensors for t in trio):
        return (name,)
    for group in (trio, trio[:2]):
        kinds = {(model.file.tensors[t].type_name, model.file.tensors[t].shape[1]) for t in group}
        if name in group and len(kinds) == 1:
            return group
    return (name,)


def _plane_set(model: Model, tensors: tuple[str, ...], caps: Any, limit: int, forced: str | None) -> PlaneSet:
    infos = [model.file.tensors[t] for t in tensors]
    rows, k = sum(model.rows(t) for t in tensors), infos[0].shape[-1]
    experts = infos[0].shape[0] if len(infos[0].shape) == 3 else 0
    if tensors[0].endswith(".ffn_gate_inp.weight") and not FORMATS[infos[0].type_name].INTEGER:
        forced = None  # converters leave routers in floats, which would make --arm int refuse every mixture of experts
    arm, reason = choose(tensors[0], infos[0].type_name, caps, forced)
    whole = PlaneSet(tensors[0] if len(tensors) == 1 else tensors[0].replace("attn_q", "attn_" + "qkv"[: len(tensors)]), tensors, infos[0].type_name, rows, k, arm, reason, ((0, rows),), experts)
    largest = max(whole.plane_bytes(rows))
    if largest > limit:
        unit = rows // experts if experts else _SHARD_ROWS  # a shard holds whole experts
        step = limit // max(1, -(-largest // rows)) // unit * unit
        if step < unit:
            raise PlanError(f"tensor {tensors[0]}: {unit} rows of {k} take more than the {limit >> 20} MiB one binding may have on {caps.name}; raise --max-alloc-mib or use another device")
        shards = tuple((r, min(step, rows - r)) for r in range(0, rows, step))
        return PlaneSet(whole.name, tensors, whole.type_name, rows, k, arm, f"{reason}; {largest >> 20} MiB over the {limit >> 20} MiB binding: {len(shards)} row shards", shards, experts)
    return whole
