"""From a kernel object to an IR module: resources from annotations, then a walk of the body."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..diagnostics import CompileError
from ..ir.build import Builder
from ..ir.nodes import Block, FloatControls, Function, Module, Resource, Span, SpecConst
from ..ir.verify_types import fits
from ..lang.layout import align_of, size_of
from ..lang.resources import Annotation
from ..lang.types import Field, RuntimeArray, Scalar, Struct, Type, bool_, scalar_of
from .frame import Context, Frame
from .source import Source, source_of
from .static import SelfObject
from .values import Place
from .walker import Walker

_PUSH_LIMIT = 128  # bytes every Vulkan device has (maxPushConstantsSize)


class Interface:
    """The resources of one kernel while they are declared, and the name each is known by."""

    def __init__(self, module: Module, b: Builder):
        self.module, self.b = module, b
        self.names: dict[str, Any] = {}
        self.push: list[tuple[str, Type, Span]] = []
        self.bindings = 0

    def declare(self, name: str, annotation: Any, default: Any, span: Span) -> None:
        """One annotated parameter or member. E0302, E0303, E0304 or E0306 when it cannot be bound."""
        if isinstance(annotation, Type):
            annotation = Annotation("push", annotation)
        if not isinstance(annotation, Annotation):
            raise CompileError("E0302", f"{name} has no resource annotation", span, "write In[f32], Out[f32], InOut[f32], or u32 for a push constant")
        of = annotation.of
        if not isinstance(of, Type):
            raise CompileError("E0302", f"{name}: {of!r} is not a type", span, "write a type such as f32, u32 or a @struct")
        if annotation.kind in ("in", "out", "inout"):
            self._buffer(name, annotation, span)
        elif annotation.kind == "push":
            self.push.append((name, of, span))
        elif annotation.kind == "spec":
            self._spec(name, of, default, span)
        else:
            raise CompileError("E0302", f"{name}: {annotation.kind} cannot be declared here", span)

    def _buffer(self, name: str, annotation: Annotation, span: Span) -> None:
        try:
            align_of(annotation.of)
        except TypeError as why:
            raise CompileError("E0304", f"{name}: {why}", span) from None
        r = Resource(name, "storage", RuntimeArray(annotation.of), span, annotation.kind, 0, self.bindings)
        self.bindings += 1
        self.module.resources.append(r)
        self.names[name] = Place(self.b.resource(r), r, name)

    def _spec(self, name: str, of: Type, default: Any, span: Span) -> None:
        if not isinstance(of, Scalar) or not (of.bits == 32 or of == bool_):
            raise CompileError("E0306", f"{name}: a specialisation constant is u32, i32, f32 or bool, not {of.name}", span)
        if not isinstance(default, bool | int | float) or (of == bool_) != isinstance(default, bool) or (of.is_int and isinstance(default, float)):
            raise CompileError("E0306", f"{name}: default {default!r} is no {of.name} literal", span, f"write {name}: Spec[{of.name}] = 1")
        if not of.is_bool and not fits(of, default):
            raise CompileError("E0306", f"{name}: default {default!r} is out of the range of {of.name}", span)
        spec = SpecConst(name, len(self.module.spec_consts), of, default, span)
        self.module.spec_consts.append(spec)
        self.names[name] = self.b.node("spec_const", of, spec=spec)

    def finish(self) -> None:
        """The push-constant block, in declaration order."""
        if not self.push:
            return
        for name, t, span in self.push:
            s = scalar_of(t)
            if s is None or s.is_bool or s.bits < 32:
                raise CompileError("E0303", f"push constant {name} is {t.name}", span, "push constants are 32- or 64-bit numbers")
        block = Struct("Push", tuple(Field(n, t) for n, t, _ in self.push))
        if size_of(block) > _PUSH_LIMIT:
            raise CompileError("E0303", f"push constants take {size_of(block)} bytes, {_PUSH_LIMIT} is what every device has", self.push[-1][2], "move some into a buffer")
        r = Resource("push", "push", block, self.push[0][2], "in")
        self.module.resources.append(r)
        base = self.b.resource(r)
        for i, (name, _, _) in enumerate(self.push):
            self.names[name] = Place(self.b.member(base, i), r, name, (i,))


def start_module(name: str, workgroup_size: Any, subgroup_size: int | None, controls: FloatControls, span: Span) -> Module:
    """An empty module with its checked workgroup size (E0407)."""
    size = (workgroup_size,) if isinstance(workgroup_size, int) else tuple(workgroup_size)
    size = size + (1,) * (3 - len(size))
    if len(size) != 3 or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in size) or size[0] * size[1] * size[2] > 1024:
        raise CompileError("E0407", f"workgroup size {workgroup_size!r}", span, "one to three positive ints, at most 1024 lanes in all")
    if subgroup_size is not None and (subgroup_size < 1 or subgroup_size & (subgroup_size - 1)):
        raise CompileError("E0407", f"subgroup size {subgroup_size!r}", span, "a power of two")
    return Module(name, [Function("main", [], None, Block(), span)], [], [], size, span, subgroup_size, controls)


def build_function(function: Callable, module: Module) -> Module:
    """A function kernel: parameters are resources, the body is the entry."""
    source = source_of(function)
    interface = Interface(module, Builder(module.entry.body, module.span))
    for (name, parameter), arg in zip(inspect.signature(function).parameters.items(), source.arguments(), strict=True):
        span = source.span(arg)
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise CompileError("E0302", f"{name}: kernels take no *args or **kwargs", span)
        annotation = parameter.annotation
        if isinstance(annotation, str):
            annotation = _evaluate(annotation, source.names(), name, span)
        interface.declare(name, None if annotation is parameter.empty else annotation, parameter.default, span)
    interface.finish()
    return _walk(source, interface, dict(interface.names), None)


def build_class(stamp: Any, main: Callable, module: Module) -> Module:
    """A stamped kernel class: annotated members are resources (bases first), main() is the entry, methods are devirtualised."""
    source = source_of(main)
    interface = Interface(module, Builder(module.entry.body, module.span))
    for name, annotation, default in stamp.members():
        interface.declare(name, annotation, default, module.span)
    interface.finish()
    me = SelfObject(stamp.cls, interface.names)
    first = source.node.args.args[0].arg if source.node.args.args else None
    if first is None or len(source.node.args.args) > 1:
        raise CompileError("E0105", "main() takes self alone", source.span(source.node), "resources are annotated members of the class")
    return _walk(source, interface, {first: me}, me)


def _walk(source: Source, interface: Interface, env: dict[str, Any], me: SelfObject | None) -> Module:
    module = interface.module
    walker = Walker(Context(module, interface.b, module.workgroup_size, stack=[source.function]), me)
    walker.frame = Frame(source, "entry", env, None)
    walker.body(source.node.body)
    if not module.entry.body.terminated:
        interface.b.return_()
    module.entry.body.nodes[:0] = walker.ctx.locals
    return module


def _evaluate(text: str, names: dict[str, Any], what: str, span: Span) -> Any:
    try:
        return eval(text, dict(names))  # noqa: S307 the author's own annotation
    except Exception as why:  # noqa: BLE001 whatever the annotation raises is the author's line
        raise CompileError("E0302", f"annotation of {what}: {why}", span) from None
