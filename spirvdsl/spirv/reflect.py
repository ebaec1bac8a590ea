"""Reflection of a kernel: what a runtime binds, from the IR, cross-checked against the words that were written."""

from __future__ import annotations

from collections.abc import Sequence

from ..compiled import Binding, PushMember, Reflection, SpecConstant
from ..diagnostics import CompileError
from ..ir.nodes import Module, Resource
from ..lang.layout import offsets_of, size_of, stride_of
from ..lang.types import RuntimeArray, Struct
from .context import workgroup_offsets
from .features import features
from .grammar import ENUMS
from .matrices import matrix_products, matrix_types
from .module import ENTRY
from .words import Decoded, version_text


def reflect(module: Module, code: Sequence[Decoded], version: int) -> Reflection:
    """Interface of a compiled kernel, `code` being its words. CompileError E0803 when they say otherwise than the IR."""
    push = [r for r in module.resources if r.kind == "push"]
    if len(push) > 1:
        raise CompileError("E0803", f"{len(push)} push-constant blocks; Vulkan has one", push[1].span)
    made = Reflection(
        entry=ENTRY,
        workgroup_size=module.workgroup_size,
        bindings=tuple(_binding(r) for r in module.resources if r.kind in ("storage", "uniform")),
        push=_push_members(push[0].type) if push else (),
        push_bytes=size_of(push[0].type) if push else 0,
        workgroup_bytes=_workgroup_bytes(module),
        spec_constants=tuple(SpecConstant(s.name, s.id, s.type.name, s.default) for s in module.spec_consts),
        features=features(code),
        spirv_version=version_text(version),
        subgroup_size=module.subgroup_size,
        matrices=matrix_types(code),
        products=matrix_products(code),
    )
    _cross_check(made, code, module)
    return made


def _workgroup_bytes(module: Module) -> int:
    """Bytes of workgroup memory; where arrays are viewed as other types, with the gaps of the layout."""
    offsets = workgroup_offsets(module)
    if offsets:
        return max(at + size_of(r.type) for r, at in offsets.items())
    return sum(size_of(r.type) for r in module.resources if r.kind == "workgroup")


def _binding(resource: Resource) -> Binding:
    t = resource.type
    element, stride = (t.elem.name, stride_of(t)) if isinstance(t, RuntimeArray) else (t.name, size_of(t))
    return Binding(resource.name, resource.set, resource.binding, resource.access, resource.kind, element, stride)


def _push_members(t: Struct) -> tuple[PushMember, ...]:
    return tuple(PushMember(f.name, f.type.name, at, size_of(f.type)) for f, at in zip(t.fields, offsets_of(t), strict=True))


def _decorations(code: Sequence[Decoded], name: str) -> list[int]:
    """The literal of every decoration of one kind, in order."""
    number = ENUMS["Decoration"][name].value
    return [d.values()[2] for d in code if d.op == "OpDecorate" and d.values()[1] == number]


def _cross_check(made: Reflection, code: Sequence[Decoded], module: Module) -> None:
    """Sets, bindings, spec ids and the workgroup size as written must be those of the record."""
    mode = ENUMS["ExecutionMode"]["LocalSize"].value
    written = {
        "descriptor sets": _decorations(code, "DescriptorSet"),
        "bindings": _decorations(code, "Binding"),
        "specialisation ids": _decorations(code, "SpecId"),
        "workgroup size": [v for d in code if d.op == "OpExecutionMode" and d.values()[1] == mode for v in d.values()[2:]],
        "entry point": [d.first("LiteralString") for d in code if d.op == "OpEntryPoint"],
    }
    recorded = {
        "descriptor sets": [b.set for b in made.bindings],
        "bindings": [b.binding for b in made.bindings],
        "specialisation ids": [s.id for s in made.spec_constants],
        "workgroup size": list(made.workgroup_size),
        "entry point": [made.entry],
    }
    for what, values in recorded.items():
        if written[what] != values:
            raise CompileError("E0803", f"{what} are {written[what]} in the words and {values} in the reflection", module.span)
