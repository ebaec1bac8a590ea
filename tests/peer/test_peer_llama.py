"""The llama.cpp wrapper itself, and the float64 reference against live llama.cpp. Needs LLAMA_LIB_DIR (mark `peer`)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models import blocks
from tests.models.build import make_model
from tests.models.vocab import byte_vocabulary
from tests.peer import llama
from tests.reference.forward import forward
from tests.reference.parity import assert_parity, measure
from tests.reference.variants import TOKENS, VARIANTS, build

pytestmark = pytest.mark.peer


@pytest.fixture(autouse=True)
def peer_is_there():
    llama.require()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("peer") / "m.gguf", tokenizer="byte", seed=2)


def test_tokenizer_calls(path):
    special = byte_vocabulary(320).special
    with llama.Llama(path, vocab_only=True) as peer:
        assert peer.vocab_size == 320
        text = "hello the <|im_start|>user \u00e9\U0001f600<think>"
        ids = peer.tokenize(text)
        assert peer.detokenize(ids, special=True).decode() == text
        assert special["<|im_start|>"] in ids and special["<think>"] in ids
        plain = peer.tokenize(text, parse_special=False)
        assert (
            special["<|im_start|>"] not in plain
            and special["<think>"] in plain
            and peer.detokenize(plain).decode() == text
        )
        assert b"".join(peer.token_piece(i) for i in plain).decode() == text
        assert (
            peer.token_piece(special["<|im_end|>"]) == b""
            and peer.token_piece(special["<|im_end|>"], special=True) == b"<|im_end|>"
        )
        assert peer.is_eog(special["<|im_end|>"]) and peer.is_eog(special["<|endoftext|>"]) and not peer.is_eog(65)
        assert peer.tokenize("") == []
        assert peer.tokenize(b"\xff") == peer.tokenize("\ufffd")  # llama.cpp replaces bytes that are no UTF-8
        with pytest.raises(llama.PeerError):
            peer.eval([1])


def test_eval_in_pieces_and_greedy(path):
    with llama.Llama(path, n_ctx=128, n_batch=16) as peer:
        whole = peer.eval(TOKENS[:50])
        peer.reset()
        pieces = np.concatenate([peer.eval(TOKENS[:7]), peer.eval(TOKENS[7:8]), peer.eval(TOKENS[8:50])])
        assert whole.shape == (50, 320) and np.abs(whole - pieces).max() < 1e-4
        made = peer.greedy(TOKENS[:20], 8, stop_at_eog=False)
        logits = forward(path, TOKENS[:20] + made)
        assert made == logits[19:27].argmax(1).tolist()
        with pytest.raises(llama.PeerError, match="n_ctx 128"):
            peer.eval(TOKENS * 2)


def test_a_bad_file_is_an_error(tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF")
    with pytest.raises(llama.PeerError, match="does not load"):
        llama.Llama(bad)


@pytest.mark.parametrize("name", VARIANTS)
def test_reference_equals_the_peer_in_f32(tmp_path, name):
    path = build(name, tmp_path)
    with llama.Llama(path, kv="f32") as peer:
        assert_parity(peer.eval(TOKENS), forward(path, TOKENS), 1e-5)


PEER_NOISE = {
    "F16": 8e-4,
    "BF16": 6e-3,
    "Q8_0": 2e-2,
    "Q4_0": 2e-2,
    "Q5_0": 2e-2,
    "Q4_K": 3e-2,
    "Q5_K": 3e-2,
    "Q6_K": 3e-2,
}


@pytest.mark.parametrize("kind", PEER_NOISE)
@pytest.mark.parametrize("extremes", [(), blocks.EXTREMES])
def test_reference_equals_the_peer_within_its_activation_noise(tmp_path, kind, extremes):
    """llama.cpp rounds activations to the weights' companion type, so only the size of the difference can be judged."""
    path = make_model(tmp_path / "m.gguf", d=256, ff=512, head_dim=64, types=kind, extremes=extremes, seed=3)
    with llama.Llama(path, kv="f32") as peer:
        report = measure(peer.eval(TOKENS), forward(path, TOKENS), PEER_NOISE[kind])
    assert report.median < PEER_NOISE[kind] and report.worst < 3 * PEER_NOISE[kind] and not report.disagreements, str(
        report
    )
