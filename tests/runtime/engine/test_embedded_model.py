"""The embedded model against what the Hugging Face class said with the same dequantised weights (scripts/tiny/oracle.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runtime.engine.engine import Engine
from runtime.engine.request import Request, Sampling
from runtime.gguf import open_gguf
from runtime.text import Tokenizer
from scripts.tiny.chat import render
from scripts.tiny.generate import load_questions
from tests.reference.parity import assert_parity
from tests.runtime.engine.rig import EMBEDDED, feed, loaded

DATA = Path(__file__).resolve().parents[2] / "data"
QUICK = slice(0, 200, 16)  # 13 of 200 prompts, of every kind
BARS = {"scalar": 2e-3, "int": 2.5e-2}
ASKED = 100
MOST = 24  # tokens recorded
# the Hugging Face class has 98.9 % right of all 1,000 (scripts/tiny/README.md): of 100, fewer than 96 would be a surprise of 1 in 100


@pytest.fixture(scope="module")
def oracle() -> dict[str, np.ndarray]:
    with np.load(DATA / "tiny_qwen3_oracle.npz") as file:
        found = dict(file)
    starts = found["starts"]
    found["prompts"] = [found["ids"][a:b].tolist() for a, b in zip(starts[:-1], starts[1:])]
    assert len(found["prompts"]) == 200 and np.abs(found["logits"]).max() > 1
    return found


@pytest.fixture(scope="module")
def engine(device):
    opened = Engine.open(EMBEDDED, ctx=512)
    yield opened
    opened.close()


def check_logits(executor, oracle, which: slice, bar: float) -> None:
    ours = np.concatenate([feed(executor, prompt, every=False) for prompt in oracle["prompts"][which]])
    print(assert_parity(ours, oracle["logits"][which], bar))


def check_greedy(engine, oracle, which: slice) -> None:
    """Ids up to and with the first stop token; the file says which tokens end a reply."""
    with open_gguf(EMBEDDED) as file:
        stops = Tokenizer.from_gguf(file).eog
    streams = [engine.submit(Request(p, MOST, Sampling(temperature=0), stops)) for p in oracle["prompts"][which]]
    for stream, row in zip(streams, oracle["greedy"][which]):
        wanted = [int(t) for t in row if t >= 0]
        ends = wanted[-1] in stops
        assert list(stream) == (wanted[:-1] if ends else wanted), "greedy tokens differ from the Hugging Face class's"
        assert stream.finish == ("stop" if ends else "length")


@pytest.mark.parametrize("arm", ["scalar", pytest.param("int", marks=pytest.mark.full)])
def test_logits_are_the_hugging_face_classs(device, oracle, arm):
    with loaded(device, EMBEDDED, arm=arm, ctx=512, window=32) as executor:
        check_logits(executor, oracle, QUICK, BARS[arm])


def test_greedy_tokens_are_the_hugging_face_classs(engine, oracle):
    check_greedy(engine, oracle, QUICK)


@pytest.mark.full
def test_logits_of_all_prompts(device, oracle):
    with loaded(device, EMBEDDED, arm="scalar", ctx=512, window=32) as executor:
        check_logits(executor, oracle, slice(None), BARS["scalar"])


@pytest.mark.full
@pytest.mark.parametrize("first", range(4))
def test_greedy_tokens_of_all_prompts(engine, oracle, first):
    """All 200, in four parts: a test may take 600 s."""
    check_greedy(engine, oracle, slice(first, None, 4))


@pytest.mark.full
def test_the_engine_answers_as_many_questions_as_the_hugging_face_class(engine):
    """Every tenth of the 1,000 unseen questions (all take too long on two cores), exact match, by the server's tokenizer and engine."""
    with open_gguf(EMBEDDED) as file:
        tokenizer = Tokenizer.from_gguf(file)
    records = load_questions(DATA / "tiny_questions.jsonl")[::1000 // ASKED]
    right = 0
    for record in records:
        stream = engine.submit(Request(tokenizer.encode(render(record["m"], record["t"])), 80, Sampling(temperature=0), tokenizer.eog))
        right += tokenizer.decode(list(stream)) == record["a"]
    assert right >= ASKED - 4, f"{right} of {ASKED} answers are right"
