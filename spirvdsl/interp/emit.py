"""IR -> Python source: one Python function per IR function, one line (or a few) per node.

Values are local variables, masks are explicit (masks.py), and the line a Fault passes through names the author's span, so
running costs nothing but the numpy calls. `m` is the mask of lanes that execute, `lv` all lanes that have not returned.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from ..ir.nodes import Block, Function, Module, Node, Span, walk
from ..ir.ops import OPS
from . import lifetimes
from .emit_ops import NAMESPACE, OpEmitter
from .faults import InterpError
from .places import local_bytes, plan_locals, suffix
from .values import make_const

_DEEPEST = 90  # Python reads at most 100 levels of indentation


class Program:
    """Generated code of a module. `uses[i]`: typed views of resource i; `stored`: resources written; `spans` by line."""

    def __init__(self, module: Module, check: bool):
        # nothing here refers to the module itself, so that a cache by weak reference can drop both
        self.check, self.float_controls = check, module.float_controls
        self.lines: list[str] = []
        self.spans: list[Span | None] = [None]  # lines count from 1
        self.space: dict = dict(NAMESPACE)
        self.consts: dict[tuple, str] = {}
        self.resources = {r: i for i, r in enumerate(module.resources)}
        self.specs = {s: i for i, s in enumerate(module.spec_consts)}
        self.functions = {fn: f"fn{i}_{fn.name}" for i, fn in enumerate(module.functions)}
        self.uses: dict[int, dict[str, np.dtype]] = {}
        self.stored: set[int] = set()
        self.local_bytes = 0  # of all locals, per lane
        self.filename = f"<interpreter: {module.name}>"
        for fn in module.functions:
            FunctionEmitter(self, fn).run()
        exec(compile("\n".join(self.lines), self.filename, "exec"), self.space)  # noqa: S102 - our own text
        self.entry = self.space[self.functions[module.entry]]

    def const(self, t, value) -> str:
        """Name of a constant."""
        key = (t, repr(value))
        if key not in self.consts:
            self.consts[key] = self.object(make_const(t, value))
        return self.consts[key]

    def object(self, thing) -> str:
        """Name of anything generated code refers to."""
        name = f"c{len(self.space)}"
        self.space[name] = thing
        return name

    def view(self, resource: int, dtype: np.dtype) -> str:
        """Typed view of a resource's memory."""
        self.uses.setdefault(resource, {})[suffix(dtype)] = dtype
        return f"S.b{resource}_{suffix(dtype)}"


class FunctionEmitter(OpEmitter):
    """Control flow of one function; single operations are OpEmitter's."""

    def __init__(self, program: Program, fn: Function):
        self.program, self.fn, self.check = program, fn, program.check
        self.names: dict[Node, str] = {p: f"p{i}" for i, p in enumerate(fn.params)}
        self.indices: dict[Node, tuple] = {}
        self.free: list[str] = []
        self.made = 0
        self.loop_depths: list[int] = []
        self.depth = 0
        self.span: Span | None = fn.span
        self.release = lifetimes.releases(fn)
        self.locals = plan_locals(fn)
        self.loop_returns = any(n.op == "loop" and lifetimes.returns(n) for n in walk(fn.body))

    # text
    def line(self, text: str) -> None:
        """Appends a line that stands for the current node."""
        if self.depth > _DEEPEST:
            raise InterpError("control flow is nested too deeply for the interpreter", self.span)
        self.program.lines.append(" " * self.depth + text)
        self.program.spans.append(self.span)

    @contextmanager
    def indent(self, head: str):
        """A line and the block under it."""
        self.line(head)
        self.depth += 1
        before = len(self.program.lines)
        yield
        if len(self.program.lines) == before:
            self.line("pass")
        self.depth -= 1

    def fresh(self) -> str:
        """A variable name not in use."""
        if self.free:
            return self.free.pop()
        self.made += 1
        return f"v{self.made}"

    def run(self) -> None:
        """The whole function."""
        params = "".join(f", p{i}" for i in range(len(self.fn.params)))
        with self.indent(f"def {self.program.functions[self.fn]}(S, m{params}):"):
            self.line("lv = m")
            self.line("ret = None")
            if self.loop_returns:
                self.line("rt = False")
            for local in self.locals.values():
                self.program.local_bytes += local_bytes(local.node.type.elem)
                self.declare(local)
            self.block(self.fn.body, "function")
            self.line("return ret")

    # blocks
    def block(self, block: Block, context: str) -> None:
        """Nodes in order. context: function, loop (top level of a body) or branch: what to do when no lane is left."""
        deeper = 0
        for i, node in enumerate(block.nodes):
            self.span = node.span
            self.node(node)
            for dead in self.release.get(node, ()):
                self.forget(dead)
            if node.op in ("if", "loop") and self.leaves(node):
                rest = i + 1 < len(block.nodes)
                if context == "function":
                    self.line("if m is False: return ret")
                    self.line("lv = m")
                elif rest and context == "loop":
                    self.line("if m is False: continue")
                elif rest:
                    self.line("if m is not False:")
                    self.depth += 1
                    deeper += 1
                    self.line("pass")
        self.depth -= deeper

    def leaves(self, node: Node) -> bool:
        """True when lanes may be missing after an if or a loop."""
        return lifetimes.returns(node) if node.op == "loop" else any(lifetimes.exits(b) for b in node.blocks)

    def forget(self, dead: Node) -> None:
        """The names of a value that is not used again."""
        name = self.names.pop(dead, None)
        if name is not None and name.startswith("v"):
            self.free.append(name)
        for text in self.indices.pop(dead, ()):
            if isinstance(text, str) and text.startswith("v"):
                self.free.append(text)

    def node(self, node: Node) -> None:
        """One node."""
        special = getattr(self, f"op_{node.op}", None)
        if special is not None:
            special(node)
        elif OPS[node.op].pure:
            self.pure(node)
        else:
            raise InterpError(f"the interpreter has no {node.op}", node.span)

    # control
    def op_if(self, node: Node) -> None:
        cond, d = self.names[node.args[0]], self.depth
        then, other = node.blocks
        leaving = self.leaves(node)
        if not leaving:
            self.line(f"s{d} = m")
        self.line(f"t{d}, e{d} = split(m, {cond})")
        for name, block in ((f"t{d}", then), (f"e{d}", other)):
            if not block.nodes:
                continue
            with self.indent(f"if {name} is not False:"):
                self.line(f"m = {name}")
                self.block(block, "branch")
                if leaving:
                    self.line(f"{name} = m")
        self.span = node.span
        self.line(f"m = join(t{d}, e{d})" if leaving else f"m = s{d}")

    def op_loop(self, node: Node) -> None:
        test, body, step = node.blocks
        d, resumed = self.depth, lifetimes.continues(body)
        self.line(f"l{d} = m")
        self.line(f"n{d} = 0")
        with self.indent("while True:"):
            with self.indent(f"if n{d}:"):
                if resumed:
                    self.line(f"m = settle(join(m, k{d}), l{d})")
                if lifetimes.exits(body):
                    self.line("if m is False: break")
                self.block(step, "branch")
            self.span = node.span
            self.line(f"n{d} += 1")
            self.line(f"if n{d} > S.limit: stuck(S.limit, m)")
            self.block(test, "branch")  # its yield narrows m
            self.line("if m is False: break")
            if resumed:
                self.line(f"k{d} = False")
            self.loop_depths.append(d)
            self.block(body, "loop")
            self.loop_depths.pop()
        self.span = node.span
        self.line(f"m = minus(l{d}, rt)" if lifetimes.returns(node) else f"m = l{d}")

    def op_yield(self, node: Node) -> None:
        self.line(f"m = narrow(m, {self.names[node.args[0]]})")

    def op_break(self, node: Node) -> None:
        self.line("m = False")

    def op_continue(self, node: Node) -> None:
        d = self.loop_depths[-1]
        self.line(f"k{d} = join(k{d}, m)")
        self.line("m = False")

    def op_return(self, node: Node) -> None:
        if node.args:
            value = self.names[node.args[0]]
            self.line(f"ret = {value} if ret is None else merge(ret, {value}, m)")
        if self.loop_returns:
            self.line("rt = join(rt, m)")
        self.line("m = False")

    def op_unreachable(self, node: Node) -> None:
        self.line("unreachable(m)" if self.check else "m = False")

    def op_call(self, node: Node) -> None:
        args = "".join(f", {self.names[a]}" for a in node.args)
        text = f"{self.program.functions[node.attrs['function']]}(S, m{args})"
        self.line(text if node.type is None else f"{self.result(node)} = {text}")
