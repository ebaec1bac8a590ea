"""Device choice, on made-up lists of devices."""

from __future__ import annotations

import pytest

from runtime.vk import VulkanError
from runtime.vk.instance import PhysicalDevice
from runtime.vk.select import choose


def fake(index, name, kind, uuid="", unfit=None):
    return PhysicalDevice(index, None, name, kind, uuid, (1, 3, 0), unfit)


DEVICES = [
    fake(0, "llvmpipe (LLVM 19)", "cpu", "aa" * 16),
    fake(1, "Intel Iris", "integrated", "bb" * 16),
    fake(2, "NVIDIA H200", "discrete", "cc" * 16),
    fake(3, "NVIDIA H200", "discrete", "dd" * 16),
    fake(4, "virgl 4090", "virtual", "ee" * 16),
    fake(5, "Old Radeon", "discrete", "ff" * 16, "it offers Vulkan 1.1, 1.3 is needed: update its driver"),
]


@pytest.fixture(autouse=True)
def no_choice_in_the_environment(monkeypatch):
    monkeypatch.delenv("RUNTIME_DEVICE", raising=False)


def test_the_best_type_wins_and_the_loaders_order_within_it():
    assert choose(DEVICES).index == 2
    assert choose(DEVICES[:2]).index == 1
    assert choose([DEVICES[0], DEVICES[4]]).index == 4
    assert choose(DEVICES[:1]).index == 0


@pytest.mark.parametrize("select, index", [
    (0, 0), ("3", 3), ("iris", 1), ("h200", 2), ("4090", 4), ("dd" * 16, 3),
    ("dddddddd-dddd-dddd-dddd-DDDDDDDDDDDD", 3), (" LLVMPIPE ", 0),
])
def test_index_name_and_uuid(select, index):
    assert choose(DEVICES, select).index == index


def test_the_environment_chooses_when_the_caller_does_not(monkeypatch):
    monkeypatch.setenv("RUNTIME_DEVICE", "llvmpipe")
    assert choose(DEVICES).index == 0
    assert choose(DEVICES, "iris").index == 1


@pytest.mark.parametrize("select, words", [
    ("geforce", "no Vulkan device matches 'geforce'"), (17, "no Vulkan device matches 17"),
    ("radeon", "Vulkan 1.1"), (5, "Vulkan 1.1"), (-1, "matches -1"),
])
def test_what_cannot_be_had_is_said_in_one_line(select, words):
    with pytest.raises(VulkanError, match=words) as caught:
        choose(DEVICES, select)
    assert "\n" not in str(caught.value)


def test_only_unfit_devices():
    with pytest.raises(VulkanError, match="no usable Vulkan device: Old Radeon: it offers"):
        choose(DEVICES[5:])


def test_the_real_device_is_found_by_all_its_names(device):
    from runtime.vk import list_devices

    here = device.core.physical
    for select in (here.index, str(here.index), here.uuid, here.name[:8]):
        assert choose(list_devices(), select).uuid == here.uuid
