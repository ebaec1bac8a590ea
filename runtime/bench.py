"""python -m runtime.bench MODEL [--pp 512 2048] [--tg 128] [--depth 0] [--batch 1] [--reps 5] [--json F]

Tokens a second of prompt processing and generation, as llama-bench counts them. Each figure is the median of back-to-back
repetitions without the first. Token ids are arbitrary; speed does not depend on them. Needs no tokenizer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from .cli import LineParser, fail, model_options, opened, positive


def whole(text: str) -> int:
    """argparse type: a whole number from 0."""
    return 0 if text == "0" else positive(text)


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = LineParser("runtime.bench", description="Tokens a second of a model on this device.")
    model_options(parser)
    parser.add_argument("--pp", type=positive, nargs="*", default=[512, 2048], metavar="N", help="prompt lengths (512 2048)")
    parser.add_argument("--tg", type=whole, default=128, metavar="N", help="tokens to generate (128), 0: none")
    parser.add_argument("--depth", type=whole, default=0, metavar="N", help="tokens already in the context")
    parser.add_argument("--batch", type=positive, default=1, metavar="N", help="sequences that decode together (1)")
    parser.add_argument("--reps", type=positive, default=5, metavar="N", help="repetitions, the first does not count (5)")
    parser.add_argument("--json", metavar="F", help="write the figures there too")
    parser.add_argument("--profile", action="store_true", help="microseconds by operation of one token and one window")
    parser.add_argument("--tune", action="store_true", help="not in this version")
    args = parser.parse_args(argv)
    return fail("runtime.bench", lambda: _bench(args))


def _bench(args: argparse.Namespace) -> None:
    if args.tune:
        raise ValueError("--tune is not in this version; leave it out")
    if args.batch > 1:
        raise ValueError("--batch above 1 is not served yet; leave it out")
    if args.json and not Path(args.json).parent.is_dir():
        raise ValueError(f"--json {args.json}: the folder does not exist; make it first")
    began = time.perf_counter()
    with opened(args, least_ctx=args.depth + max([*args.pp, args.tg, 1])) as executor:
        executor.wait()
        report: dict[str, Any] = {"model": executor.plan.model.name, "device": executor.plan.device, "driver": executor.device.caps.driver, "arms": sorted({p.arm for p in executor.plan.planes}),
                                  "load_seconds": time.perf_counter() - began, "bytes": executor.plan.total, "rows": []}
        executor.set_table(0, executor.pages.take(executor.plan.pages))
        executor.set_state(0)
        print(f"{report['model']} on {report['device']}, arms {', '.join(report['arms'])}, loaded in {report['load_seconds']:.1f} s", flush=True)
        for n in args.pp:
            report["rows"].append(_row(f"pp{n}", n, args, [_prompt(executor, n, args.depth) for _ in range(args.reps)]))
        if args.tg:
            report["rows"].append(_row(f"tg{args.tg}", args.tg, args, [_generate(executor, args.tg, args.depth) for _ in range(args.reps)]))
        if args.profile:
            report["profile"] = _profile(executor)
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1))


def _row(test: str, tokens: int, args: argparse.Namespace, seconds: list[float]) -> dict[str, Any]:
    rates = [tokens / s for s in seconds]
    median = statistics.median(rates[1:] or rates)
    print(f"{test} @d{args.depth}: {median:.1f} t/s  {[round(r, 1) for r in rates]}", flush=True)
    return {"test": test, "depth": args.depth, "tokens_per_second": median, "all": rates}


def _fill(executor, depth: int) -> None:
    """A context of `depth` tokens."""
    if depth:
        executor.prefill([(7 * i + 11) % executor.config.n_vocab for i in range(depth)], 0, 0, 0, head="none")
    executor.wait()


def _prompt(executor, n: int, depth: int) -> float:
    _fill(executor, depth)
    tokens = [(7 * i + 13) % executor.config.n_vocab for i in range(n)]
    began = time.perf_counter()
    executor.prefill(tokens, depth, 0, 0)
    executor.wait()
    return time.perf_counter() - began


def _generate(executor, n: int, depth: int) -> float:
    """n greedy steps, at most 8 queued ahead, every token read by the host."""
    import numpy as np

    from .engine.executor import ROW

    _fill(executor, depth)
    executor.set_state(0)
    executor.set_rows(np.array([(1 % executor.config.n_vocab, depth, 0, 0)], ROW))
    began, pending = time.perf_counter(), []
    for i in range(n):
        pending.append(executor.decode(1, "greedy"))
        if len(pending) > 8:
            executor.wait(pending.pop(0))
            executor.drawn(0, i - 8)
    executor.wait()
    executor.drawn(0, n - 1)
    return time.perf_counter() - began


def _profile(executor) -> dict[str, dict[str, float]]:
    """Microseconds by label. Timestamps drain the pipe, so the sum is more than a step takes."""
    from .engine.executor import Form

    out = {}
    for name, form in (("decode", Form(1, True, "last", "greedy")), ("prefill", Form(executor.plan.window, False, "last", "none"))):
        commands = executor.record(form, profile=True)
        for _ in range(3):
            executor.wait(executor.device.submit(commands))
        totals: dict[str, float] = {}
        for label, us in commands.timings():
            totals[label] = totals.get(label, 0.0) + us
        out[name] = dict(sorted(totals.items(), key=lambda kv: -kv[1]))
        print(f"{name}: " + ", ".join(f"{k} {v:.0f}" for k, v in out[name].items()) + " us", flush=True)
    return out


if __name__ == "__main__":
    sys.exit(main())
