"""Residency plans: to the byte, shrunk or declined with numbers, sharded, with the arm that was asked for; few dispatches."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

from kernels.formats import FORMATS
from runtime.errors import PlanError
from runtime.gguf import open_gguf
from runtime.models import read_model
from runtime.plan import make_plan
from runtime.plan.explain import as_json, as_text
from runtime.plan.lower import Lowering
from tests.models.blocks import TYPES
from tests.models.build import make_model
from tests.runtime.engine.rig import distance, feed, loaded

MIB = 1 << 20


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    wide = {"d": 256, "ff": 512, "types": "Q8_0", "ctx": 4096}
    return {"qwen2": make_model(folder / "2.gguf", "qwen2", **wide), "qwen3": make_model(folder / "3.gguf", "qwen3", **wide),
            "tall": make_model(folder / "tall.gguf", "qwen3", vocab=5003, tied=True, n_layer=1, d=256, ff=256, head_dim=32, types="Q8_0"),
            "floats": make_model(folder / "f.gguf", "qwen3", types={"default": "F32", "ffn_up": "F16"})}


def planned(path, caps, budget=1 << 30, **options):
    with open_gguf(path) as file:
        return make_plan(read_model(file), caps, budget, **options)


@pytest.fixture
def accelerated(device):
    """A GPU's capabilities: integer dots, subgroups of 32, a context that is read in parts."""
    return dataclasses.replace(device.caps, name="a GPU", type="discrete", int_dot_accelerated=True, subgroup_size=32, max_workgroup_bytes=49152,
                               features=device.caps.features | {"shaderIntegerDotProduct"})


@pytest.mark.parametrize("arch", ["qwen2", "qwen3"])
@pytest.mark.parametrize("kind", ["here", "gpu"])
def test_no_more_than_12_dispatches_a_layer(paths, device, accelerated, arch, kind):
    caps = device.caps if kind == "here" else accelerated
    for arm in ("scalar", "int"):
        plan = planned(paths[arch], caps, arm=arm)
        assert (plan.splits > 1) == (kind == "gpu")
        j = as_json(plan, caps)
        assert 1 <= max(j["dispatches_per_layer"].values()) <= 12, j["dispatches_per_layer"]
        for tokens, decode in ((1, True), (4, True), (plan.window, False), (1, False)):
            step = Lowering(plan, caps, tokens, decode).run()
            in_layers = [d for d in step if d.label not in ("embed", "head")]
            assert len(in_layers) - 1 <= 12 * plan.model.config.n_layer  # one norm belongs to the head
            assert all(0 < n <= m for d in step for n, m in zip(d.groups, (65535, 65535, 65535)))


def test_json_says_everything(paths, device):
    plan = planned(paths["qwen3"], device.caps, ctx=1000)
    j = json.loads(json.dumps(as_json(plan, device.caps)))
    assert {"model", "architecture", "device", "n_ctx", "kv", "pages", "window", "splits", "host_ops", "bytes", "dispatches", "dispatches_per_layer",
            "kernels", "planes", "not_on_first_arm", "notes"} <= set(j)
    assert (j["host_ops"], j["n_ctx"], j["pages"], j["kv"]) == (0, 1000, 16, "f16")
    sizes = j["bytes"]
    assert sizes["total"] == sum(sizes[k] for k in ("weights", "kv", "rope", "vectors", "scratch")) <= sizes["budget"]
    assert sizes["weights"] == sum(p["bytes"] for p in j["planes"])
    assert sorted(t for p in j["planes"] for t in p["tensors"]) == sorted(n for n, t in plan.model.file.tensors.items() if len(t.shape) == 2)
    assert all(p["reason"] and p["arm"] in ("int", "scalar") for p in j["planes"])
    text = as_text(plan, device.caps)
    assert "context 1000" in text and "host operations: 0" in text and "token_embd.weight" in text


def test_the_arm_the_device_serves_by_default_and_why(paths, device, accelerated):
    """lavapipe has no fast integer dot, so floats serve; where the device has one, it serves every integer type."""
    for caps, arm in ((device.caps, "int" if device.caps.int_dot_accelerated else "scalar"), (accelerated, "int")):
        plane = planned(paths["qwen3"], caps).plane("blk.0.ffn_up.weight")
        assert plane.arm == arm and plane.reason
        assert arm == "int" or "not accelerated" in plane.reason
    assert {p.arm for p in planned(paths["floats"], accelerated).planes} == {"scalar"}


def test_an_open_context_shrinks_to_what_fits_and_a_given_one_is_declined(paths, device):
    whole = planned(paths["qwen3"], device.caps)
    assert whole.n_ctx == 4096 and not whole.notes
    tight = int(whole.total * 0.8)
    small = planned(paths["qwen3"], device.caps, tight)
    assert 64 <= small.n_ctx < 4096 and small.n_ctx % 64 == 0 and small.total <= tight
    assert f"shrunk from 4096 to {small.n_ctx}" in " ".join(small.notes)
    with pytest.raises(PlanError, match=r"context of 4096 needs \d+ MiB, .* has \d+ MiB free; --ctx \d+ would fit") as caught:
        planned(paths["qwen3"], device.caps, tight, ctx=4096)
    fits = int(re.search(r"--ctx (\d+)", str(caught.value))[1])
    assert planned(paths["qwen3"], device.caps, tight, ctx=fits).n_ctx == fits == small.n_ctx
    with pytest.raises(PlanError):
        planned(paths["qwen3"], device.caps, tight, ctx=fits + 1)
    with pytest.raises(PlanError, match="no context fits; use a smaller model"):
        planned(paths["qwen3"], device.caps, 1 * MIB)


def test_the_cache_type_counts(paths, device):
    half, whole = (planned(paths["qwen2"], device.caps, kv=kv, ctx=640) for kv in ("f16", "f32"))
    assert 2 * half.kv_bytes == whole.kv_bytes > 0 and half.weight_bytes == whole.weight_bytes


BAD = {
    "context too long": ({"ctx": 4097}, r"context 4097 is not between 1 and the 4096 tokens"),
    "a cache type that is not served": ({"kv": "q8_0"}, "--kv q8_0 is not served yet"),
    **{f"arm {arm}": ({"arm": arm}, f"arm {arm} cannot run tensor .*: this build has no {arm} arm") for arm in ("frag", "cm2", "khr")},
    "an unknown arm": ({"arm": "fast"}, "arm 'fast' is unknown; arms are"),
}


@pytest.mark.parametrize("what", BAD)
def test_declined_in_one_line(paths, device, what):
    options, words = BAD[what]
    with pytest.raises(PlanError, match=words) as caught:
        planned(paths["qwen3"], device.caps, **options)
    assert "\n" not in str(caught.value)


def test_the_int_arm_refuses_floats_and_devices_without_dots(paths, device, accelerated):
    with pytest.raises(PlanError, match="arm int cannot run tensor .*F32 weights are floats"):
        planned(paths["floats"], accelerated, arm="int")
    without = dataclasses.replace(accelerated, features=accelerated.features - {"shaderIntegerDotProduct"})
    with pytest.raises(PlanError, match="no shaderIntegerDotProduct"):
        planned(paths["qwen3"], without, arm="int")
    assert {p.arm for p in planned(paths["qwen3"], without).planes} == {"scalar"}


def test_the_environment_forces_an_arm_and_the_option_wins(paths, device, monkeypatch):
    monkeypatch.setenv("RUNTIME_ARM", "int")
    assert {(p.arm, p.reason) for p in planned(paths["qwen3"], device.caps).planes} == {("int", "forced")}
    assert {p.arm for p in planned(paths["qwen3"], device.caps, arm="scalar").planes} == {"scalar"}
    monkeypatch.setenv("RUNTIME_ARM", "cm2")
    with pytest.raises(PlanError, match="no cm2 arm"):
        planned(paths["qwen3"], device.caps)


@pytest.mark.parametrize("kind", TYPES)
def test_each_weight_type_has_an_arm_and_its_own_bytes(tmp_path, accelerated, kind):
    """Integer types take the integer arm where it is fast. A plane holds the type's own bits, give or take its scales' layout."""
    plan = planned(make_model(tmp_path / "m.gguf", d=256, ff=256, types=kind), accelerated)
    assert {p.arm for p in plan.planes} == {"int" if FORMATS[kind].INTEGER else "scalar"}
    in_file = sum(t.nbytes for t in plan.model.file.tensors.values() if len(t.shape) == 2)
    assert 0.99 * in_file <= plan.weight_bytes <= 1.15 * in_file


def test_row_shards_give_the_same_bits(paths, device):
    """The embedding of 1.3 MB is over a binding of 1 MiB: two shards, in the embedding and in the tied head."""
    tokens = [int(t) for t in np.random.default_rng(4).integers(0, 5003, 40)] + [0, 5002]
    logits, shards = [], []
    for limit in (None, 1):
        with loaded(device, paths["tall"], window=16, max_alloc_mib=limit) as executor:
            shards.append(executor.plan.plane("token_embd.weight").shards)
            logits.append(feed(executor, tokens, 16, 30))
    assert len(shards[0]) == 1 and len(shards[1]) > 1 and sum(n for _, n in shards[1]) == 5003
    assert "row shards" in planned(paths["tall"], device.caps, max_alloc_mib=1).plane("token_embd.weight").reason
    assert logits[0].std() > 0.1 and distance(*logits) == 0.0 and np.array_equal(*logits)


def test_a_binding_too_small_for_one_row_of_shards_is_declined(tmp_path, device):
    path = make_model(tmp_path / "m.gguf", "qwen3", d=8192, ff=32, n_layer=1, heads=2, kv_heads=1, head_dim=32, types="F32")
    with pytest.raises(PlanError, match="64 rows of 8192 take more than the 1 MiB one binding may have"):
        planned(path, device.caps, max_alloc_mib=1)
