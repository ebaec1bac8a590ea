"""A plan in words and as JSON: every plane, its bytes, its arm and the reason."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kernels.formats import FORMATS

from .lower import Lowering
from .residency import Plan


def as_json(plan: Plan, caps: Any) -> dict[str, Any]:
    """Everything decided, with plain values.

    host_ops: operations of a step that no kernel computes. dispatches_per_layer: of the layer with the most.
    """
    lowerings = {"decode": Lowering(plan, caps, 1, decode=True), "prefill": Lowering(plan, caps, plan.window, decode=False)}
    steps = {name: lowering.run() for name, lowering in lowerings.items()}
    return {
        "model": plan.model.name, "architecture": plan.model.config.arch, "device": plan.device, "n_ctx": plan.n_ctx, "kv": plan.kv, "pages": plan.pages,
        "window": plan.window, "splits": plan.splits, "host_ops": sum(len(lowering.ops) - lowering.lowered for lowering in lowerings.values()),
        "bytes": {"weights": plan.weight_bytes, "kv": plan.kv_bytes, "rope": plan.rope_bytes, "vectors": plan.vector_bytes, "scratch": sum(plan.scratch.values()),
                  "load": plan.load_bytes, "total": plan.total, "budget": plan.budget, "binding_limit": plan.limit},
        "dispatches": {name: len(step) for name, step in steps.items()},
        "dispatches_per_layer": {name: max(Counter(d.layer for d in step if d.layer >= 0).values()) for name, step in steps.items()},
        "kernels": {name: sorted({d.kernel.name for d in step}) for name, step in steps.items()},
        "planes": [{"name": p.name, "tensors": list(p.tensors), "format": p.type_name, "rows": p.rows, "columns": p.k, "bytes": p.bytes,
                    "arm": p.arm, "decode_arm": p.arm, "reason": p.reason, "shards": [list(s) for s in p.shards]} for p in plan.planes],
        "not_on_first_arm": [{"plane": p.name, "arm": p.arm, "reason": p.reason} for p in plan.planes if p.arm != "int" and FORMATS[p.type_name].INTEGER],
        "notes": list(plan.notes),
    }


def as_text(plan: Plan, caps: Any) -> str:
    """The same for a person."""
    j, mib = as_json(plan, caps), 1 / (1 << 20)
    b = j["bytes"]
    lines = [f"{j['model']} ({j['architecture']}) on {j['device']}",
             f"context {j['n_ctx']} tokens in {j['pages']} pages, cache {j['kv']}, prefill windows of {j['window']}",
             f"memory {b['total'] * mib:.1f} MiB of {b['budget'] * mib:.0f} MiB free: weights {b['weights'] * mib:.1f}, cache {b['kv'] * mib:.1f}, "
             f"rope {b['rope'] * mib:.1f}, vectors {b['vectors'] * mib:.2f}, scratch {b['scratch'] * mib:.1f}",
             f"dispatches: {j['dispatches']['decode']} a token, {j['dispatches']['prefill']} a window; {j['dispatches_per_layer']['decode']} and "
             f"{j['dispatches_per_layer']['prefill']} a layer; host operations: {j['host_ops']}", *(f"note: {n}" for n in j["notes"]), ""]
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for p in j["planes"]:
        role = p["name"].split(".", 2)[2] if p["name"].startswith("blk.") else p["name"]
        groups.setdefault((role, p["format"], p["arm"], p["reason"]), []).append(p)
    lines.append(f"{'tensor':24} {'format':7} {'count':>5} {'MiB':>9}  {'arm':6} why")
    for (role, fmt, arm, reason), planes in groups.items():
        lines.append(f"{role:24} {fmt:7} {len(planes):5} {sum(p['bytes'] for p in planes) * mib:9.2f}  {arm:6} {reason}")
    return "\n".join(lines)
