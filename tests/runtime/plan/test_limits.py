"""What a small binding or a small device does to a plan, and that planning itself takes no memory of the device."""

from __future__ import annotations

import json

import pytest

from runtime.engine.executor import Executor
from runtime.errors import PlanError
from runtime.gguf import open_gguf
from runtime.models import read_model
from runtime.plan import make_plan
from runtime.plan.__main__ import main
from runtime.vk import Device
from runtime.vk.memory import Memory
from tests.models.build import make_model

MIB = 1 << 20


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Rows of 8,192 floats: 32 KiB each in the widest activations."""
    return make_model(tmp_path_factory.mktemp("limits") / "m.gguf", d=32, ff=8192, n_layer=1, heads=2, kv_heads=1, head_dim=16, ctx=32768)


def planned(path, caps, budget: int = 1 << 30, **options):
    with open_gguf(path) as file:
        return make_plan(read_model(file), caps, budget, **options)


def test_windows_shrink_to_what_one_binding_may_have(path, device):
    plan = planned(path, device.caps, window=512, max_alloc_mib=1)
    assert plan.window == 32 and "windows shrunk from 512 to 32" in " ".join(plan.notes)
    assert max(plan.scratch.values()) <= MIB and plan.chunk <= MIB and plan.kv_layer_bytes <= MIB
    assert planned(path, device.caps, window=512).window == 512


def test_a_context_over_the_binding_is_declined_with_that_reason(path, device):
    with pytest.raises(PlanError, match=r"context of 32768 needs a buffer of \d+ MiB, 1 MiB are allowed; --ctx \d+ would fit"):
        planned(path, device.caps, ctx=32768, max_alloc_mib=1)


def test_memory_for_loading_is_part_of_the_plan(path, device):
    """GGUF data passes through two buffers before the scratch is made: the larger of the two must fit."""
    plan = planned(path, device.caps, ctx=64, window=1)
    assert plan.load_bytes > sum(plan.scratch.values())
    need = plan.total - sum(plan.scratch.values()) + plan.load_bytes
    with pytest.raises(PlanError, match="no context fits"):
        planned(path, device.caps, need, ctx=64, window=1)  # the headroom is missing
    assert planned(path, device.caps, int(need * 1.05), ctx=64, window=1).total == plan.total


@pytest.mark.parametrize("arch", ["qwen2", "qwen3"])
def test_every_buffer_is_planned_and_none_is_over_the_limit(tmp_path, device, monkeypatch, arch):
    """Sizes asked of the device while a model loads, those of loading too. qwen2 has biases, which a fused plane set holds twice."""
    sizes: list[int] = []
    with Device() as own, open_gguf(make_model(tmp_path / "m.gguf", arch, d=40, heads=2, kv_heads=1, ff=72)) as file:
        plan = make_plan(read_model(file), own.caps, 1 << 30, ctx=200, max_alloc_mib=1)
        real = own.buffer
        monkeypatch.setattr(own, "buffer", lambda nbytes, host=False: sizes.append(nbytes) or real(nbytes, host))
        Executor(own, plan).wait()
    assert sum(sizes) == plan.total + plan.load_bytes and max(sizes) <= MIB


def test_the_plan_command_allocates_nothing(path, monkeypatch, capsys):
    def refuse(*_):
        raise AssertionError("the plan command asked for device memory")

    monkeypatch.setattr(Memory, "allocate", refuse)
    assert main([str(path), "--json", "--ctx", "128"]) == 0
    assert json.loads(capsys.readouterr().out)["n_ctx"] == 128
