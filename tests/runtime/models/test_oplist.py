"""The operations of every architecture, run one by one in float64, come to the logits of the hand-written forward."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from runtime.gguf import open_gguf
from runtime.models import read_model
from runtime.models.graph import KINDS, Op
from tests.models.build import ROLES, make_model
from tests.reference.forward import forward
from tests.reference.variants import TOKENS, VARIANTS
from tests.runtime.models.oplist import Interpreter

MIXED = dict(zip(ROLES, ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_0", "Q4_K", "Q5_K", "Q6_K")))
MORE = {
    "qwen3moe": {"arch": "qwen3moe", "experts": (8, 3, 40)},
    "qwen2moe": {"arch": "qwen2moe", "experts": (6, 2, 40), "ff": 96},
    "qwen3-every-type": {"arch": "qwen3", "d": 256, "ff": 256, "heads": 4, "head_dim": 64, "types": MIXED},
    "qwen2-every-type": {"arch": "qwen2", "d": 256, "ff": 256, "types": MIXED},
    "qwen3-yarn-without-extrapolation": {"arch": "qwen3", "rope_scaling": {"type": "yarn", "factor": 8.0, "original_context": 32, "ext_factor": 0.0}},
    "qwen3-yarn-betas": {"arch": "qwen3", "rope_scaling": {"type": "yarn", "factor": 8.0, "original_context": 64, "beta_fast": 8.0, "beta_slow": 2.0}},
}


def compare(path, ops=None) -> float:
    """Largest difference of interpreter and forward, in units of the logits' rms."""
    with open_gguf(path) as file:
        model = read_model(file)
        if ops is not None:
            model = dataclasses.replace(model, ops=tuple(ops(model.ops)))
        ours, truth = Interpreter(model).logits(TOKENS[:40]), forward(file, TOKENS[:40])
    return float(np.abs(ours - truth).max() / np.sqrt((truth**2).mean()))


@pytest.mark.parametrize("name", [*VARIANTS, *MORE])
def test_the_operations_equal_the_float64_forward(tmp_path, name):
    assert compare(make_model(tmp_path / "m.gguf", seed=21, **(VARIANTS | MORE)[name])) < 1e-12


FAULTS = {
    "a norm left out": lambda op: dataclasses.replace(op, weight="output_norm.weight") if op.kind == "rms_norm" else op,
    "k and v exchanged": lambda op: dataclasses.replace(op, ins=op.ins[::-1]) if op.kind == "kv_store" else op,
    "gate and up exchanged": lambda op: dataclasses.replace(op, ins=op.ins[::-1]) if op.kind == "swiglu" else op,
    "one layer's cache for all": lambda op: dataclasses.replace(op, layer=0) if op.kind == "attention" else op,
    "another layer's weights": lambda op: dataclasses.replace(op, weight=op.weight.replace("blk.1", "blk.0")) if op.kind == "linear" else op,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_operation_is_noticed(tmp_path, fault):
    assert compare(make_model(tmp_path / "m.gguf", seed=21), lambda ops: map(FAULTS[fault], ops)) > 1e-2


@pytest.mark.parametrize("arch", ["qwen2", "qwen3"])
def test_operations_name_existing_tensors_and_values(tmp_path, arch):
    with open_gguf(make_model(tmp_path / "m.gguf", arch, n_layer=3)) as file:
        model = read_model(file)
    known, used = set(), set()
    for op in model.ops:
        assert set(op.ins) <= known, f"{op} reads what nothing has made"
        known.add(op.out)
        used |= {op.weight, op.bias} - {""}
        assert op.kind in KINDS and -1 <= op.layer < 3
    assert used == set(file.tensors), "every tensor is used, none is invented"
    assert model.ops[-1].out == "logits"


def test_an_unknown_operation_is_refused():
    with pytest.raises(ValueError, match="softplus"):
        Op("softplus", "x", ("x",))
