"""interpret(): a whole grid of a kernel, in batches of workgroups, into numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from ..ir.nodes import Module, Resource, Span
from ..lang.layout import offsets_of, size_of, stride_of
from ..lang.types import Array, RuntimeArray, scalar_of
from .emit import Program
from .faults import Fault, InterpError
from .machine import Machine
from .pack import pack
from .places import memory_type
from .values import make_const, memory_dtype

BATCH_LANES = 1 << 15  # numpy's cost per call is small against this many lanes, and a value still fits in cache
BATCH_BYTES = 256 << 20  # of workgroup memory, and as much of locals
_programs: WeakKeyDictionary[Module, dict[bool, Program]] = WeakKeyDictionary()


def interpret(
    module: Module, grid: int | tuple[int, ...], buffers: Mapping[str, np.ndarray], push: Mapping[str, object] | None = None,
    spec: Mapping[str, int | float | bool] | None = None, *, subgroup_size: int = 32, check: bool = True,
    max_iterations: int = 1 << 20, batch_lanes: int = BATCH_LANES, typed: bool = False,
) -> None:
    """Runs `grid` workgroups of a verified module, writing into `buffers` (C-contiguous arrays by resource name; their
    bytes are taken as the declared element type, std430). `push` and `spec` give push members and specialisation
    constants by name. typed: refuse an array of another dtype than the element's scalar. `subgroup_size` is a power of two up to 128, unless the module requires one. `max_iterations`
    bounds every loop. The module must not change between calls: its code is kept. The workgroups of a batch run in
    lockstep and batches one after another, so a workgroup may wait for an earlier one, not for a later one.

    Raises InterpError at the author's line: an index out of range, a read of memory nothing was stored to, use of an
    undefined value, an undefined operation, a barrier not all lanes reach, a loop that does not end; and for arguments
    that do not fit the kernel. With check=False undefined operations give some value instead and out-of-range stores
    are dropped.
    """
    program = _programs.setdefault(module, {}).get(check)
    if program is None:
        program = _programs[module][check] = Program(module, check)
    sizes = _grid(grid, module)
    size = module.subgroup_size or subgroup_size
    if size not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise InterpError(f"subgroup size {size} is not a power of two up to 128", module.span)
    shared = {i: size_of(memory_type(r.type)) for i, r in enumerate(module.resources) if r.kind == "workgroup" and r.views is None}
    views = {i: module.resources.index(r.views) for i, r in enumerate(module.resources) if r.views is not None}
    attrs = {**_memory(module, program, buffers, push or {}, typed), **_specs(module, spec or {})}
    threads = int(np.prod(module.workgroup_size))
    groups = BATCH_BYTES // max(1, sum(shared.values())), BATCH_BYTES // max(1, program.local_bytes * threads)
    batch = max(1, min(batch_lanes // threads, *groups))
    total = int(np.prod(sizes))
    with np.errstate(all="ignore"):
        for start in range(0, total, batch):
            machine = Machine(module.workgroup_size, sizes, start, min(batch, total - start), size, max_iterations)
            vars(machine).update(attrs)
            for i, nbytes in shared.items():
                machine.add_workgroup(i, module.resources[i].name, nbytes, list(program.uses.get(i, {}).items()))
            for i, of in views.items():
                machine.add_view(i, of, list(program.uses.get(i, {}).items()))
            _run(program, machine)


def _run(program: Program, machine: Machine) -> None:
    try:
        program.entry(machine, None)
    except Fault as fault:
        spans = _spans(program, fault)
        where = "" if fault.lane is None else f", in {machine.where(fault.lane)}"
        notes = tuple(f"called from {s.file}:{s.line}:{s.col + 1}" for s in spans[:-1][::-1])
        raise InterpError(fault.message + where, spans[-1] if spans else None, notes) from None
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        for s in _spans(program, error)[::-1]:
            error.add_note(f"while interpreting {s.file}:{s.line}:{s.col + 1}")
        raise


def _spans(program: Program, fault: BaseException) -> list[Span]:
    """The author's spans the fault passed through, outermost first."""
    spans, trace = [], fault.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == program.filename and program.spans[trace.tb_lineno] is not None:
            spans.append(program.spans[trace.tb_lineno])
        trace = trace.tb_next
    return spans


def _grid(grid: int | tuple[int, ...], module: Module) -> tuple[int, int, int]:
    given = grid if isinstance(grid, tuple | list) else (grid,)
    if not 1 <= len(given) <= 3 or not all(isinstance(n, int | np.integer) and n >= 0 for n in given):
        raise InterpError(f"grid {grid!r} is not 1 to 3 workgroup counts", module.span)
    x, y, z = (int(n) for n in (*given, 1, 1)[:3])
    return x, y, z


def _memory(module: Module, program: Program, buffers: Mapping[str, np.ndarray], push: Mapping[str, object], typed: bool) -> dict[str, object]:
    """Machine attributes: typed views and lengths of buffers and push constants."""
    attrs: dict[str, object] = {}
    bound = [r.name for r in module.resources if r.kind in ("storage", "uniform")]
    for name in buffers:
        if name not in bound:
            raise InterpError(f"kernel {module.name} has no buffer '{name}'; it has {', '.join(bound) or 'none'}", module.span)
    members = [f.name for r in module.resources if r.kind == "push" for f in r.type.fields]
    for name in push:
        if name not in members:
            raise InterpError(f"kernel {module.name} has no push member '{name}'; it has {', '.join(members) or 'none'}", module.span)
    for i, r in enumerate(module.resources):
        if r.kind == "workgroup":
            continue
        if r.kind == "push":
            data = _push(r, push)
        else:
            data = _bytes(r, buffers, i in program.stored, typed)
        for suffix, dtype in program.uses.get(i, {}).items():
            view = data[: data.size // dtype.itemsize * dtype.itemsize].view(dtype)
            attrs[f"b{i}_{suffix}"] = view if view.size or program.check else np.zeros(256, dtype)
        if isinstance(r.type, RuntimeArray):
            attrs[f"n{i}"] = data.size // stride_of(memory_type(r.type))
            attrs[f"u{i}"] = np.uint32(attrs[f"n{i}"])
    return attrs


def _push(r: Resource, push: Mapping[str, object]) -> np.ndarray:
    """The bytes of the push-constant block."""
    data = np.zeros(size_of(r.type), np.uint8)
    for f, offset in zip(r.type.fields, offsets_of(r.type)):
        if f.name not in push:
            raise InterpError(f"push member '{f.name}' is missing", r.span)
        try:
            data[offset : offset + size_of(f.type)] = pack(f.type, push[f.name])
        except (OverflowError, TypeError, ValueError) as error:
            raise InterpError(f"push member '{f.name}' ({f.type}): {error}", r.span) from None
    return data


def _bytes(r: Resource, buffers: Mapping[str, np.ndarray], stored: bool, typed: bool) -> np.ndarray:
    array = buffers.get(r.name)
    if not isinstance(array, np.ndarray):
        raise InterpError(f"buffer '{r.name}' is missing or is no numpy array", r.span)
    if not array.flags.c_contiguous:
        raise InterpError(f"array for '{r.name}' is not C-contiguous; pass np.ascontiguousarray of it", r.span)
    if stored and not array.flags.writeable:
        raise InterpError(f"array for '{r.name}' is read-only and the kernel writes to it", r.span)
    element = memory_type(r.type)
    while isinstance(element, RuntimeArray | Array):
        element = element.elem
    scalar = scalar_of(element)  # a struct may come as any bytes
    if typed and scalar is not None and array.dtype != (wanted := np.dtype(memory_dtype(scalar))):
        raise InterpError(f"buffer '{r.name}' holds {scalar.name}, the array {array.dtype}; convert it with astype({wanted})", r.span)
    if r.kind == "uniform" and array.nbytes < size_of(r.type):
        raise InterpError(f"uniform '{r.name}' takes {size_of(r.type)} bytes, the array has {array.nbytes}", r.span)
    return array.reshape(-1).view(np.uint8)


def _specs(module: Module, spec: Mapping[str, int | float | bool]) -> dict[str, object]:
    known = {s.name for s in module.spec_consts}
    for name in spec:
        if name not in known:
            raise InterpError(f"kernel {module.name} has no specialisation constant '{name}'", module.span)
    out = {}
    for i, s in enumerate(module.spec_consts):
        value = spec.get(s.name, s.default)
        try:
            if s.type.is_int and value != int(value):
                raise ValueError(f"{value!r} is no {s.type}")
            out[f"spec{i}"] = make_const(s.type, value)
        except (OverflowError, TypeError, ValueError) as error:
            raise InterpError(f"specialisation constant '{s.name}' ({s.type}): {error}", s.span) from None
    return out
