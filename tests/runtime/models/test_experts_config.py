"""What the header of a mixture of experts must say, and what is planned for it."""

from __future__ import annotations

import gguf
import pytest

from runtime.errors import ModelError
from runtime.gguf import open_gguf
from runtime.models import read_model
from runtime.plan import make_plan
from runtime.plan.explain import as_json
from tests.models.build import make_model


def read(path):
    with open_gguf(path) as file:
        return read_model(file)


@pytest.mark.parametrize("arch,ff", [("qwen3moe", 32), ("qwen2moe", 96)])
def test_sizes(tmp_path, arch, ff):
    c = read(make_model(tmp_path / "m.gguf", arch, experts=(6, 2, 40), ff=96)).config
    assert (c.n_expert, c.n_used, c.n_ff_exp, c.n_ff) == (6, 2, 40, ff)


@pytest.mark.parametrize("key,value,text", [
    ("expert_count", 513, "uses 2 of 513 experts; at most 16 of 512"), ("expert_used_count", 17, "uses 17 of 6"), ("expert_used_count", 7, "uses 7 of 6"),
    ("expert_used_count", 0, "expert_used_count is 0"), ("expert_count", 5, r"ffn_gate_inp.weight has shape \(6, 64\), \(5, 64\) is needed"),
    ("expert_feed_forward_length", 48, r"exps.weight has shape \(6, 40, 64\), \(6, 48, 64\) is needed"),
    ("expert_shared_feed_forward_length", 64, r"shexp.weight has shape \(96, 64\), \(64, 64\) is needed"),
])
def test_refused_in_one_line(tmp_path, monkeypatch, key, value, text):
    name = f"add_{key}"
    real = getattr(gguf.GGUFWriter, name)
    monkeypatch.setattr(gguf.GGUFWriter, name, lambda self, _: real(self, value))
    with pytest.raises(ModelError, match=text) as error:
        read(make_model(tmp_path / "m.gguf", "qwen2moe", experts=(6, 2, 40), ff=96))
    assert "\n" not in str(error.value)


def test_a_scale_of_the_experts_is_refused(tmp_path, monkeypatch):
    real = gguf.GGUFWriter.add_expert_count
    monkeypatch.setattr(gguf.GGUFWriter, "add_expert_count", lambda self, n: (real(self, n), self.add_expert_weights_scale(2.5)))
    with pytest.raises(ModelError, match="expert_weights_scale is not served"):
        read(make_model(tmp_path / "m.gguf", "qwen3moe", experts=(6, 2, 40)))


def test_files_of_2024_lack_the_widths(tmp_path, monkeypatch):
    """qwen2moe: feed_forward_length / used, and feed_forward_length."""
    for name in ("add_expert_feed_forward_length", "add_expert_shared_feed_forward_length"):
        monkeypatch.setattr(gguf.GGUFWriter, name, lambda self, _: None)
    c = read(make_model(tmp_path / "m.gguf", "qwen2moe", experts=(6, 2, 48), ff=96)).config
    assert (c.n_ff_exp, c.n_ff) == (48, 96)


@pytest.mark.parametrize("arch,most", [("qwen3moe", 14), ("qwen2moe", 18)])
def test_plan(device, tmp_path, arch, most):
    """Everything on the device; the arms of all planes; a router in floats does not stop --arm int."""
    with open_gguf(make_model(tmp_path / "m.gguf", arch, experts=(6, 2, 64), ff=64, types="Q8_0")) as file:
        plan = make_plan(read_model(file), device.caps, 1 << 30, ctx=64, arm="int")
        j = as_json(plan, device.caps)
    planes = {p["name"]: p for p in j["planes"]}
    assert j["host_ops"] == 0 and j["dispatches_per_layer"]["decode"] <= most
    assert planes["blk.0.ffn_gate_exps.weight"]["arm"] == "int" and planes["blk.0.ffn_gate_exps.weight"]["rows"] == 6 * 64
    assert planes["blk.0.ffn_gate_inp.weight"]["arm"] == "scalar"
    assert plan.weight_bytes == sum(p["bytes"] for p in j["planes"])
