"""IR module -> SPIR-V module: resources, specialisation constants, functions, execution modes.

Order is the order of declaration (resources), then of the walk (everything else), so equal IR gives equal words.
"""

from __future__ import annotations

from collections import Counter

from ..ir.nodes import FloatControls, Function, Module, Resource
from . import lower_convert, lower_flow, lower_group, lower_math, lower_matrix, lower_memory, lower_values  # noqa: F401  (they register)
from .context import FunctionLowering, ModuleLowering, internal
from .module import FunctionCode, SpirvModule, inst
from .pool import LAID, STORAGE_CLASS
from .std140 import check_std140

_FLOAT_MODES = {
    "denorm_preserve": "DenormPreserve",
    "denorm_flush": "DenormFlushToZero",
    "round_to_nearest_even": "RoundingModeRTE",
    "signed_zero_inf_nan_preserve": "SignedZeroInfNanPreserve",
}


def lower(module: Module) -> SpirvModule:
    """Translate a kernel. CompileError E0901 on IR that breaks its own rules."""
    state = ModuleLowering(module)
    for resource in module.resources:
        _declare(state, resource)
    for spec in module.spec_consts:
        state.spec_constant(spec)
    for fn in module.functions:
        _lower_function(state, fn)
    _decorate_buffers(state)
    state.module.entry_id = state.function(module.entry)
    state.module.modes.append(inst("OpExecutionMode", state.module.entry_id, "LocalSize", *module.workgroup_size))
    _float_modes(state, module.float_controls)
    return state.module


def _declare(state: ModuleLowering, resource: Resource) -> None:
    """The variable of a resource, with set and binding. CompileError E0304 for a uniform buffer that is not std140."""
    pool, out = state.pool, state.module
    if resource.kind == "uniform":
        check_std140(resource)
    if resource in state.offsets:
        pointee = pool.workgroup_block(resource.type, state.offsets[resource])
    else:
        pointee = pool.block(resource.type) if resource.kind in LAID else pool.type(resource.type)
    pointer, made = pool.pointer(resource.kind, pointee), out.new_id()
    out.add_global("OpVariable", pointer, made, STORAGE_CLASS[resource.kind], span=resource.span)
    out.add_name(made, resource.name)
    if resource in state.offsets:
        out.decorate(made, "Aliased")
    if resource.kind in ("storage", "uniform"):
        out.decorate(made, "DescriptorSet", resource.set)
        out.decorate(made, "Binding", resource.binding)
    state.variables[resource] = made


def _decorate_buffers(state: ModuleLowering) -> None:
    """NonWritable on what no instruction writes; Restrict unless two variables view one binding or the author says Aliased.

    Bindings of one kernel never alias by contract. Both decorations pay: without them loads are not hoisted or cached.
    """
    views = Counter((r.set, r.binding) for r in state.ir.resources if r.kind == "storage")
    for resource in state.ir.resources:
        if resource.kind != "storage":
            continue
        variable = state.variables[resource]
        aliased = getattr(resource, "aliased", False) or views[resource.set, resource.binding] > 1
        state.module.decorate(variable, "Aliased" if aliased else "Restrict")
        if resource not in state.written:
            state.module.decorate(variable, "NonWritable")


def _lower_function(state: ModuleLowering, fn: Function) -> None:
    pool, out = state.pool, state.module
    result = pool.void() if fn.result is None else pool.type(fn.result)
    params = tuple(pool.type(p.type) for p in fn.params)
    type_id, function_id = pool.function_type(result, params), state.function(fn)
    head = [inst("OpFunction", result, function_id, "None", type_id, span=fn.span)]
    code = FunctionCode(head, inst("OpLabel", out.new_id(), span=fn.span))
    out.add_name(function_id, fn.name)
    f = FunctionLowering(state, code)
    for param, param_type in zip(fn.params, params, strict=True):
        made = out.new_id()
        head.append(inst("OpFunctionParameter", param_type, made, span=param.span))
        out.add_name(made, param.attrs["name"])
        f.values[param] = made
    lower_flow.lower_block(f, fn.body)
    f.span = fn.span
    if f.open:  # the frontend has proved that a value-returning function never gets here
        f.terminate("OpReturn" if fn.result is None else "OpUnreachable")
    out.functions.append(code)


def _float_modes(state: ModuleLowering, controls: FloatControls) -> None:
    for attribute, mode in _FLOAT_MODES.items():
        for width in sorted(getattr(controls, attribute)):
            state.module.modes.append(inst("OpExecutionMode", state.module.entry_id, mode, width))
    both = sorted(w for w in controls.denorm_preserve if w in controls.denorm_flush)
    if both:
        raise internal(f"denormals of f{both[0]} are both preserved and flushed", state.ir.span)
