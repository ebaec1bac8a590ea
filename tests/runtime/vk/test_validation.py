"""Core and synchronization validation: silent on all we do, red when a barrier is taken away.

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

ROOT = Path(__file__).resolve().parents[3]

# Dispatch chains with reads after writes and writes after reads, fills, copies, indirect arguments, uniform buffers,
# transfers, several submits, profiles, launches, resets. Prints the messages, and how many barriers were derived.
SCENARIO = """
import json, sys
import numpy as np
from runtime.vk import Device
from runtime.vk.launch import launch
from tests.runtime.vk import kernels as k
dev = Device(force_staging=sys.argv[1] == "staged", staging_bytes=4096)
N, G = 256, (4, 1, 1)
a, b, c = (dev.array(np.arange(N, dtype=np.float32)) for _ in range(3))
u, v, args = dev.array(np.zeros(N, np.uint32)), dev.empty(N, np.uint32), dev.buffer(64)
sax, inc, mul, uni = (dev.pipeline(f()) for f in (k.saxpy, k.increment, k.scale, k.uniform_add))
first = dev.counters.barriers
with dev.commands(profile=bool(dev.caps.timestamp_valid_bits)) as cmd:
    cmd.dispatch(sax, [a, b, c], {"a": 2.0, "n": N}, G)
    cmd.dispatch(sax, [c, b, a], {"a": 2.0, "n": N}, G)      # barrier: c is read, a is overwritten
    cmd.dispatch(mul, [u, v], None, G)
    cmd.copy(v, u)                                           # barrier: v is read, u is overwritten
    cmd.dispatch(inc, [u], {"n": N}, G)                      # barrier: u is read
    cmd.fill(args, 1)
    cmd.dispatch_indirect(inc, [u.range(0, 256)], {"n": 64}, args)   # barrier: u and the arguments are read
    cmd.dispatch(uni, [v, args.range(0, 16)], None, G)
    cmd.fill(v, 7)                                           # barrier
    cmd.copy(v.range(0, 64), u.range(512, 64))               # barrier: v is read
derived = dev.counters.barriers - first
for _ in range(3):
    value = dev.submit(cmd)
dev.wait(value)
host = dev.buffer(1024, host=True)
with dev.commands() as second:
    second.copy(u, host)
dev.submit(cmd)
dev.wait(dev.submit(second))
out = np.zeros(N, np.float32)
for _ in range(3):
    launch(k.FakeKernel(k.saxpy()), 4, (a, b, out, 1.0, N), {})
second.reset()
second.fill(host, 0)
second.end()
dev.wait(dev.submit(second))
dev.close()
print(json.dumps([derived, [[m.severity, m.name, m.text[:300]] for m in dev.validation_messages]]))
"""


def scenario(mode="mapped", script=SCENARIO, **environment):
    try:
        layer_version()
    except VulkanError:
        pytest.skip("the validation layer is not installed")
    done = subprocess.run([sys.executable, "-c", script, mode], cwd=ROOT, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "RUNTIME_VALIDATE": "1", "RUNTIME_PARANOID": "0", **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mode", ["mapped", "staged"])
def test_no_message_on_all_we_do(mode):
    derived, messages = scenario(mode)
    assert derived == 6 and messages == []


@pytest.mark.parametrize("dropped", range(1, 7))
def test_one_barrier_less_is_noticed(dropped):
    _, messages = scenario(RUNTIME_NO_BARRIER=str(dropped))
    assert any(severity == "error" and name.startswith("SYNC-HAZARD") for severity, name, _ in messages)


LEAK = """
import json
from runtime.vk import Device
from runtime.vk.binding import ffi, lib, new
dev = Device()
out = ffi.new("VkSemaphore *")
lib.vkCreateSemaphore(dev.core.handle, new("VkSemaphoreCreateInfo"), ffi.NULL, out)
dev.close()
print(json.dumps([[m.severity, m.name, m.text[:300]] for m in dev.validation_messages]))
"""


def test_a_leaked_object_is_noticed():
    """Shows that the silence of the other tests includes everything that close() destroys."""
    messages = scenario(script=LEAK)
    assert len(messages) == 1 and "vkDestroyDevice" in messages[0][2]


def test_without_the_variable_nothing_is_loaded(device):
    if os.environ.get("RUNTIME_VALIDATE", "0") in ("", "0"):
        assert device.validation_messages == []
