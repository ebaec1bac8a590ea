"""The binding: the generated table is complete and right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runtime.vk import VulkanError
from runtime.vk import _supplement as K
from runtime.vk.binding import chain, check, ffi, new

SOURCES = Path(__file__).resolve().parents[3] / "runtime" / "vk"


def names(pattern):
    return {n for p in SOURCES.glob("*.py") if p.name != "_supplement.py" for n in re.findall(pattern, p.read_text())}


def test_every_constant_and_struct_in_use_is_in_the_table():
    """Else: run scripts/gen_vk_supplement.py again."""
    assert not [n for n in names(r"\bK\.(VK_\w+)") if not hasattr(K, n)]
    made = names(r"new\(\s*\"(Vk\w+)\"") | names(r"FeatureStruct\(\"(Vk\w+)\"")
    assert made and not [n for n in made if n not in K.STRUCTURE_TYPES and "sType" in
                         [f for f, _ in (K.ffi if n in K.STRUCTS else ffi).typeof(n).fields]]


def test_constants_agree_with_the_vulkan_package():
    """Two independent sources: vk.xml of the generator, and the C header behind the package."""
    import vulkan

    common = [n for n in dir(K) if n.startswith("VK_") and hasattr(vulkan, n) and n != "VK_WHOLE_SIZE"]
    assert len(common) > 60
    assert not {n: (getattr(K, n), getattr(vulkan, n)) for n in common if getattr(K, n) != getattr(vulkan, n)}
    assert K.VK_WHOLE_SIZE == 2**64 - 1


def test_structs_of_both_definitions_link():
    head, tail = new("VkPhysicalDeviceFeatures2"), new("VkPhysicalDeviceVulkan14Features", shaderSubgroupRotate=1)
    assert chain([head, tail]) == ffi.cast("void *", head)
    seen = K.ffi.cast("VkPhysicalDeviceVulkan14Features *", head.pNext)
    assert seen.shaderSubgroupRotate == 1 and seen.sType == K.STRUCTURE_TYPES["VkPhysicalDeviceVulkan14Features"]
    assert chain([]) == ffi.NULL


def test_results_are_named():
    check(K.VK_SUCCESS, "nothing")
    check(K.VK_TIMEOUT, "nothing")
    with pytest.raises(VulkanError, match="vkFoo failed: VK_ERROR_EXTENSION_NOT_PRESENT"):
        check(-7, "vkFoo")
    with pytest.raises(VulkanError, match="out of memory .VK_ERROR_OUT_OF_DEVICE_MEMORY. in vkFoo"):
        check(K.VK_ERROR_OUT_OF_DEVICE_MEMORY, "vkFoo")
    with pytest.raises(VulkanError, match="vkFoo failed: VkResult -12345"):
        check(-12345, "vkFoo")


def test_only_this_package_touches_the_vulkan_package():
    root = SOURCES.parents[1]
    users = [p.relative_to(root).as_posix() for folder in ("runtime", "kernels", "spirvdsl")
             for p in (root / folder).rglob("*.py") if re.search(r"^\s*(from|import) vulkan\b", p.read_text(), re.M)]
    assert users == ["runtime/vk/binding.py"]
