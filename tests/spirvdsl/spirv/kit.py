"""Hand-built IR for the tests of the SPIR-V back end: a kernel with buffers, and a sink that keeps values alive."""

from __future__ import annotations

from spirvdsl.ir.build import Builder
from spirvdsl.ir.nodes import FloatControls, Function, Module, Node, Resource, Span, SpecConst
from spirvdsl.lang.types import RuntimeArray, Scalar, Type, Vector, lanes_of, scalar_of, u32


class Kit(Builder):
    """A builder of one kernel. Every node gets a line number of its own, so that a test can tell where a message points."""

    def __init__(self, name: str = "k", workgroup_size: tuple[int, int, int] = (32, 1, 1), controls: FloatControls | None = None):
        super().__init__()
        self.name, self.workgroup_size = name, workgroup_size
        self.controls = controls or FloatControls()
        self.resources: list[Resource] = []
        self.specs: list[SpecConst] = []
        self.functions: list[Function] = []
        self.subgroup_size: int | None = None
        self.line = 0

    def node(self, *args, **kwargs) -> Node:
        self.line += 1
        self.span = Span("kernel.py", self.line, 4)
        return super().node(*args, **kwargs)

    def declare(self, kind: str, name: str, t: Type, access: str = "inout", binding: int | None = None) -> Node:
        """A resource and the node that names it."""
        at = sum(r.kind in ("storage", "uniform") for r in self.resources) if binding is None else binding
        resource = Resource(name, kind, t, Span("kernel.py", 1, 0), access, 0, at)
        self.resources.append(resource)
        return self.resource(resource)

    def buffer(self, name: str, elem: Type, access: str = "inout", binding: int | None = None) -> Node:
        return self.declare("storage", name, RuntimeArray(elem), access, binding)

    def spec(self, name: str, t: Scalar, default) -> Node:
        spec = SpecConst(name, len(self.specs), t, default, Span("kernel.py", 1, 0))
        self.specs.append(spec)
        return self.node("spec_const", t, spec=spec)

    def gid(self) -> Node:
        return self.extract(self.builtin("global_id"), 0)

    def input(self, t: Type, name: str = "") -> Node:
        """A value no pass can know: element `global_id.x` of a buffer of its own; bools are made by a comparison."""
        if scalar_of(t) is not None and scalar_of(t).is_bool:
            raw = self.input(Vector(u32, t.lanes) if isinstance(t, Vector) else u32, name)
            return self.node("ne", t, (raw, self.zero(raw.type)))
        ref = self.buffer(name or f"in{len(self.resources)}", t, "in")
        return self.load(self.index(ref, self.gid()))

    def zero(self, t: Type) -> Node:
        s = scalar_of(t)
        value = 0.0 if s.is_float else 0
        return self.const(t, (value,) * lanes_of(t) if isinstance(t, Vector) else value)

    def keep(self, value: Node, name: str = "") -> None:
        """Store a value to a buffer of its own."""
        t = value.type
        if scalar_of(t) is not None and scalar_of(t).is_bool:
            one = self.const(u32, 1) if lanes_of(t) == 1 else self.const(Vector(u32, t.lanes), (1,) * t.lanes)
            return self.keep(self.node("select", one.type, (value, one, self.zero(one.type))), name)
        self.store(self.index(self.buffer(name or f"out{len(self.resources)}", t, "out"), self.gid()), value)

    def function(self, name: str, params: list[tuple[str, Type]], result: Type | None) -> tuple[Function, Builder]:
        """A helper function and the builder of its body."""
        inner = Builder(span=Span("kernel.py", 1, 0))
        nodes = [Node("param", t, (), {"name": n, "index": i}, inner.span) for i, (n, t) in enumerate(params)]
        fn = Function(name, nodes, result, inner.block, inner.span)
        self.functions.append(fn)
        return fn, inner

    def module(self) -> Module:
        entry = Function(self.name, [], None, self.block, Span("kernel.py", 1, 0))
        return Module(
            self.name, [entry, *self.functions], self.resources, self.specs, self.workgroup_size, Span("kernel.py", 1, 0),
            self.subgroup_size, self.controls,
        )  # fmt: skip


