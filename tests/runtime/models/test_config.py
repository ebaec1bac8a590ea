"""What read_model accepts, and that everything else is refused in one line before anything is made of it."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from runtime.errors import ModelError
from runtime.gguf import GGUFError, open_gguf
from runtime.models import read_model
from runtime.models.rope import frequencies, rope_table
from tests.models.build import make_model
from tests.reference.forward import read_hyper
from tests.runtime.gguf.test_gguf_fuzz import mutate
from tests.runtime.models import headers


def put(key, kind, value):
    return lambda keys, infos: keys.__setitem__(key, (kind, value))


def drop(key):
    return lambda keys, infos: (keys.pop(key, None), infos.pop(key, None))


def tensor(name, shape, kind="F32"):
    return lambda keys, infos: infos.__setitem__(name, (shape, kind))


REFUSED = {
    "another architecture": (put("general.architecture", "string", "llama"), ModelError, "architecture 'llama' is not served; served are qwen2, qwen3"),
    "no architecture": (drop("general.architecture"), GGUFError, "general.architecture.*is missing"),
    "a missing key": (drop("qwen3.feed_forward_length"), GGUFError, "qwen3.feed_forward_length.*is missing"),
    "a key of another type": (put("qwen3.block_count", "string", "two"), GGUFError, "qwen3.block_count.*expected int, file has string"),
    "heads per layer": (put("qwen3.attention.head_count", "array", [4, 4]), GGUFError, r"head_count.*file has u32\[\]"),
    "no layer": (put("qwen3.block_count", "u32", 0), ModelError, "block_count is 0"),
    "layers without end": (put("qwen3.block_count", "u32", 2**31 - 1), ModelError, "block_count is 2147483647 and the file has 25 tensors"),
    "a layer too many": (put("qwen3.block_count", "u32", 3), ModelError, "blk.2.attn_norm.weight is missing"),
    "a layer too few": (put("qwen3.block_count", "u32", 1), ModelError, r"tensor blk.1.attn_norm.weight and 10 more is unknown"),
    "groups of unequal size": (put("qwen3.attention.head_count_kv", "u32", 3), ModelError, "4 heads over 3 key/value heads"),
    "an odd head": (put("qwen3.attention.key_length", "u32", 15), ModelError, "rotates 15 of 15 channels"),
    "a head rotated in part": (put("qwen3.rope.dimension_count", "u32", 8), ModelError, "rotates 8 of 16 channels"),
    "a rotation past the head": (put("qwen3.rope.dimension_count", "u32", 32), ModelError, "rotates 32 of 16 channels"),
    "values of another width": (put("qwen3.attention.value_length", "u32", 32), ModelError, "value heads of 32 and key heads of 16"),
    "an unknown scaling": (put("qwen3.rope.scaling.type", "string", "longrope"), ModelError, "'longrope'; none, linear and yarn are served"),
    "a logarithmic multiplier": (put("qwen3.rope.scaling.yarn_log_multiplier", "f32", 0.1), ModelError, "yarn_log_multiplier is not served"),
    "an epsilon that is no number": (put("qwen3.attention.layer_norm_rms_epsilon", "f32", float("nan")), ModelError, "epsilon is nan"),
    "a negative epsilon": (put("qwen3.attention.layer_norm_rms_epsilon", "f32", -1e-6), ModelError, "epsilon is -"),
    "a base of one": (put("qwen3.rope.freq_base", "f32", 1.0), ModelError, "freq_base is 1.0"),
    "a beta of zero": (put("qwen3.rope.scaling.yarn_beta_fast", "f32", 0.0), ModelError, "yarn_beta_fast is 0.0"),
    "layers that predict ahead": (put("qwen3.nextn_predict_layers", "u32", 1), ModelError, "next-token-prediction"),
    "no embedding": (drop("token_embd.weight"), GGUFError, "token_embd.weight.*is missing"),
    "an embedding that is no matrix": (tensor("token_embd.weight", (64,)), ModelError, r"token_embd.weight has shape \(64,\)"),
    "a missing tensor": (drop("blk.1.attn_k_norm.weight"), ModelError, "tensor blk.1.attn_k_norm.weight is missing"),
    "a transposed tensor": (tensor("blk.0.ffn_down.weight", (96, 64)), ModelError, r"blk.0.ffn_down.weight has shape \(96, 64\), \(64, 96\) is needed"),
    "an unsupported type": (tensor("blk.1.ffn_up.weight", (96, 64), "I8"), ModelError, "blk.1.ffn_up.weight has type I8, which is not served; served are F32"),
    "a quantised norm": (tensor("output_norm.weight", (64,), "Q8_0"), ModelError, "output_norm.weight has type Q8_0"),
    "a bias that qwen3 lacks": (tensor("blk.0.attn_q.bias", (64,)), ModelError, "blk.0.attn_q.bias is unknown"),
    "frequencies in a tensor": (tensor("rope_freqs.weight", (8,)), ModelError, "rope_freqs.weight is unknown"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_in_one_line(tmp_path, what):
    change, kind, words = REFUSED[what]
    with open_gguf(headers.write(tmp_path / "bad.gguf", change=change)) as file:
        with pytest.raises(kind, match=words) as caught:
            read_model(file)
    text = str(caught.value)
    assert "bad.gguf" in text and "\n" not in text and re.search(r"; |: ", text)


@pytest.mark.parametrize("arch", ["qwen2", "qwen3"])
def test_accepted(tmp_path, arch):
    with open_gguf(headers.write(tmp_path / "good.gguf", arch)) as file:
        model = read_model(file)
    c = model.config
    assert (c.arch, c.n_layer, c.n_embd, c.n_ff, c.n_head, c.n_head_kv, c.head_dim, c.n_rot) == (arch, 2, 64, 96, 4, 2, 16, 16)
    assert (c.n_ctx_train, c.n_vocab, c.tied, c.rope_base, c.rope_type) == (512, 320, False, 10000.0, "none")
    assert model.name == "good" and model.shape("output.weight") == (320, 64)


def test_defaults_of_keys_that_files_leave_out(tmp_path):
    def change(keys, infos):
        for name in ("attention.key_length", "attention.value_length", "rope.freq_base"):
            del keys[f"qwen2.{name}"]
        del infos["output.weight"]

    with open_gguf(headers.write(tmp_path / "m.gguf", "qwen2", change)) as file:
        c = read_model(file).config
    assert (c.head_dim, c.rope_base, c.tied) == (16, 10000.0, True)


SCALINGS = {
    "none": {},
    "linear": {"rope.scaling.type": "linear", "rope.scaling.factor": 3.0},
    "linear by its factor alone": {"rope.scaling.factor": 3.0},
    "linear as files of 2023 wrote it": {"rope.scale_linear": 4.0},
    "none in spite of a factor": {"rope.scaling.type": "none", "rope.scaling.factor": 3.0},
    "yarn": {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 128},
    "yarn, its own betas": {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.yarn_beta_fast": 16.0, "rope.scaling.yarn_beta_slow": 2.0},
    "yarn without a ramp": {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.yarn_ext_factor": 0.0},
    "yarn with a factor of attention": {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.attn_factor": 0.7},
    "yarn without a factor": {"rope.scaling.type": "yarn"},
}


@pytest.mark.parametrize("name", SCALINGS)
def test_frequencies_equal_the_reference(tmp_path, name):
    kinds = {str: "string", float: "f32", int: "u32"}
    change = lambda keys, infos: keys.update({f"qwen3.{k}": (kinds[type(v)], v) for k, v in SCALINGS[name].items()})  # noqa: E731
    with open_gguf(headers.write(tmp_path / "m.gguf", change=change)) as file:
        truth, config = read_hyper(file), read_model(file).config
    radians, magnitude = frequencies(config)
    assert np.allclose(radians, truth.frequencies, rtol=1e-14, atol=0) and np.isclose(magnitude, truth.mscale, rtol=1e-14)
    table = rope_table(config, 500)
    angles = np.arange(500)[:, None] * truth.frequencies
    assert table.dtype == np.float32 and table.shape == (500, 8, 2)
    assert np.abs(table - np.stack([np.cos(angles), np.sin(angles)], -1) * truth.mscale).max() < 1.3e-7


def fuzz(path, rng: random.Random, count: int) -> dict[str, int]:
    """Mutated headers through read_model. Anything but an answer or a one-line refusal is raised."""
    whole = headers.write(path).read_bytes()
    length = whole.rindex(b"blk.1.attn_k_norm.weight") + 24 + 24
    outcomes = {"read": 0, "GGUFError": 0, "ModelError": 0}
    for _ in range(count):
        path.write_bytes(mutate(whole[:length], rng) + whole[length:])
        try:
            with open_gguf(path) as file:
                read_model(file)
            outcomes["read"] += 1
        except (GGUFError, ModelError) as error:
            outcomes[type(error).__name__] += 1
            assert "\n" not in str(error)
    return outcomes


def test_mutated_headers(tmp_path, seed):
    assert all(fuzz(tmp_path / "m.gguf", random.Random(seed), 600).values()), "every outcome occurs"


@pytest.mark.full
def test_ten_thousand_mutated_headers(tmp_path):
    assert all(fuzz(tmp_path / "m.gguf", random.Random(5), 10_000).values())


def test_the_generators_models_are_read(tmp_path):
    with open_gguf(make_model(tmp_path / "m.gguf", tied=True, head_dim=24)) as file:
        model = read_model(file)
    assert model.config.tied and model.config.head_dim == 24 and model.name == "random qwen3 0"
