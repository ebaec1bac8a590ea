"""A model under core and synchronization validation: silent, and red when one derived barrier is left out.

In processes of their own, because the layer is chosen when the instance is made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.vk import VulkanError
from runtime.vk.validation import layer_version
from tests.runtime.engine.rig import small_model

ROOT = Path(__file__).resolve().parents[3]

# Loads, decodes, prefills in windows, samples, reads logits. argv: model, into how many parts decode divides the context.
# Prints how many barriers were derived before the decode step was recorded, how many for it, and the messages.
SCRIPT = """
import json, sys
from runtime.engine.executor import Form
from runtime.vk import Device
from tests.runtime.engine.rig import loaded
path, splits = sys.argv[1], int(sys.argv[2])
dev = Device()
with loaded(dev, path, window=16, splits=splits if splits > 1 else None) as ex:
    ex.set_table(0, ex.pages.take(2))
    ex.set_state(0, temperature=1.0, seed=3)
    before = dev.counters.barriers
    ex.step(Form(1, True, "last", "greedy"))
    derived = dev.counters.barriers - before
    for pick in ("greedy", "greedy", "sample"):
        ex.wait(ex.decode(1, pick))
    ex.prefill(list(range(40)), 0, 0, 0, pick="sample")
    ex.decode(1, "sample")
    ex.logits()
    ex.prefill(list(range(16)), 0, 0, 0, head="all")
    assert ex.logits(16).shape == (16, 320)
dev.close()
print(json.dumps([before, derived, [[m.severity, m.name, m.text[:300]] for m in dev.validation_messages]]))
"""


def validated(path, splits: int = 1, **environment) -> tuple[int, int, list]:
    try:
        layer_version()
    except VulkanError:
        pytest.skip("the validation layer is not installed")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path), str(splits)], cwd=ROOT, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "RUNTIME_VALIDATE": "1", "RUNTIME_PARANOID": "0", **environment})
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("validated"))


@pytest.fixture(scope="module")
def barriers(device, path) -> range:
    """The numbers of the decode step's barriers; the run that finds them must be silent."""
    before, derived, messages = validated(path)
    assert messages == []
    assert derived >= 6, "a layer alone has more conflicts than that"
    return range(before + 1, before + derived + 1)


def test_no_message_with_a_whole_context(barriers):
    assert len(barriers) > 0


@pytest.mark.parametrize("which", [0, -1])
def test_one_barrier_less_is_noticed(barriers, path, which):
    assert hazards(path, barriers[which])


def hazards(path, dropped: int) -> bool:
    _, _, messages = validated(path, RUNTIME_NO_BARRIER=str(dropped))
    return any(severity == "error" and name.startswith("SYNC-HAZARD") for severity, name, _ in messages)


@pytest.mark.full
def test_every_barrier_of_a_step_is_needed(barriers, path):
    assert [n for n in barriers if not hazards(path, n)] == []


@pytest.mark.full
@pytest.mark.parametrize("spec", [{"splits": 3}, {"arch": "qwen2", "head_dim": None, "tied": False, "types": "Q4_K"}, {"arm": "int"}])
def test_no_message_in_other_forms(tmp_path, spec):
    """A context in parts, biases and another format, the integer arm."""
    spec = dict(spec)
    splits, arm = spec.pop("splits", 1), spec.pop("arm", "")
    _, _, messages = validated(small_model(tmp_path, **spec), splits, RUNTIME_ARM=arm)
    assert messages == []
