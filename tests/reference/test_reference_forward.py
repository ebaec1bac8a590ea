"""The float64 forward equals llama.cpp's recorded logits, is causal, and notices everything that a forward pass
can get wrong."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.models.build import make_model
from tests.reference import forward as reference
from tests.reference.forward import Reference, forward
from tests.reference.parity import assert_parity, measure
from tests.reference.variants import KEPT, RECORDED, TOKENS, VARIANTS, build


@functools.cache
def recorded() -> dict[str, np.ndarray]:
    with np.load(RECORDED) as data:
        return dict(data)


@pytest.mark.parametrize("name", VARIANTS)
def test_equals_recorded_peer_logits(tmp_path, name):
    """If this fails for every variant at once, the generator has changed: record again
    (tests/reference/variants.py)."""
    assert_parity(recorded()[name], forward(build(name, tmp_path), TOKENS)[KEPT], 2e-5)


@pytest.mark.parametrize("arch", ["qwen2", "qwen3"])
def test_is_causal_and_last_only_is_the_last_row(tmp_path, arch):
    with Reference(make_model(tmp_path / "m.gguf", arch, seed=3)) as model:
        whole = model.logits(TOKENS[:40])
        assert np.allclose(model.logits(TOKENS[:17]), whole[:17], rtol=0, atol=1e-10)
        assert np.allclose(model.logits(TOKENS[:40], last_only=True), whole[-1:], rtol=0, atol=1e-10)
        assert whole.dtype == np.float64 and whole.shape == (40, 320)


def attention_by_hand(q, k, v):
    """One query, one head at a time, as a sum over the past."""
    n, heads, hd = q.shape
    out = np.zeros((n, heads, hd))
    for i in range(n):
        for h in range(heads):
            g = h * k.shape[1] // heads
            weights = [np.exp(sum(q[i, h] * k[j, g]) / hd**0.5) for j in range(i + 1)]
            out[i, h] = sum(w * v[j, g] for j, w in enumerate(weights)) / sum(weights)
    return out


def test_capture_holds_consistent_intermediates(tmp_path):
    path, capture = make_model(tmp_path / "m.gguf", "qwen3", head_dim=24, seed=4), {}
    logits = forward(path, TOKENS[:9], capture)
    with Reference(path) as model:
        for i in range(2):
            at = f"blk.{i}."
            q, k, v = (capture[at + name] for name in "qkv")
            assert q.shape == (9, 4, 24) and k.shape == v.shape == (9, 2, 24)
            assert np.allclose(capture[at + "attn_mix"].reshape(9, 4, 24), attention_by_hand(q, k, v))
            before = capture["embd"] if i == 0 else capture["blk.0.out"]
            assert np.allclose(capture[at + "attn_residual"], before + capture[at + "attn_out"])
            assert np.allclose(capture[at + "out"], capture[at + "attn_residual"] + capture[at + "ffn_out"])
        assert np.allclose(logits, capture["result_norm"] @ model.weight("output.weight").T)


def zeroed(original):
    return lambda self, x, i, note: 0 * original(self, x, i, note)


BROKEN = {
    "no attention": lambda m: m.setattr(Reference, "_attend", zeroed(Reference._attend)),
    "no feed-forward": lambda m: m.setattr(Reference, "_feed", zeroed(Reference._feed)),
    "no rope": lambda m: m.setattr(reference, "rotate", lambda x, positions, hyper: x),
    "rope of neighbouring pairs": lambda m: m.setattr(reference, "rotate", neighbour_rotate),
    "positions off by a third": lambda m: m.setattr(
        reference, "rotate", lambda x, p, h, f=reference.rotate: f(x, p * 4 / 3, h)
    ),
    "heads of the wrong group": lambda m: m.setattr(
        reference, "attention", lambda q, k, v, f=reference.attention: f(q, k[:, ::-1], v[:, ::-1])
    ),
    "value heads swapped": lambda m: m.setattr(
        reference, "attention", lambda q, k, v, f=reference.attention: f(q, k, v[:, ::-1])
    ),
    "no scale of scores": lambda m: m.setattr(
        reference, "attention", lambda q, k, v, f=reference.attention: f(q * q.shape[2] ** 0.5, k, v)
    ),
    "the last token is not seen": lambda m: m.setattr(reference, "attention", blind_attention),
    "norm without its weight": lambda m: m.setattr(
        reference, "rms_norm", lambda x, w, e, f=reference.rms_norm: f(x, np.ones_like(w), e)
    ),
    "no biases": lambda m: m.setattr(Reference, "_linear", lambda self, x, name: x @ self.weight(name + ".weight").T),
}


def neighbour_rotate(x, positions, hyper):
    angle = positions[:, None, None] * hyper.frequencies
    out, cos, sin = np.empty_like(x), np.cos(angle), np.sin(angle)
    out[..., ::2], out[..., 1::2] = x[..., ::2] * cos - x[..., 1::2] * sin, x[..., ::2] * sin + x[..., 1::2] * cos
    return out


def blind_attention(q, k, v, f=reference.attention):
    return np.concatenate([f(q, k, v)[:1], f(q[1:], k[:-1], v[:-1])])


FAULTS = [(arch, fault) for arch in ("qwen2", "qwen3") for fault in BROKEN if (arch, fault) != ("qwen3", "no biases")]


@pytest.mark.parametrize("arch, fault", FAULTS)
def test_random_models_notice_every_fault(tmp_path, monkeypatch, arch, fault):
    """The generator's models are sensitive: each fault is at least twice over the bar of the int arm at half of the positions."""
    path = make_model(tmp_path / "m.gguf", arch, seed=6)
    right = forward(path, TOKENS[:50])
    BROKEN[fault](monkeypatch)
    report = measure(forward(path, TOKENS[:50]), right, 2.5e-2)
    assert report.worst > 0.1 and report.median > 0.05 and report.failures


def test_quantised_weights_are_what_gguf_dequantises(tmp_path):
    """A quantised file and an F32 file of its dequantised weights have the same logits."""
    from gguf import GGUFReader, GGUFWriter, quants

    path = make_model(
        tmp_path / "q.gguf",
        "qwen2",
        d=256,
        ff=256,
        types={"default": "Q4_K", "ffn_down": "Q6_K", "output": "Q8_0"},
        seed=8,
    )
    reader, writer = GGUFReader(path), GGUFWriter(str(tmp_path / "f.gguf"), "qwen2")
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            writer.add_key_value(name, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, quants.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert np.array_equal(forward(path, TOKENS[:20]), forward(tmp_path / "f.gguf", TOKENS[:20]))


def test_refusals(tmp_path):
    path = make_model(tmp_path / "m.gguf", rope_scaling={"type": "longrope", "factor": 2.0})
    with pytest.raises(ValueError, match="longrope"):
        Reference(path)
    with Reference(make_model(tmp_path / "n.gguf")) as model:
        for tokens in ([], [-1], [320]):
            with pytest.raises(ValueError, match="outside the vocabulary"):
                model.logits(tokens)
