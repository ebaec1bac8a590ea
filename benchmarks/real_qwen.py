"""A real model, by hand: python benchmarks/real_qwen.py MODEL.gguf [--peer LIBDIR] [--tokens 32] [--arm scalar|int] [--json F]

Three parts (--parts): plan    the vocabulary plane is cut into row shards where one binding cannot hold it
                       serve   runtime.serve answers a plain request with a correct function, within a bound on memory
                       parity  greedy tokens of ten prompts equal llama.cpp's on the CPU (needs --peer)
Parity feeds both sides the peer's tokens. A different choice passes only where both sides' two best logits lie closer than
0.3. The model is Qwen2.5-Coder-0.5B-Instruct Q4_K_M; never part of the tests. Exit status 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
MARGIN = 0.3  # logits; a fork with less on both sides is a tie that rounding decides
OVER_FILE_BYTES = 600_000_000  # anonymous and shared memory a server may take above the size of its file
REQUEST = "Write a Python function that returns the n-th Fibonacci number."
CHAT = (
    REQUEST,
    "请解释快速排序的工作原理。",
    "Explain what a hash table is and when to use one.",
    "Count from 1 to 20, with commas between the numbers.",
    "List the planets of the solar system in order, with one fact about each.",
)
RAW = (
    "def is_prime(n):\n    ",
    "#include <stdio.h>\n\nint main(void) {\n",
    "The history of the Roman Empire begins with",
    "1, 1, 2, 3, 5, 8, 13,",
    "从前有一座山，山里有一座庙，",
)


# plan
def plan_part(args: argparse.Namespace) -> dict[str, Any]:
    """The plan as JSON, and whether every plane over the binding limit is sharded."""
    command = [sys.executable, "-m", "runtime.plan", args.model, "--ctx", str(args.ctx), "--json", *arm_option(args)]
    plan = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    sharded = {p["name"]: {"bytes": p["bytes"], "shards": p["shards"], "reason": p["reason"]} for p in plan["planes"] if len(p["shards"]) > 1}
    print(f"plan: {plan['device']}, {plan['bytes']['total'] / 1e6:.0f} MB, binding limit {plan['bytes']['binding_limit'] >> 20} MiB")
    for name, plane in sharded.items():
        print(f"plan: {name}: {plane['bytes'] / 1e6:.0f} MB in rows {plane['shards']}: {plane['reason']}")
    largest = max(plan["planes"], key=lambda p: p["bytes"])
    # a plane set is a quant and a scale plane; twice the limit cannot be had without shards
    ok = len(largest["shards"]) > 1 or largest["bytes"] <= 2 * plan["bytes"]["binding_limit"]
    return {"ok": ok, "device": plan["device"], "bytes": plan["bytes"], "sharded": sharded, "host_ops": plan["host_ops"],
            "arms": sorted({p["arm"] for p in plan["planes"]})}


def arm_option(args: argparse.Namespace) -> list[str]:
    return ["--arm", args.arm] if args.arm else []


# serve
class MemoryWatch(threading.Thread):
    """Peak of RssAnon + RssShmem of a process and its children, read every 20 ms. Pages of mapped files do not count."""

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self.pid, self.peak, self.at_peak, self.last = pid, 0, {}, {}
        self._end = threading.Event()

    def run(self) -> None:
        while not self._end.wait(0.02):
            self.sample()

    def sample(self) -> None:
        total = {"RssAnon": 0, "RssShmem": 0, "RssFile": 0}
        for pid in family(self.pid):
            for line in read_text(f"/proc/{pid}/status").splitlines():
                name, _, value = line.partition(":")
                if name in total:
                    total[name] += int(value.split()[0]) << 10
        self.last = total
        if total["RssAnon"] + total["RssShmem"] > self.peak:
            self.peak, self.at_peak = total["RssAnon"] + total["RssShmem"], total

    def stop(self) -> None:
        self._end.set()
        self.join()


def read_text(path: str) -> str:
    """A file of /proc, empty when its process has just ended."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def family(pid: int) -> list[int]:
    """A process and all below it."""
    children = [int(c) for task in Path(f"/proc/{pid}/task").glob("*") for c in read_text(f"{task}/children").split()]
    return [pid, *(p for c in children for p in family(c))]


def serve_part(args: argparse.Namespace) -> dict[str, Any]:
    """Start the server, ask for a function, run it, and compare the peak of memory with the bound."""
    command = [sys.executable, "-m", "runtime.serve", args.model, "--ctx", str(args.ctx), "--port", "0", *arm_option(args)]
    began = time.perf_counter()
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    watch = MemoryWatch(server.pid)
    watch.start()
    try:
        line = server.stdout.readline()
        ready = time.perf_counter() - began
        if not line:
            return {"ok": False, "error": f"the server ended with status {server.wait()}"}
        print(f"serve: {line.strip()} (ready after {ready:.1f} s)", flush=True)
        loaded = dict(watch.last)
        answer = ask(line.split()[0], REQUEST)
    finally:
        server.terminate()
        server.wait(60)
        watch.stop()
    text = answer["choices"][0]["message"]["content"]
    correct, values = check_fibonacci(text)
    bound = Path(args.model).stat().st_size + OVER_FILE_BYTES
    print(text)
    print(f"serve: values {values}: {'correct' if correct else 'WRONG'}; {answer['usage']}; {answer.get('timings')}")
    print(f"serve: peak {watch.peak / 1e6:.0f} MB of {bound / 1e6:.0f} MB allowed; at the peak { {k: v // 1_000_000 for k, v in watch.at_peak.items()} } MB, "
          f"when loaded { {k: v // 1_000_000 for k, v in loaded.items()} } MB", flush=True)
    return {"ok": correct and watch.peak <= bound, "ready_seconds": ready, "correct": correct, "answer": text, "values": values, "usage": answer["usage"],
            "timings": answer.get("timings"), "peak_bytes": watch.peak, "bound_bytes": bound, "at_peak": watch.at_peak, "loaded": loaded}


def ask(url: str, request: str) -> dict[str, Any]:
    """One greedy chat completion."""
    body = {"messages": [{"role": "user", "content": request}], "temperature": 0, "max_tokens": 400}
    post = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(post, timeout=3600) as reply:
        return json.load(reply)


def check_fibonacci(text: str) -> tuple[bool, list[int] | str]:
    """Run the first Python block of an answer. Both ways of counting are right: F(1), F(2) = 1, 1 or 0, 1."""
    block = re.search(r"```(?:python|py)?\n(.*?)```", text, re.DOTALL)
    if not block:
        return False, "no code block"
    name = re.search(r"^def (\w*fib\w*)\(", block[1], re.MULTILINE)
    if not name:
        return False, "no function"
    probe = f"\nimport json\nprint('\\nVALUES', json.dumps([{name[1]}(n) for n in range(1, 21)]))\n"
    try:
        run = subprocess.run([sys.executable, "-I", "-c", block[1] + probe], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return False, "ran for over 60 s"
    if "\nVALUES" not in run.stdout:
        return False, run.stderr.strip()[-300:]
    values = json.loads(run.stdout.rpartition("VALUES")[2])
    series = [0, 1]
    while len(series) < 22:
        series.append(series[-1] + series[-2])
    return values in (series[1:21], series[:20]), values


# parity
@dataclass
class Fork:
    """A place where the choices differ. Margins: the best logit less the second, on either side."""

    at: int
    ours: str
    theirs: str
    our_margin: float
    their_margin: float

    @property
    def allowed(self) -> bool:
        return self.our_margin < MARGIN and self.their_margin < MARGIN


@dataclass
class Trace:
    """What one prompt showed."""

    prompt: str
    prompt_tokens: int
    same_ids: bool
    compared: int = 0
    equal: int = 0
    forks: list[Fork] = field(default_factory=list)
    least_margin: float = float("inf")  # the peer's, where both chose the same
    largest_difference: float = 0.0  # of one logit
    largest_top_difference: float = 0.0  # of the peer's chosen logit
    rel_rms: list[float] = field(default_factory=list)
    text: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.same_ids and self.compared > 0 and all(f.allowed for f in self.forks)


def margin(logits: np.ndarray) -> float:
    """The best logit less the second."""
    second, first = np.partition(logits, -2)[-2:]
    return float(first - second)


def parity_part(args: argparse.Namespace) -> dict[str, Any]:
    """Peer first, then ours, over the peer's tokens; the two are never in memory at once."""
    from runtime.cli import opened
    from runtime.gguf import open_gguf
    from runtime.text import ChatTemplate, Tokenizer

    with open_gguf(args.model) as file:
        tok = Tokenizer.from_gguf(file)
        template = ChatTemplate.from_gguf(file, tok)
        texts = [template.render([{"role": "user", "content": c}]) for c in CHAT] + list(RAW)
        template.close()
    order = [i for pair in zip(range(5), range(5, 10)) for i in pair]  # few prompts: some of both kinds
    texts = [texts[i] for i in order][args.skip: args.skip + args.prompts]
    traces, logits, tokens = peer_side(args, tok, texts)
    options = argparse.Namespace(model=args.model, ctx=args.ctx, kv="f16", device=args.device, arm=args.arm, max_alloc_mib=None)
    with opened(options) as executor:
        executor.set_table(0, executor.pages.take(executor.plan.pages))
        for trace, text, theirs, chosen in zip(traces, texts, logits, tokens):
            compare(executor, tok, trace, tok.encode(text), theirs, chosen)
            report(trace)
        arms = sorted({p.arm for p in executor.plan.planes})
    print(f"parity: {sum(t.equal for t in traces)} of {sum(t.compared for t in traces)} choices equal, {sum(len(t.forks) for t in traces)} forks, "
          f"arms {', '.join(arms)}; largest difference of a logit {max(t.largest_difference for t in traces):.3f}")
    return {"ok": all(t.ok for t in traces), "arms": arms, "traces": [asdict(t) | {"ok": t.ok} for t in traces]}


def peer_side(args: argparse.Namespace, tok, texts: list[str]) -> tuple[list[Trace], list[list[np.ndarray]], list[list[int]]]:
    """Traces, logits of every choice and the chosen tokens of the peer; a prompt ends early at an end-of-generation token."""
    from tests.peer.llama import Llama

    traces, logits, tokens = [], [], []
    with Llama(args.model, n_ctx=512, threads=args.threads, kv="f16") as peer:
        for text in texts:
            ids = tok.encode(text)
            traces.append(Trace(text, len(ids), ids == peer.tokenize(text)))
            peer.reset()
            rows, chosen = [peer.eval(ids, last_only=True)[0]], []
            while True:
                chosen.append(int(rows[-1].argmax()))
                if len(chosen) == args.tokens or peer.is_eog(chosen[-1]):
                    break
                rows.append(peer.eval(chosen[-1:], last_only=True)[0])
            logits.append(rows)
            tokens.append(chosen)
    return traces, logits, tokens


def compare(executor, tok, trace: Trace, prompt: list[int], theirs: list[np.ndarray], chosen: list[int]) -> None:
    """Our side: the device draws, feeds itself, and is corrected to the peer's token after a fork."""
    from runtime.engine.executor import ROW

    began = time.perf_counter()
    executor.set_state(0)
    executor.prefill(prompt, 0, 0, 0, pick="greedy")
    for at, (their, token) in enumerate(zip(theirs, chosen)):
        if at:
            executor.decode(1, "greedy")
        our = executor.logits(1)[0]
        drawn = executor.drawn(0, at)
        if drawn != int(our.argmax()):
            raise RuntimeError(f"the device drew {drawn}, its logits say {int(our.argmax())}")
        note(trace, tok, at, our, their, drawn, token)
        if drawn != token:
            executor.set_rows(np.array([(token, len(prompt) + at, 0, 0)], ROW))
    trace.text, trace.seconds = tok.decode(chosen), time.perf_counter() - began


def note(trace: Trace, tok, at: int, our: np.ndarray, their: np.ndarray, drawn: int, token: int) -> None:
    difference = our.astype(np.float64) - their
    trace.compared += 1
    trace.largest_difference = max(trace.largest_difference, float(np.abs(difference).max()))
    trace.largest_top_difference = max(trace.largest_top_difference, abs(float(difference[token])))
    trace.rel_rms.append(float(np.sqrt((difference**2).mean() / (their.astype(np.float64) ** 2).mean())))
    if drawn == token:
        trace.equal += 1
        trace.least_margin = min(trace.least_margin, margin(their))
    else:
        trace.forks.append(Fork(at, tok.decode([drawn]), tok.decode([token]), margin(our), margin(their)))


def report(trace: Trace) -> None:
    name = trace.prompt[-60:].replace("\n", "\\n")
    print(f"parity: ...{name!r}: {trace.equal}/{trace.compared} equal, least margin {trace.least_margin:.3f}, largest difference {trace.largest_difference:.3f} "
          f"(of the choice {trace.largest_top_difference:.3f}), rel-rms up to {max(trace.rel_rms):.4f}, {trace.seconds:.0f} s{'' if trace.ok else '  FAILED'}", flush=True)
    if not trace.same_ids:
        print("parity:   the prompt's token ids differ from the peer's")
    for f in trace.forks:
        print(f"parity:   fork at {f.at}: ours {f.ours!r} (margin {f.our_margin:.3f}), peer {f.theirs!r} (margin {f.their_margin:.3f}): {'a tie' if f.allowed else 'NOT ALLOWED'}", flush=True)


PARTS = {"plan": plan_part, "serve": serve_part, "parity": parity_part}


def main(argv: list[str] | None = None) -> int:
    """The script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--peer", metavar="LIBDIR", help="folder with libllama (also LLAMA_LIB_DIR)")
    parser.add_argument("--tokens", type=int, default=32, metavar="N", help="greedy tokens a prompt (32)")
    parser.add_argument("--prompts", type=int, default=10, metavar="N", help="how many of the ten prompts (10)")
    parser.add_argument("--skip", type=int, default=0, choices=range(10), metavar="N", help="leave out the first N prompts")
    parser.add_argument("--arm", choices=("scalar", "int"), help="force a matmul arm")
    parser.add_argument("--ctx", type=int, default=4096, metavar="N", help="context of the server and the executor (4096)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of the peer (2)")
    parser.add_argument("--device", metavar="N|NAME|UUID", help="the Vulkan device of parity")
    parser.add_argument("--parts", default="plan,serve,parity", help="which of plan,serve,parity")
    parser.add_argument("--json", metavar="F", help="write the result there")
    args = parser.parse_args(argv)
    parts = args.parts.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--parts {args.parts}: parts are {', '.join(PARTS)}")
    if args.peer:
        os.environ["LLAMA_LIB_DIR"] = args.peer
    if "parity" in parts and not os.environ.get("LLAMA_LIB_DIR"):
        parser.error("parity needs --peer LIBDIR; give it, or --parts plan,serve")
    sys.path.insert(0, str(ROOT))
    result: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "model": Path(args.model).name}
    for part in parts:
        result[part] = PARTS[part](args)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1, ensure_ascii=False))
    failed = [p for p in parts if not result[p]["ok"]]
    print(f"failed: {', '.join(failed)}" if failed else "all parts hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
