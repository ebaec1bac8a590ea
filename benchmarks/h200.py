"""Correctness first, speed second, on a real GPU: python benchmarks/h200.py [--peer LIBDIR] [--shapes NAME:RECIPE ...] --out DIR

1. Parity: random small models of every weight type and arm against the float64 reference (tests/reference).
2. Speed: a synthetic model in a real shape (benchmarks/synth_gguf.py), ours and llama.cpp's on the same file in the same run.

Writes DIR/h200.json and prints a short table. A failing parity ends the run with status 1 and no timing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def parity(folder: Path) -> list[dict]:
    """rel-rms of every (architecture, type, arm) against float64, prefill in windows of 64 and token by token."""
    from kernels.formats import FORMATS
    from runtime.engine.engine import free_bytes
    from runtime.engine.executor import Executor
    from runtime.eval import logits_of
    from runtime.gguf import open_gguf
    from runtime.models import read_model
    from runtime.plan import make_plan
    from runtime.vk import Device
    from tests.models.build import make_model
    from tests.reference.forward import forward
    from tests.reference.parity import int8_failures, measure

    rows, rng = [], np.random.default_rng(1)
    with Device() as device:
        print(device.caps.name, device.caps.driver, device.caps.driver_version, "subgroup", device.caps.subgroup_size, "int dot", device.caps.int_dot_accelerated, flush=True)
        for arch, kind, arm in [("qwen3" if i % 2 else "qwen2", t, a) for i, t in enumerate(FORMATS) for a in ("scalar", "int")]:
            if arm == "int" and not FORMATS[kind].INTEGER:
                continue
            path = make_model(folder / "parity.gguf", arch, types=kind, d=256, ff=512, heads=4, kv_heads=2, head_dim=64, vocab=512, ctx=512)
            tokens = [int(t) for t in rng.integers(0, 512, 100)]
            reference = forward(path, tokens)
            with open_gguf(path) as file:
                model = read_model(file)
                plan = make_plan(model, device.caps, free_bytes(device), ctx=256, kv="f32", arm=arm, window=64, logit_rows=64)
                for split in (100, 5):
                    executor = Executor(device, plan)
                    logits = logits_of(executor, tokens, split, True)
                    report = measure(logits, reference, 2e-3 if arm == "scalar" else 2.5e-2, 0.1 if arm == "scalar" else 0.15)
                    rows.append({"arch": arch, "type": kind, "arm": arm, "split": split, "report": str(report),
                                 "ok": not (int8_failures(report, logits, reference) if arm == "int" else report.failures)})
                    print(f"{arch} {kind:7} {arm:6} split {split:3}: {report}", flush=True)
    return rows


def speed(shape: str, recipe: str, folder: Path, peer: str | None, reps: int) -> dict:
    """Ours and the peer's on one synthetic file."""
    path = folder / f"{shape}-{recipe}.gguf"
    subprocess.run([sys.executable, str(ROOT / "benchmarks/synth_gguf.py"), shape, recipe, str(path)], check=True)
    out = {"shape": shape, "recipe": recipe, "file_bytes": path.stat().st_size}
    report = folder / "bench.json"
    run = subprocess.run([sys.executable, "-m", "runtime.bench", str(path), "--pp", "512", "2048", "--tg", "128", "--reps", str(reps), "--json", str(report), "--profile"],
                         cwd=ROOT, check=False)
    out["ours"] = json.loads(report.read_text()) if run.returncode == 0 else {"failed": run.returncode}
    if peer:
        env = dict(os.environ, LD_LIBRARY_PATH=peer + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
        began = time.perf_counter()
        text = subprocess.run([sys.executable, str(ROOT / "benchmarks/peer_bench.py"), peer, str(path), "--pp", "512", "2048", "--tg", "128", "--reps", "8"],
                              env=env, capture_output=True, text=True, check=False)
        rows = json.loads(text.stdout.splitlines()[-1]) if text.returncode == 0 else []
        print("peer:", *(f"{r['test']} {r.get('tokens_per_second', r.get('seconds')):.1f}" for r in rows), text.stderr[-300:] if not rows else "",
              f"({time.perf_counter() - began:.0f} s)", flush=True)
        out["peer"] = rows
    path.unlink()
    return out


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--peer", help="folder of llama.cpp's libraries")
    parser.add_argument("--shapes", nargs="*", default=["qwen3-4b:Q4_K_M"], metavar="SHAPE:RECIPE")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--out", default=".", type=Path)
    parser.add_argument("--no-parity", action="store_true")
    args = parser.parse_args()
    result: dict = {"date": time.strftime("%Y-%m-%d"), "argv": sys.argv[1:]}
    with tempfile.TemporaryDirectory() as folder:
        if not args.no_parity:
            result["parity"] = parity(Path(folder))
        if all(r["ok"] for r in result.get("parity", [])):
            result["speed"] = [speed(*s.split(":"), Path(folder), args.peer, args.reps) for s in args.shapes]
    (args.out / "h200.json").write_text(json.dumps(result, indent=1))
    bad = [r for r in result.get("parity", []) if not r["ok"]]
    for r in bad:
        print("PARITY FAILED", r["arch"], r["type"], r["arm"], r["report"])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
