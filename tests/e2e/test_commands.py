"""The commands as a user runs them, in processes of their own: what they print and write, and how they refuse."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from runtime.gguf import open_gguf
from tests.models.build import make_model
from tests.reference.forward import forward
from tests.reference.parity import assert_parity
from tests.runtime.engine.rig import EMBEDDED, TOKENS, small_model

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {  # module -> arguments after MODEL that make a whole command
    "runtime.eval": ("logits", ["--tokens", "1,2,3", "--out", "OUT"]),
    "runtime.bench": ("", ["--pp", "8", "--tg", "4", "--reps", "2"]),
    "runtime.plan": ("", ["--json"]),
    "runtime.serve": ("", ["--port", "0"]),
    "runtime.chat": ("", []),
}


def run(module: str, *arguments, **environment) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", module, *map(str, arguments)], cwd=ROOT, text=True, capture_output=True, timeout=180,
                          stdin=subprocess.DEVNULL, env=os.environ | environment)


def refused(done: subprocess.CompletedProcess) -> str:
    """Not 0, one line on stderr (argparse adds its usage above), nothing on stdout."""
    lines = done.stderr.splitlines()
    assert done.returncode not in (0, None) and done.returncode > 0, done
    assert lines and "Traceback" not in done.stderr and done.stdout == "", done
    assert len(lines) == 1 or lines[0].startswith("usage: "), done.stderr
    assert len(lines[-1]) < 500
    return lines[-1]


@pytest.fixture(scope="module")
def small(device, tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("commands"), tokenizer="byte")


@pytest.fixture(scope="module")
def bad(tmp_path_factory) -> dict[str, tuple[Path, str]]:
    """What is wrong -> (file, what the line must name)."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "text.gguf").write_text("this is no model\n" * 100)
    (folder / "empty.gguf").write_bytes(b"")
    whole = EMBEDDED.read_bytes()
    (folder / "half.gguf").write_bytes(whole[: len(whole) // 2])
    (folder / "head.gguf").write_bytes(whole[:1000])
    llama = make_model(folder / "llama.gguf", tokenizer="byte")
    llama.write_bytes(llama.read_bytes().replace(b"qwen3", b"llama"))  # the architecture, and every key that begins with it
    q8_k = with_type(make_model(folder / "q8_k.gguf", d=256, ff=256, tokenizer="byte"), "blk.1.ffn_up.weight", int(GGMLQuantizationType.Q8_K))
    return {"missing": (folder / "none.gguf", "none.gguf"), "text": (folder / "text.gguf", "text.gguf"), "empty": (folder / "empty.gguf", "empty.gguf"),
            "cut in its tensors": (folder / "half.gguf", "half.gguf"), "cut in its header": (folder / "head.gguf", "head.gguf"),
            "a folder": (folder, folder.name), "unknown architecture": (llama, "llama"), "Q8_K": (q8_k, "Q8_K")}


def with_type(path: Path, tensor: str, type_id: int) -> Path:
    """The same file with another type written for one matrix: name, dimensions u32, two u64, type u32."""
    data, name = bytearray(path.read_bytes()), tensor.encode()
    at = data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name) + 4 + 16
    data[at: at + 4] = struct.pack("<I", type_id)
    path.write_bytes(data)
    return path


WRONG = ["missing", "text", "empty", "cut in its tensors", "cut in its header", "a folder", "unknown architecture", "Q8_K"]


@pytest.mark.parametrize("module", COMMANDS)
@pytest.mark.parametrize("what", [w if w in ("missing", "unknown architecture") else pytest.param(w, marks=pytest.mark.full) for w in WRONG])
def test_a_bad_file_is_refused_in_one_line(device, bad, tmp_path, module, what):
    path, named = bad[what]
    first, rest = COMMANDS[module]
    line = refused(run(module, *([first] if first else []), path, *[str(tmp_path / "o.npy") if r == "OUT" else r for r in rest]))
    assert named in line, line
    assert list(tmp_path.iterdir()) == []


BAD_OPTIONS = {
    "eval: ids that are none": ("runtime.eval", ["logits", "MODEL", "--tokens", "1,x", "--out", "/tmp/never.npy"], "'x' is no token id"),
    "eval: a token past the vocabulary": ("runtime.eval", ["logits", "MODEL", "--tokens", "1,320", "--out", "/tmp/never.npy"], "token 320 is not in the vocabulary of 320"),
    "eval: more tokens than context": ("runtime.eval", ["logits", "MODEL", "--tokens", "1,2,3,4,5", "--ctx", "4", "--out", "/tmp/never.npy"], "5 tokens do not fit a context of 4"),
    "eval: no folder": ("runtime.eval", ["logits", "MODEL", "--tokens", "1", "--out", "/no/such/a.npy"], "/no/such"),
    "eval: no tokens": ("runtime.eval", ["logits", "MODEL", "--tokens", "", "--out", "/tmp/never.npy"], "no tokens"),
    "eval: neither tokens nor file": ("runtime.eval", ["logits", "MODEL", "--out", "/tmp/never.npy"], "--tokens"),
    "eval: a window of 0": ("runtime.eval", ["logits", "MODEL", "--tokens", "1", "--ubatch", "0", "--out", "/tmp/never.npy"], "--ubatch"),
    "eval: the output is a folder": ("runtime.eval", ["logits", "MODEL", "--tokens", "1", "--out", "/tmp"], "/tmp is a folder"),
    "eval: a split past the end": ("runtime.eval", ["logits", "MODEL", "--tokens", "1,2,3", "--split", "9", "--out", "/tmp/never.npy"], "--split 9"),
    "plan: a context too long": ("runtime.plan", ["MODEL", "--ctx", "999999"], "context 999999"),
    "plan: an arm that is not built": ("runtime.plan", ["MODEL", "--arm", "cm2"], "cm2"),
    "plan: a cache that is not served": ("runtime.plan", ["MODEL", "--kv", "q8_0"], "q8_0"),
    "plan: an unknown option": ("runtime.plan", ["MODEL", "--fast"], "--fast"),
    "plan: no such device": ("runtime.plan", ["MODEL", "--device", "no such device"], "no such device"),
    "bench: --tune": ("runtime.bench", ["MODEL", "--tune"], "--tune"),
    "bench: --batch 2": ("runtime.bench", ["MODEL", "--batch", "2"], "--batch"),
    "bench: longer than the model": ("runtime.bench", ["MODEL", "--pp", "4096"], "4096 tokens do not fit a context of 2048"),
    "bench: repetitions that are no number": ("runtime.bench", ["MODEL", "--reps", "many"], "--reps"),
    "serve: a context too long": ("runtime.serve", ["MODEL", "--port", "0", "--ctx", "999999"], "999999"),
    "serve: part of the layers": ("runtime.serve", ["MODEL", "-ngl", "0"], "-ngl 0"),
}
QUICK_OPTIONS = ("eval: a token past the vocabulary", "plan: a context too long", "bench: --tune", "serve: a context too long")


@pytest.mark.parametrize("what", [w if w in QUICK_OPTIONS else pytest.param(w, marks=pytest.mark.full) for w in BAD_OPTIONS])
def test_bad_options_are_refused_in_one_line(small, what):
    module, arguments, named = BAD_OPTIONS[what]
    assert named in refused(run(module, *[small if a == "MODEL" else a for a in arguments]))
    assert not Path("/tmp/never.npy").exists()


def test_eval_logits_writes_what_the_float64_forward_says(small, tmp_path):
    """The last position; all of them; in windows; a part of the prompt token by token; ids from a file."""
    tokens, out = TOKENS[:40], tmp_path / "logits.npy"
    (tmp_path / "ids.txt").write_text(" ".join(map(str, tokens[:20])) + "\n" + ", ".join(map(str, tokens[20:])))
    truth = forward(small, tokens)
    listed = ["--tokens", ",".join(map(str, tokens))]
    for arguments, wanted in ((listed, truth[-1:]), ([*listed, "--all", "--ubatch", "7", "--split", "30"], truth),
                              (["--tokens-file", tmp_path / "ids.txt", "--split", "39", "--kv", "f32", "--arm", "scalar"], truth[-1:])):
        done = run("runtime.eval", "logits", small, *arguments, "--out", out)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        logits = np.load(out)
        assert logits.dtype == np.float32 and logits.shape == wanted.shape
        assert_parity(logits, wanted, 2e-3)


def test_plan_says_what_would_be_resident(small):
    text, data = run("runtime.plan", small, "--ctx", "500"), run("runtime.plan", small, "--json")
    assert (text.returncode, text.stderr, data.returncode, data.stderr) == (0, "", 0, "")
    assert "context 500 tokens in 8 pages" in text.stdout and "host operations: 0" in text.stdout
    plan = json.loads(data.stdout)
    assert plan["host_ops"] == 0 and max(plan["dispatches_per_layer"].values()) <= 12 and plan["n_ctx"] == 2048
    arms = {(p["arm"], p["reason"]) for p in plan["planes"]}
    assert len(arms) == 1 and all(arms)


def test_bench_times_a_model(small, tmp_path):
    done = run("runtime.bench", small, "--pp", "8", "40", "--tg", "12", "--depth", "5", "--reps", "3", "--json", tmp_path / "b.json", "--profile")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert all(f"{test} @d5: " in done.stdout for test in ("pp8", "pp40", "tg12"))
    report = json.loads((tmp_path / "b.json").read_text())
    assert [r["test"] for r in report["rows"]] == ["pp8", "pp40", "tg12"]
    assert all(r["tokens_per_second"] > 0 and len(r["all"]) == 3 for r in report["rows"])
    assert report["load_seconds"] > 0 and set(report["profile"]) == {"decode", "prefill"}


def test_a_file_without_a_tokenizer_is_no_hindrance_but_to_serve(device, tmp_path):
    path = make_model(tmp_path / "ids.gguf", "qwen2")
    with open_gguf(path) as file:
        assert "tokenizer.ggml.tokens" not in file.metadata
    assert run("runtime.plan", path).returncode == 0
    assert "tokenizer" in refused(run("runtime.serve", path, "--port", "0"))
