"""State of a lowering: one ModuleLowering per kernel, one FunctionLowering per function, and the dispatch table.

A lowering is a function (FunctionLowering, Node) -> id or None, registered for its IR op by `lowers`. Constants, builtins and
resources are fetched at first use and so never written when unused; places (local, index, member) are written when a load
or store needs the pointer.
"""

from __future__ import annotations

from collections.abc import Callable

from ..diagnostics import CompileError
from ..ir.nodes import Function, Module, Node, Resource, Span, SpecConst, walk
from ..ir.verify_matrix import uses_matrices
from ..lang.layout import size_of
from ..lang.types import Type, Vector, u32
from .grammar import GLSL
from .module import FunctionCode, SpirvModule, inst
from .pool import Pool, scalar_words

LOWERINGS: dict[str, Callable[[FunctionLowering, Node], int | None]] = {}
_FETCHED = ("const", "undef", "spec_const", "builtin")
_CONTRACTIBLE = ("OpFAdd", "OpFSub", "OpFMul", "OpFDiv", "OpFRem", "OpFNegate", "OpDot")

# IR name -> (SPIR-V BuiltIn, is a vector of three)
BUILTINS: dict[str, tuple[str, bool]] = {
    "global_id": ("GlobalInvocationId", True),
    "group_id": ("WorkgroupId", True),
    "num_groups": ("NumWorkgroups", True),
    "local_id": ("LocalInvocationId", True),
    "local_index": ("LocalInvocationIndex", False),
    "subgroup_id": ("SubgroupId", False),
    "num_subgroups": ("NumSubgroups", False),
    "subgroup_size": ("SubgroupSize", False),
    "subgroup_lane": ("SubgroupLocalInvocationId", False),
}


def lowers(*ops: str) -> Callable:
    """Register the decorated function for IR ops."""

    def register(fn: Callable) -> Callable:
        for op in ops:
            LOWERINGS[op] = fn
        return fn

    return register


def internal(message: str, span: Span | None) -> CompileError:
    """A fault of the compiler, with the author's line for orientation."""
    return CompileError("E0901", message, span, help="this is a fault of the compiler, please report it with the kernel")


class ModuleLowering:
    """Module-scope objects by IR identity; every dict here is only looked up, never iterated for output."""

    def __init__(self, ir: Module):
        self.ir = ir
        self.module = SpirvModule(ir.name, memory_model="Vulkan" if uses_matrices(ir) else "GLSL450")
        self.pool = Pool(self.module)
        self.variables: dict[Resource, int] = {}
        self.function_ids: dict[Function, int] = {}
        self.spec_ids: dict[SpecConst, int] = {}
        self.written: dict[Resource, None] = {}
        self.shared_buffers = _shared_buffers(ir)
        self.offsets = workgroup_offsets(ir)
        self._inputs: dict[str, int] = {}
        self._glsl = 0

    def glsl(self) -> int:
        """Id of the GLSL.std.450 import."""
        if not self._glsl:
            self._glsl = self.module.new_id()
            self.module.imports.append(inst("OpExtInstImport", self._glsl, "GLSL.std.450"))
        return self._glsl

    def input(self, name: str) -> int:
        """Input variable of a builtin."""
        if name not in self._inputs:
            spirv_name, vector = BUILTINS[name]
            pointer = self.pool.pointer("input", self.pool.type(Vector(u32, 3) if vector else u32))
            made = self.module.new_id()
            self.module.add_global("OpVariable", pointer, made, "Input")
            self.module.add_name(made, name)
            self.module.decorate(made, "BuiltIn", spirv_name)
            self._inputs[name] = made
        return self._inputs[name]

    def spec_constant(self, spec: SpecConst) -> int:
        """Declared at first use or by declare_spec_constants."""
        if spec not in self.spec_ids:
            type_id, made = self.pool.type(spec.type), self.module.new_id()
            if spec.type.is_bool:
                self.module.add_global("OpSpecConstantTrue" if spec.default else "OpSpecConstantFalse", type_id, made, span=spec.span)
            else:
                self.module.add_global("OpSpecConstant", type_id, made, scalar_words(spec.type, spec.default), span=spec.span)
            self.module.add_name(made, spec.name)
            self.module.decorate(made, "SpecId", spec.id)
            self.spec_ids[spec] = made
        return self.spec_ids[spec]

    def function(self, fn: Function) -> int:
        """Id of a function, which may be lowered later."""
        if fn not in self.function_ids:
            self.function_ids[fn] = self.module.new_id()
        return self.function_ids[fn]


def _shared_buffers(ir: Module) -> tuple[Resource, ...]:
    """Buffers through which lanes may talk: written ones, where some barrier covers buffers."""
    nodes = (n for fn in ir.functions for n in walk(fn.body))
    fenced = any("storage" in n.attrs["memory"] for n in nodes if n.op in ("barrier", "memory_barrier"))
    return tuple(r for r in ir.resources if fenced and r.kind == "storage" and r.written)


def workgroup_offsets(ir: Module) -> dict[Resource, int]:
    """Byte offset of every workgroup array, where one of them is viewed as another type (SPV_KHR_workgroup_memory_explicit_layout:
    then all of them are laid out, and all share one storage); empty where none is."""
    arrays, at = [r for r in ir.resources if r.kind == "workgroup"], 0
    offsets: dict[Resource, int] = {}
    if any(r.views for r in arrays):
        for r in arrays:
            if r.views is None:
                offsets[r] = at
                at += -(-size_of(r.type) // 16) * 16
        offsets |= {r: offsets[r.views] for r in arrays if r.views is not None}
    return offsets


class FunctionLowering:
    """Emits one function. `open` is False between a terminator and the next label."""

    def __init__(self, parent: ModuleLowering, code: FunctionCode):
        self.parent, self.pool, self.module, self.code = parent, parent.pool, parent.module, code
        self.values: dict[Node, int] = {}
        self.chains: dict[tuple[int, ...], int] = {}  # access chains of the current basic block
        self.loops: list[tuple[int, int]] = []  # (merge, continue) labels, innermost last
        self._builtins: dict[str, int] = {}
        self.span: Span | None = None
        self.open = True

    # instructions
    def emit(self, op: str, type_id: int, *operands) -> int:
        """Add an instruction with a result; returns its id."""
        made = self.module.new_id()
        self.code.body.append(inst(op, type_id, made, *operands, span=self.span))
        if op in _CONTRACTIBLE and self.parent.ir.float_controls.no_contraction:
            self.module.decorate(made, "NoContraction")
        return made

    def emit_t(self, op: str, result: Type, *operands) -> int:
        """As `emit`, with the IR type of the result."""
        return self.emit(op, self.pool.type(result), *operands)

    def effect(self, op: str, *operands) -> None:
        """Add an instruction without a result."""
        self.code.body.append(inst(op, *operands, span=self.span))

    def terminate(self, op: str, *operands) -> None:
        """Add the last instruction of a basic block."""
        self.effect(op, *operands)
        self.open = False

    def label(self, label_id: int) -> None:
        """Begin a basic block."""
        self.effect("OpLabel", label_id)
        self.chains.clear()
        self.open = True

    def glsl(self, name: str, result: Type, *operands: int) -> int:
        """GLSL.std.450 call."""
        return self.emit_t("OpExtInst", result, self.parent.glsl(), GLSL[name], *operands)

    # values
    def value(self, node: Node) -> int:
        """Id of a node's value."""
        if node in self.values:
            return self.values[node]
        if node.op not in _FETCHED:
            raise internal(f"value of '{node.op}' is used where it is not defined", node.span)
        made = self._fetch(node)
        self.values[node] = made
        return made

    def _fetch(self, node: Node) -> int:
        if node.op == "const":
            return self.pool.constant(node.type, node.attrs["value"])
        if node.op == "undef":
            return self.pool.undef(node.type)
        if node.op == "spec_const":
            return self.parent.spec_constant(node.attrs["spec"])
        return self.builtin(node.attrs["name"])

    def builtin(self, name: str) -> int:
        """A builtin is loaded once, ahead of the code, so that one value serves every block."""
        if name not in self._builtins:
            variable = self.parent.input(name)
            made = self.module.new_id()
            type_id = self.pool.type(Vector(u32, 3) if BUILTINS[name][1] else u32)
            self.code.prologue.append(inst("OpLoad", type_id, made, variable, span=self.span))
            self._builtins[name] = made
        return self._builtins[name]

