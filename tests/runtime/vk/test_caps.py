"""The capability record, against what other tools and drivers say."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROBE = """
from runtime.vk import Device
with Device() as dev:
    c = dev.caps
    print(c.subgroup_size, c.has("cooperativeMatrix"), len(c.coop_matrices),
          "VK_KHR_cooperative_matrix" in c.extensions, c.api_version[0], c.is_cpu)
"""


def test_the_record(device):
    caps = device.caps
    assert caps.name and caps.driver and re.fullmatch("[0-9a-f]{32}", caps.uuid)
    assert caps.type in ("discrete", "integrated", "virtual", "cpu", "other") and caps.is_cpu == (caps.type == "cpu")
    assert caps.api_version >= (1, 3) and caps.spirv_version == (1, 6)
    assert caps.min_subgroup_size <= caps.subgroup_size <= caps.max_subgroup_size
    # Minima that the Vulkan specification promises ("Required Limits").
    assert caps.max_storage_buffer_range >= 1 << 27 and caps.max_push_bytes >= 128
    assert caps.max_workgroup_bytes >= 16384 and caps.max_workgroup_invocations >= 128
    assert len(caps.max_workgroup_count) == 3 and min(caps.max_workgroup_count) >= 65535
    assert caps.min_storage_buffer_offset_alignment <= 256 and caps.max_memory_allocation_size >= 1 << 30
    assert {"subgroup.basic", "timelineSemaphore", "hostQueryReset", "vulkanMemoryModel"} <= caps.features
    assert caps.subgroup_ops == {f.removeprefix("subgroup.") for f in caps.features if f.startswith("subgroup.")}
    assert all(s.scope in ("subgroup", "workgroup") and s.m and s.n and s.k for s in caps.coop_matrices)
    assert bool(caps.coop_matrices) == caps.has("cooperativeMatrix")
    hash(caps)
    with pytest.raises(dataclasses.FrozenInstanceError):
        caps.name = "other"


def test_every_feature_the_compiler_can_ask_for_is_known(device):
    """A name that the runtime does not query would be refused on every device."""
    from runtime.vk.features import known_names
    from spirvdsl.spirv.features import FEATURE_OF, MODE_FEATURE

    asked = {name for name in FEATURE_OF.values() if name}
    asked |= {f"float_controls.{mode}_f{bits}" for mode in MODE_FEATURE.values() for bits in (16, 32, 64)}
    assert asked <= known_names() and device.caps.features <= known_names()


def test_against_vulkaninfo(device):
    tool = shutil.which("vulkaninfo")
    if tool is None:
        pytest.skip("no vulkaninfo")
    text = subprocess.run([tool], capture_output=True, text=True, timeout=60).stdout
    own = text[text.index(device.caps.name):]
    caps = device.caps

    def said(name):
        return re.search(rf"\b{name}\s*=\s*(\S+)", own)[1]

    assert int(said("maxStorageBufferRange")) == caps.max_storage_buffer_range
    assert int(said("maxComputeSharedMemorySize")) == caps.max_workgroup_bytes
    assert int(said("maxPushConstantsSize")) == caps.max_push_bytes
    assert int(said("subgroupSize")) == caps.subgroup_size
    assert said("integerDotProduct4x8BitPackedSignedAccelerated") == str(caps.int_dot_accelerated).lower()
    for feature in ("shaderFloat16", "shaderInt8", "storageBuffer8BitAccess", "storageBuffer16BitAccess", "shaderInt64",
                    "shaderIntegerDotProduct", "vulkanMemoryModelDeviceScope", "bufferDeviceAddress"):
        assert said(feature) == str(caps.has(feature)).lower(), feature
    assert said("shaderDenormPreserveFloat16") == str(caps.has("float_controls.denorm_preserve_f16")).lower()
    assert said("shaderRoundingModeRTEFloat16") == str(caps.has("float_controls.rte_f16")).lower()


def probe(**environment):
    done = subprocess.run([sys.executable, "-c", PROBE], cwd=ROOT, env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("bits, lanes", [(128, 4), (256, 8), (512, 16)])
def test_lavapipe_of_other_widths(device, bits, lanes):
    """At 4 lanes the extension is listed without the feature: it must not be enabled."""
    if not device.caps.name.startswith("llvmpipe"):
        pytest.skip("a setting of lavapipe")
    size, has, shapes, listed, _, _ = probe(LP_NATIVE_VECTOR_WIDTH=str(bits))
    assert int(size) == lanes
    if device.caps.has("cooperativeMatrix"):
        assert listed == "True" and (has == "True") == (lanes > 4) and (int(shapes) > 0) == (lanes > 4)


def test_an_older_driver_without_the_extensions(device):
    old = Path("/usr/share/vulkan/icd.d/lvp_icd.json")
    if not old.exists() or os.environ.get("VK_DRIVER_FILES") == str(old):
        pytest.skip("no second lavapipe on this machine")
    _, has, shapes, listed, major, cpu = probe(VK_DRIVER_FILES=str(old), VK_ICD_FILENAMES=str(old))
    assert (major, cpu) == ("1", "True") and (has == "True") == (int(shapes) > 0)
    assert listed == "True" or has == "False"


def test_no_driver_is_one_line(tmp_path):
    done = subprocess.run([sys.executable, "-c", PROBE], cwd=ROOT, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "VK_DRIVER_FILES": str(tmp_path / "none.json"),
                               "VK_ICD_FILENAMES": str(tmp_path / "none.json")})
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("runtime.vk.errors.VulkanError: no Vulkan device found") and "install" in last


def test_importing_runtime_loads_no_vulkan():
    code = "import sys, runtime; print('vulkan' in sys.modules, 'numpy' in sys.modules); from runtime import Device; " \
           "print(Device.__module__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["False", "False", "runtime.vk.device"]
