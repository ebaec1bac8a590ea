"""What every test may use: the Vulkan device, a seed, and a guard against threads and processes left behind.

Marks are declared in pyproject.toml: `full` (slow), `gpu` (hardware only), `peer` (needs a peer engine).
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAVAPIPE = Path("/opt/lavapipe/lvp_icd.json")
GRACE_S = 2.0  # how long a thread or process that is on its way out may take
_devices: list = []  # the session's device, once a test has asked for it
PASSING_THREADS = ("execnet", "TMonitor")  # pytest-xdist's channel, tqdm's monitor: they live as long as the process
PASSING_PROCESSES = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")

# Before anything loads the Vulkan loader. `make test` sets these itself; this is for pytest run by hand.
os.environ.setdefault("XDG_RUNTIME_DIR", "/tmp")
os.environ.setdefault("MESA_SHADER_CACHE_DIR", str(ROOT / ".cache" / "mesa"))
os.environ.setdefault("SPIRVDSL_CACHE_DIR", str(ROOT / ".cache" / "spirvdsl"))  # not the user's own
if LAVAPIPE.exists() and "VK_ICD_FILENAMES" not in os.environ:
    os.environ.setdefault("VK_DRIVER_FILES", str(LAVAPIPE))


def load_script(path: str):
    """A module from a script of the repository that is in no package, such as scripts/setup/probe.py."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def device():
    """The default runtime.vk.Device, one for the session.

    Skipped where the machine has no Vulkan device at all; `make test` has installed one, so there it is a failure.
    A device that is there but cannot be opened is always a failure.
    """
    probe = load_script("scripts/setup/probe.py")
    try:
        reason = None if probe.devices() else "the Vulkan loader finds no driver"
    except probe.ProbeError as error:
        reason = str(error)
    if reason is not None:
        remedy = "run `make setup`, or install a Vulkan driver"
        if os.environ.get("TESTS_NEED_DEVICE"):
            pytest.fail(f"no Vulkan device: {reason}; {remedy}")
        pytest.skip(f"no Vulkan device: {reason}; {remedy}")
    from runtime.vk import Device

    with Device() as opened:
        _devices.append(opened)
        yield opened
        _devices.remove(opened)


@pytest.fixture(autouse=True)
def no_validation_message():
    """With RUNTIME_VALIDATE=1 (`make test-full` runs the kernel tests so) a test during which the layer speaks fails."""
    before = [len(d.validation_messages) for d in _devices]
    yield
    for opened, count in zip(_devices, before or [0] * len(_devices), strict=True):
        said = [f"{m.name}: {m.text}" for m in opened.validation_messages[count:]]
        assert not said, said


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """An int for random generators: the same for a test in every run and process, different between tests."""
    return zlib.crc32(request.node.nodeid.encode())


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Fails a test that leaves a thread or a child process running. Those of wider fixtures are older, and may stay."""
    threads, children = set(threading.enumerate()), _children()
    yield
    deadline = time.monotonic() + GRACE_S
    while (left := _left(threads, children)) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        pytest.fail("left running: " + ", ".join(left))


def _left(threads: set[threading.Thread], children: set[int]) -> list[str]:
    names = [f"{thread.name} ({type(thread).__name__})" for thread in threading.enumerate() if thread not in threads]
    left = [f"thread {name}" for name in names if not any(word in name for word in PASSING_THREADS)]
    new = sorted(_children() - children)
    return left + [f"process {pid} ({command})" for pid in new if (command := _command(pid))]


def _children() -> set[int]:
    """Direct children of this process, by /proc; empty where the kernel does not list them."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            pids.update(map(int, (task / "children").read_text().split()))
        except OSError:  # the thread has ended, or the kernel has no such file
            continue
    return pids


def _command(pid: int) -> str:
    """The command line of a process that runs on; empty of one that has ended (a zombie too) or is known to stay."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
    return "" if any(word in command for word in PASSING_PROCESSES) else command[:80]
