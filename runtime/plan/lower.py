"""From a model's operations to dispatches: a table of runs of operations and the kernels that do each run at once.

A lowered step is a list of Dispatch: which kernel, which named buffers, which push constants, how many workgroups. Buffers
are named; the engine knows where they lie. `hq`, `hs` are the q8 form of `h`, and so on (residency.scratch_bytes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.attention import Attention, Combine
from kernels.matmul import Embed, GateUp, Gemv, Tile
from kernels.moe import ExpertDown, ExpertGateUp, GateScale, Route
from kernels.norm import RmsNorm
from kernels.quantize import Quantize, SwiGLU
from kernels.rope import RopeStore, padded_head
from kernels.rows import padded
from kernels.window_attention import WindowAttention
from spirvdsl import Launchable, f16, f16x4, f32, f32x4

from ..errors import PlanError
from ..models import Op
from .planes import PlaneSet
from .residency import Plan

WINDOW_ROWS = 16  # query rows (tokens x heads) that share a read of keys and values; 8 and 32 are slower (docs/performance.md)
CACHE_TYPES = {"f16": (f16, f16x4), "f32": (f32, f32x4)}


@dataclass(frozen=True)
class Dispatch:
    """bind: kernel argument -> buffer name, or (plane set, shard, 0 quants | 1 scales), or ("codebook", format), or (buffer
    name, byte offset, bytes)."""

    kernel: Launchable
    bind: dict[str, Any]
    push: dict[str, int | float]
    groups: tuple[int, int, int]
    label: str
    layer: int = -1  # -1: outside the layers


def spread(lanes: int, threads: int = 64) -> tuple[int, int, int]:
    """Workgroups for so many lanes, over two axes where one would pass 65,535."""
    groups = -(-lanes // threads)
    rows = -(-groups // 32768)
    return -(-groups // rows), rows, 1


def attention_stamp(head_dim: int, group: int, kv: str, split: bool, caps: Any) -> Launchable:
    """Attention with as many subgroups (4, 2 or 1) as workgroup memory holds. PlanError when not even one fits."""
    fixed = {"HD": head_dim, "GROUP": group, "CT4": CACHE_TYPES[kv][1], "SPLIT": split, "SG": caps.subgroup_size}
    for n in (4, 2, 1):
        if group * ((n + 1) * padded_head(head_dim) + 2 * n) * 4 <= min(32768, caps.max_workgroup_bytes):
            return Attention.stamp(**fixed, NSG=n)
    raise PlanError(f"attention with {group} query heads of {head_dim} channels per key head needs more workgroup memory than {caps.name} has; use another device")


def window_stamp(head_dim: int, group: int, kv: str, tokens: int, caps: Any) -> Launchable | None:
    """WindowAttention where a prefill window gains by it; None: every token walks the keys for itself.

    Not on CPU devices, which have no bandwidth to save and pay for unrolled rows when they compile.
    """
    share = WINDOW_ROWS // group
    if caps.is_cpu or share < 2 or tokens < 2 * share:
        return None
    fixed = {"HD": head_dim, "GROUP": group, "CT4": CACHE_TYPES[kv][1], "SG": caps.subgroup_size, "TOKENS": share}
    for n in (4, 2, 1):
        if share * group * ((n + 1) * padded_head(head_dim) + 2 * n) * 4 <= min(49152, caps.max_workgroup_bytes):
            return WindowAttention.stamp(**fixed, NSG=n)
    return None


class Lowering:
    """Lowers one step of `tokens` rows. decode: rows belong to different sequences' last tokens (splits over the context)."""

    def __init__(self, plan: Plan, caps: Any, tokens: int, decode: bool, all_logits: bool = False, head: bool = True):
        self.plan, self.caps, self.t, self.decode, self.all_logits = plan, caps, tokens, decode, all_logits
        self.c = plan.model.config
        self.ql = 8 if caps.subgroup_size >= 8 else 4
        # tokens a GEMV takes; more go to the tile. On lavapipe four tokens a lane beat the tile at any number: 32 tokens of
        # Q5_0 4864 x 896 take 33 ms, the tile 180 ms (2026-11-30)
        self.most_columns = 1 << 31 if caps.is_cpu else 8
        self.out: list[Dispatch] = []
        self.layer = -1  # of the operations that are being lowered
        self.lowered = 0  # operations that kernels of self.out compute
        self.ops = plan.model.ops if head else plan.model.ops[:-2]  # a window that is not the last needs no logits

    def run(self) -> list[Dispatch]:
        """All dispatches of the step, in order."""
        at = 0
        while at < len(self.ops):
            for kinds, method in FUSIONS:
                run = self.ops[at: at + len(kinds)]
                if tuple(o.kind for o in run) == kinds:
                    self.layer = run[0].layer
                    method(self, run, at)
                    at += len(kinds)
                    self.lowered += len(kinds)
                    break
            else:
                raise AssertionError(f"no kernel for operation {self.ops[at]}")
        return self.out

    # one method per row of FUSIONS
    def embed(self, ops: tuple[Op, ...], at: int) -> None:
        plane = self.plan.plane(ops[0].weight)
        for i, (row0, rows) in enumerate(plane.shards):
            self._add(Embed[plane.format], {**plane.bind(i), "rows_of": "rows", "x": "x"},
                      {"row0": row0, "rows": rows, "blocks": plane.blocks}, (-(-plane.blocks * 8 // 64), self.t, 1), "embed")

    def rms_norm(self, ops: tuple[Op, ...], at: int) -> None:
        op = ops[0]
        arms = self._consumers(op.out, at + 1)
        last_only = self._is_final(at) and not self.all_logits
        kernel = RmsNorm.stamp(F32="scalar" in arms, Q8="int" in arms, QL=self.ql, THREADS=32 if self.caps.is_cpu else 256)
        self._add(kernel, {"x": "x", "weight": op.weight, "y": "h", "yq": "hq", "ys": "hs"},
                  {"dim": self.c.n_embd, "blocks": padded(self.c.n_embd) // 32, "row0": self.t - 1 if last_only and not self.decode else 0, "eps": self.c.eps},
                  (1 if last_only and not self.decode else self.t, 1, 1), "norm")

    def qkv(self, ops: tuple[Op, ...], at: int) -> None:
        """q, k, v projections side by side in one row, then norm, rotation and store in one dispatch."""
        width = (self.c.n_head + 2 * self.c.n_head_kv) * self.c.head_dim
        sizes = (self.c.n_head, self.c.n_head_kv, self.c.n_head_kv)
        column, done = 0, set()
        for op, n in zip(ops[:3], sizes, strict=True):
            plane = self.plan.plane(op.weight)
            if plane.name not in done:
                done.add(plane.name)
                self._matmul(plane, "h", "qkv", width, column, bias=self._bias_name(plane) if op.bias else "", label="qkv")
            column += n * self.c.head_dim
        norms = {o.out: o.weight for o in ops if o.kind == "head_norm"}
        cache = CACHE_TYPES[self.plan.kv][0]
        kernel = RopeStore[self.c.head_dim, self.c.n_rot, bool(norms), cache]
        layer = ops[-1].layer
        self._add(kernel, {"qkv": "qkv", "q_norm": norms.get("q", "nil"), "k_norm": norms.get("k", "nil"), "rope": "rope", "rows_of": "rows", "table": "table",
                           "q": "q", "k": f"k{layer}", "v": f"v{layer}"},
                  {"heads": self.c.n_head, "kv_heads": self.c.n_head_kv, "qkv_stride": width, "eps": self.c.eps, "scale": self.c.head_dim ** -0.5},
                  (self.c.n_head + 2 * self.c.n_head_kv, self.t, 1), "rope")

    def attention(self, ops: tuple[Op, ...], at: int) -> None:
        c, layer = self.c, ops[0].layer
        stride, splits = padded(c.n_head * c.head_dim), self.plan.splits if self.decode else 1
        q8 = "int" in self._consumers(ops[0].out, at + 1)
        bind = {"q": "q", "k": f"k{layer}", "v": f"v{layer}", "rows_of": "rows", "table": "table", "out": "partial" if splits > 1 else "a", "stats": "stats"}
        push = {"kv_heads": c.n_head_kv, "splits": splits, "out_stride": stride}
        window = None if self.decode else window_stamp(c.head_dim, c.n_head // c.n_head_kv, self.plan.kv, self.t, self.caps)
        if window is None:
            kernel = attention_stamp(c.head_dim, c.n_head // c.n_head_kv, self.plan.kv, splits > 1, self.caps)
            self._add(kernel, bind, push, (c.n_head_kv, self.t, splits), "attention")
        else:
            self._add(window, bind, {**push, "tokens": self.t}, (c.n_head_kv, -(-self.t // window.values["TOKENS"]), 1), "attention")
        if splits > 1:
            per_group = 64 // self.ql
            self._add(Combine[c.head_dim, q8, self.ql], {"partial": "partial", "stats": "stats", "y": "a", "yq": "aq", "ys": "as"},
                      {"heads": c.n_head, "splits": splits, "blocks": stride // 32}, (-(-stride // 32 // per_group), self.t, 1), "combine")
        elif q8:
            self._quantize("a", stride // 32)

    def residual(self, ops: tuple[Op, ...], at: int) -> None:
        self._matmul(self.plan.plane(ops[0].weight), ops[0].ins[0], "x", padded(self.c.n_embd), 0, residual=True, label="out" if ops[0].ins[0] == "a" else "down")

    def gate_up(self, ops: tuple[Op, ...], at: int) -> None:
        self._gate_up(ops, "int" in self._consumers(ops[2].out, at + 3))

    def shared_expert(self, ops: tuple[Op, ...], at: int) -> None:
        """gate_up, and m scaled by the gate before it is quantised."""
        blocks = padded(self.c.n_ff) // 32
        self._gate_up(ops, False)
        self._add(GateScale.stamp(), {"h": "h", "weight": ops[3].weight, "m": "m"}, {"blocks": padded(self.c.n_embd) // 32, "m_blocks": blocks}, (self.t, 1, 1), "gate_scale")
        if "int" in self._consumers("m", at + 4):
            self._quantize("m", blocks)

    def route(self, ops: tuple[Op, ...], at: int) -> None:
        stride = padded(self.c.n_expert)
        self._matmul(self.plan.plane(ops[0].weight), "h", "r", stride, 0, label="router")
        self._add(Route[ops[1].kind == "route_norm"], {"logits": "r", "route": "p"}, {"experts": self.c.n_expert, "used": self.c.n_used, "stride": stride}, (self.t, 1, 1), "route")

    def experts_gate_up(self, ops: tuple[Op, ...], at: int) -> None:
        gate, up = (self.plan.plane(o.weight) for o in ops[:2])
        if (gate.type_name, gate.shards, gate.arm) != (up.type_name, up.shards, up.arm):
            raise PlanError(f"{gate.name} is {gate.type_name} and {up.name} {up.type_name}; experts whose gate and up differ are not served, quantise the model again")
        blocks, pairs = padded(self.c.n_ff_exp) // 32, self.t * self.c.n_used
        for i, shard in enumerate(gate.shards):
            kernel = ExpertGateUp.stamp(fmt=gate.format, INT=gate.arm == "int", **self._gemv_shape(gate.blocks, 1))
            bind = {**gate.bind(i), "q2": (up.name, i, 0), "s2": (up.name, i, 1), "route": "p", "y": "em", **self._feed(gate, "h")}
            self._add(kernel, bind, {**self._expert_push(gate, shard), "tokens": self.t, "y_stride": blocks * 32}, self._expert_groups(kernel, gate, pairs), "experts_gate_up")
        if "int" in self._consumers("em", at + 3):
            self._quantize("em", blocks * self.c.n_used)

    def experts_down(self, ops: tuple[Op, ...], at: int) -> None:
        down = self.plan.plane(ops[0].weight)
        for i, shard in enumerate(down.shards):
            kernel = ExpertDown.stamp(fmt=down.format, INT=down.arm == "int", **self._gemv_shape(down.blocks, 1))
            bind = {**down.bind(i), "route": "p", "y": "x", **self._feed(down, "em")}
            push = {**self._expert_push(down, shard), "tokens": self.t * self.c.n_used, "y_stride": padded(self.c.n_embd)}
            self._add(kernel, bind, push, self._expert_groups(kernel, down, self.t), "experts_down")

    def _expert_push(self, plane: PlaneSet, shard: tuple[int, int]) -> dict[str, int]:
        rows = plane.rows // plane.experts
        return {"rows": rows, "blocks": plane.blocks, "used": self.c.n_used, "expert0": shard[0] // rows, "experts": shard[1] // rows}

    @staticmethod
    def _expert_groups(kernel: Launchable, plane: PlaneSet, y: int) -> tuple[int, int, int]:
        return -(-(plane.rows // plane.experts) // (kernel.values["THREADS"] // kernel.values["LANES"])), y, 1

    def _gate_up(self, ops: tuple[Op, ...], q8: bool) -> None:
        gate, up = (self.plan.plane(o.weight) for o in ops[:2])
        blocks = padded(self.c.n_ff) // 32
        same = (gate.type_name, gate.shards, gate.arm) == (up.type_name, up.shards, up.arm)
        if self.t <= self.most_columns and same:
            for i, (row0, rows) in enumerate(gate.shards):
                kernel = GateUp.stamp(fmt=gate.format, INT=gate.arm == "int", **self._gemv_shape(gate.blocks))
                bind = {**gate.bind(i), "q2": (up.name, i, 0), "s2": (up.name, i, 1), "y": "m", **self._feed(gate, "h")}
                self._add(kernel, bind, {"rows": rows, "blocks": gate.blocks, "tokens": self.t, "y_stride": blocks * 32, "y_col": row0}, self._gemv_groups(kernel, rows), "gate_up")
            if q8:
                self._quantize("m", blocks)
            return
        self._matmul(gate, "h", "g", blocks * 32, 0, label="gate")
        self._matmul(up, "h", "u", blocks * 32, 0, label="up")
        self._add(SwiGLU[q8, self.ql], {"gate": "g", "up": "u", "y": "mq" if q8 else "m", "ys": "ms"}, {"blocks": blocks * self.t}, spread(blocks * self.t * self.ql), "swiglu")

    def linear(self, ops: tuple[Op, ...], at: int) -> None:
        """A plain projection: the head."""
        plane = self.plan.plane(ops[0].weight)
        self._matmul(plane, "h", ops[0].out, plane.rows, 0, tokens=self.t if self.all_logits or self.decode else 1, label="head")

    # pieces
    def _matmul(self, plane: PlaneSet, source: str, target: str, stride: int, column: int, *, bias: str = "", residual: bool = False,
                tokens: int | None = None, label: str) -> None:
        tokens = tokens or self.t
        for i, (row0, rows) in enumerate(plane.shards):
            common = {"fmt": plane.format, "INT": plane.arm == "int", "BIAS": bool(bias), "RESIDUAL": residual}
            if tokens <= self.most_columns:
                kernel = Gemv.stamp(**common, **self._gemv_shape(plane.blocks, tokens))
                groups = self._gemv_groups(kernel, rows, tokens)
            else:
                # 64 x 64 of 4 x 4 outputs a lane: 4,030 t/s on an H200 (qwen3-4b Q4_K_M pp512), 128 x 64 of 8 x 4 only 2,672 (2026-11-30)
                kernel = Tile.stamp(**common)
                groups = (-(-rows // kernel.values["BM"]), -(-tokens // kernel.values["BN"]), 1)
            bind = {**plane.bind(i), "bias": (bias, row0 * 4, rows * 4) if bias else "nil", "y": target, **self._feed(plane, source)}
            self._add(kernel, bind, {"rows": rows, "blocks": plane.blocks, "tokens": tokens, "y_stride": stride, "y_col": column + row0}, groups, label)

    def _gemv_shape(self, blocks: int, tokens: int | None = None) -> dict[str, int]:
        """LANES a row: as many (a power of two, at most 32 and a subgroup) as leave each more than two blocks."""
        several = (tokens or self.t) > 1
        if self.caps.is_cpu:  # one lane a row: lanes then share the activations. Q5_0 4864 x 896: 3 ms, with 8 lanes 11 (2026-11-30)
            return {"LANES": 1, "COLS": 4 if several else 1, "THREADS": 32}
        lanes = 4
        while lanes * 2 <= min(32, self.caps.subgroup_size) and lanes * 4 < blocks:
            lanes *= 2
        columns = self.most_columns if several else 1  # two stamps, not four: every one is a driver compile at start
        return {"LANES": lanes, "COLS": columns, "THREADS": 128}

    def _gemv_groups(self, kernel: Launchable, rows: int, tokens: int | None = None) -> tuple[int, int, int]:
        values = kernel.values
        return -(-rows // (values["THREADS"] // values["LANES"])), -(-(tokens or self.t) // values["COLS"]), 1

    @staticmethod
    def _feed(plane: PlaneSet, source: str) -> dict[str, str]:
        return {"x": source + "q", "xs": source + "s"} if plane.arm == "int" else {"x": source, "xs": "nil"}

    def _quantize(self, name: str, blocks: int) -> None:
        self._add(Quantize[self.ql], {"x": name, "xq": name + "q", "xs": name + "s"}, {"blocks": blocks * self.t}, spread(blocks * self.t * self.ql), "quantize")

    def _consumers(self, value: str, start: int) -> set[str]:
        """Arms of the projections that read `value` before it is written again."""
        arms = set()
        for op in self.ops[start:]:
            if op.kind == "gate_scale" and op.ins[1] == value:
                arms.add("scalar")
            if value in op.ins and op.kind in ("linear", "expert_linear"):
                arms.add(self.plan.plane(op.weight).arm)
            if op.out == value:
                break
        return arms

    def _is_final(self, at: int) -> bool:
        return at == len(self.plan.model.ops) - 2

    @staticmethod
    def _bias_name(plane: PlaneSet) -> str:
        return plane.name.replace(".weight", ".bias")

    def _add(self, kernel: Launchable, bind: dict[str, Any], push: dict[str, int | float], groups: tuple[int, int, int], label: str) -> None:
        self.out.append(Dispatch(kernel, bind, push, groups, label, self.layer))


FUSIONS: tuple[tuple[tuple[str, ...], Callable[[Lowering, tuple[Op, ...], int], None]], ...] = (
    (("linear", "linear", "linear", "head_norm", "head_norm", "rope", "rope", "kv_store"), Lowering.qkv),
    (("linear", "linear", "linear", "rope", "rope", "kv_store"), Lowering.qkv),
    (("linear", "linear", "swiglu", "gate_scale"), Lowering.shared_expert),
    (("linear", "linear", "swiglu"), Lowering.gate_up),
    (("linear", "route"), Lowering.route),
    (("linear", "route_norm"), Lowering.route),
    (("expert_linear", "expert_linear", "swiglu"), Lowering.experts_gate_up),
    (("expert_linear", "expert_sum", "add"), Lowering.experts_down),
    (("linear", "add"), Lowering.residual),
    (("embed",), Lowering.embed),
    (("rms_norm",), Lowering.rms_norm),
    (("attention",), Lowering.attention),
    (("linear",), Lowering.linear),
)
