"""The generator's files are what their arguments say, and their weights look like weights."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from runtime.gguf import dequantize, open_gguf
from tests.models import blocks
from tests.models.build import make_model
from tests.models.vocab import MERGES, SPECIALS, byte_alphabet, byte_vocabulary, large_vocabulary
from tests.reference.forward import forward


def values(f, name):
    return dequantize(f.tensors[name].type_name, f.data(name), f.tensors[name].shape)


@pytest.mark.parametrize("kind", blocks.TYPES)
@pytest.mark.parametrize("extremes", [(), blocks.EXTREMES])
def test_weights_and_logits_are_sane(tmp_path, kind, extremes):
    path = make_model(tmp_path / "m.gguf", d=256, ff=512, head_dim=64, types=kind, extremes=extremes, seed=9)
    with open_gguf(path) as f:
        for name, gain in (("blk.0.ffn_up.weight", 0.6), ("blk.1.attn_k.weight", 1.0), ("blk.1.ffn_down.weight", 0.6)):
            w = values(f, name) * f.tensors[name].shape[1] ** 0.5
            assert f.tensors[name].type_name == kind and np.isfinite(w).all()
            assert abs(w.mean()) < 0.15 * gain and 0.7 * gain < w.std() < 1.2 * gain
        assert values(f, "blk.0.attn_q_norm.weight").std() < 0.3
        logits = forward(f, list(range(0, 320, 5)))
    assert 1 < logits.std() < 8 and len(set(logits.argmax(1))) > 8


@pytest.mark.parametrize("kind", [*blocks.QUANTISED_TYPES, *blocks.RANDOM_TYPES])
def test_blocks_use_every_byte_value_and_scale_sign(kind):
    raw = blocks.random_blocks(kind, 4000, 0.1, np.random.default_rng(1))
    scaled = {"IQ1_M": range(48, 56), "MXFP4": range(2), "NVFP4": range(4)}.get(kind, ())
    free = [i for i in range(raw.shape[1]) if i - i % 2 not in blocks.SCALES.get(kind, scaled) and not (kind[-1] == "K" and kind != "Q6_K" and i < 16)
            and not (kind == "Q6_K" and i >= 192)]  # fmt: skip
    assert len(free) > 10 and all(len(set(raw[:, i])) == 256 for i in free)
    if kind in blocks.SCALES:
        scales = raw[:, blocks.SCALES[kind][0] :][:, :2].copy().view("<f2")
        assert 0.4 < (scales < 0).mean() < 0.6 and len(set(scales[:, 0].tolist())) > 1000
    w = blocks.dequantize_blocks(kind, raw)
    assert abs(w.mean()) < 0.01 and 0.09 < w.std() < 0.11


@pytest.mark.parametrize("kind", [*blocks.QUANTISED_TYPES, *blocks.RANDOM_TYPES])
def test_extreme_blocks(kind):
    rng = np.random.default_rng(3)
    plain = blocks.random_blocks(kind, 600, 1.0, rng)
    raw = blocks.add_extremes(kind, plain, 1.0, blocks.EXTREMES, rng)
    assert (~raw.any(1)).sum() == 100
    if kind in blocks.SCALES:
        d = raw[:, blocks.SCALES[kind][0] :][:, :2].copy().view("<u2")[:, 0]
        assert ((d & 0x7C00 == 0) & (d & 0x3FF != 0)).sum() == 100
    changed = raw[(raw != plain).any(1)]
    assert len(changed) == 300 and np.isfinite(blocks.dequantize_blocks(kind, raw)).all()
    code = {"Q8_0": slice(2, 34), "Q4_0": slice(2, 18), "Q5_0": slice(2, 22), "Q6_K": slice(0, 192), "Q2_K": slice(16, 80),
            "Q3_K": slice(0, 96), "Q4_1": slice(4, 20), "Q5_1": slice(4, 24), "IQ4_NL": slice(2, 18), "IQ4_XS": slice(8, None),
            "IQ3_S": slice(2, 106), "IQ2_S": slice(2, 74), "IQ2_XS": slice(2, 66), "IQ1_M": slice(0, 48), "TQ1_0": slice(0, 52), "TQ2_0": slice(0, 64),
            "MXFP4": slice(1, None), "NVFP4": slice(4, None)}.get(kind, slice(16, None) if kind[-1] == "K" else slice(2, None))  # fmt: skip
    high, low = (0x7F, 0x80) if kind == "Q8_0" else (0xFF, 0x77) if kind in blocks.EXTREME_NIBBLES else (0xFF, 0x00)
    assert (changed[:, code] == high).all(1).sum() > 10 and (
        (changed[:, code] == low).all(1) & changed.any(1)
    ).sum() > 10
    with pytest.raises(ValueError, match="extreme 'odd'"):
        blocks.add_extremes(kind, plain, 1.0, ("odd",), rng)


def test_k_scales_are_packed_as_gguf_unpacks_them():
    rng = np.random.default_rng(5)
    s, m = rng.integers(0, 64, (50, 8)), rng.integers(0, 64, (50, 8))
    got_s, got_m = gguf.quants.Q4_K.get_scale_min(blocks._pack_k_scales(s, m))
    assert np.array_equal(got_s, s) and np.array_equal(got_m, m)


def test_types_by_name_role_and_default(tmp_path):
    types = {"default": "Q4_K", "ffn_down": "Q6_K", "blk.1.ffn_down.weight": "Q8_0", "token_embd": "BF16"}
    with open_gguf(make_model(tmp_path / "m.gguf", d=256, ff=256, types=types)) as f:
        got = {name: t.type_name for name, t in f.tensors.items()}
    assert got["token_embd.weight"] == "BF16" and got["blk.0.ffn_down.weight"] == "Q6_K"
    assert got["blk.1.ffn_down.weight"] == "Q8_0" and got["blk.0.attn_q.weight"] == "Q4_K"
    assert got["output_norm.weight"] == "F32"


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("arch", ["qwen2", "qwen3"])
def test_tensors_of_each_architecture(tmp_path, arch, tied):
    with open_gguf(
        make_model(tmp_path / "m.gguf", arch, n_layer=1, tied=tied, rope_scaling={"type": "linear", "factor": 2.0})
    ) as f:
        names = {n.removeprefix("blk.0.") for n in f.tensors}
        assert f.arch == arch and f.require(f"{arch}.rope.scaling.factor", "f32") == 2.0
    assert ("output.weight" in names) != tied
    assert (
        {"attn_q_norm.weight", "attn_k_norm.weight"} <= names if arch == "qwen3" else "attn_q_norm.weight" not in names
    )
    assert ({"attn_q.bias", "attn_k.bias", "attn_v.bias"} <= names) == (arch == "qwen2")


def test_same_seed_same_bytes(tmp_path):
    a, b, c = (make_model(tmp_path / f"{i}.gguf", seed=seed, types="Q8_0") for i, seed in enumerate((1, 1, 2)))
    assert a.read_bytes() == b.read_bytes() != c.read_bytes()


@pytest.mark.parametrize("kw", [{"arch": "qwen2", "head_dim": 24}, {"heads": 3, "kv_heads": 2}, {"head_dim": 15}, {"arch": "llama"},
                                {"types": "Q4_K"}, {"types": "Q8_K", "d": 256}, {"rope_scaling": {"type": "yarn", "factor": 2.0, "odd": 1}},
                                {"tokenizer": "byte", "vocab": 200}])  # fmt: skip
def test_arguments_that_make_no_model(tmp_path, kw):
    with pytest.raises(ValueError):
        make_model(tmp_path / "m.gguf", **kw)


def test_vocabularies():
    assert len(set(byte_alphabet())) == 256 and byte_alphabet()[32] == "\u0120" and byte_alphabet()[0xFF] == "\u00ff"
    small, large = byte_vocabulary(320), large_vocabulary(151_936)
    for words, size in ((small, 320), (large, 151_936)):
        assert len(words.tokens) == len(words.token_types) == len(set(words.tokens)) == size
        known = set(words.tokens)
        assert all(left in known and right in known for left, right in (m.split(" ") for m in words.merges))
        assert [words.tokens[words.special[text]] for text, _ in SPECIALS] == [text for text, _ in SPECIALS]
    assert len(small.merges) == len(MERGES) and len(large.merges) > 150_000
