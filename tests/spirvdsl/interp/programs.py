"""Random structured programs over u32: ifs, bounded loops with break and continue, early returns, calls, locals."""

from __future__ import annotations

from random import Random

from spirvdsl.ir.nodes import Function, Module, Node
from spirvdsl.lang.types import bool_, u32

from .harness import Kit

LANES = 24
WORDS = 4  # of output per lane
_BINARY = ("add", "sub", "mul", "and", "or", "xor")


def program(random: Random) -> Module:
    """A kernel of workgroups of 8 that reads `x` [LANES] and writes `out` [LANES * WORDS]."""
    kit = Kit()
    functions = []
    for i in range(random.randrange(4)):
        functions.append(_function(kit, random, f"f{i}", list(functions)))
    maker = _Maker(kit, random, functions, None)
    gid = kit.gid()
    base = kit.binary("mul", gid, kit.u32(WORDS))
    maker.values = [gid, kit.at(kit.storage("x", u32), gid), kit.u32(0), kit.u32(1), kit.u32(random.randrange(1 << 32))]
    maker.declare("v0", "v1", "v2")
    maker.out = lambda word, value: kit.put(kit.storage("out", u32), kit.binary("add", base, kit.u32(word)), value)
    maker.statements(3, in_loop=False)
    for word, local in enumerate(maker.locals):
        if not kit.block.terminated:
            maker.out(word, kit.load(local))
    return kit.module((8, 1, 1))


def _function(kit: Kit, random: Random, name: str, callees: list[Function]) -> Function:
    def body(k: Kit, *params: Node) -> None:
        maker = _Maker(k, random, callees, u32)
        maker.values = [*params, k.u32(random.randrange(8))]
        maker.declare("t")
        if random.random() < 0.5:
            maker.guard()
        maker.statements(2, in_loop=False)
        if not k.block.terminated:
            k.return_(maker.value())

    return kit.function(name, [u32] * (1 + random.randrange(2)), u32, body)


class _Maker:
    def __init__(self, kit: Kit, random: Random, functions: list[Function], result):
        self.k, self.random, self.functions, self.result = kit, random, functions, result
        self.values: list[Node] = []
        self.locals: list[Node] = []
        self.out = None

    def declare(self, *names: str) -> None:
        """Locals, each stored to before it can be read."""
        for name in names:
            local = self.k.local(u32, name)
            self.k.store(local, self.value())
            self.locals.append(local)

    def value(self, depth: int = 2) -> Node:
        r, k = self.random, self.k
        kind = r.randrange(8) if depth else 0
        if kind == 1 and self.locals:
            return k.load(r.choice(self.locals))
        if kind in (2, 3, 4):
            return k.binary(r.choice(_BINARY), self.value(depth - 1), self.value(depth - 1))
        if kind == 5:
            return k.select(self.test(depth - 1), self.value(depth - 1), self.value(depth - 1))
        if kind == 6:
            return k.binary("shr", self.value(depth - 1), k.u32(r.randrange(32)))
        if kind == 7 and self.functions:
            fn = r.choice(self.functions)
            return k.call(fn, tuple(self.value(depth - 1) for _ in fn.params))
        return r.choice(self.values)

    def test(self, depth: int = 1) -> Node:
        r, k = self.random, self.k
        kind = r.randrange(6)
        if kind == 0:
            return k.const(bool_, r.random() < 0.5)
        if kind == 1:
            return k.unary("not", self.test(0))
        small = k.binary("and", self.value(depth), k.u32(r.choice((1, 3, 7))))
        return k.binary(r.choice(("lt", "eq", "ne", "ge")), small, k.u32(r.randrange(5)))

    def scoped(self, block, depth: int, in_loop: bool) -> None:
        kept = list(self.values)
        with self.k.at(block):
            self.statements(depth, in_loop)
        self.values = kept

    def statements(self, depth: int, in_loop: bool) -> None:
        for _ in range(1 + self.random.randrange(4)):
            if self.k.block.terminated:
                return
            self.statement(depth, in_loop)

    def statement(self, depth: int, in_loop: bool) -> None:
        r, k = self.random, self.k
        kind = r.choice((7, r.randrange(10))) if in_loop else r.randrange(10)
        if kind < 3 or (depth == 0 and kind < 7):
            k.store(r.choice(self.locals), self.value())
        elif kind == 3:
            self.values.append(self.value())
        elif kind in (4, 5) and depth:
            then, other = k.if_(self.test())
            self.scoped(then, depth - 1, in_loop)
            if r.random() < 0.5:
                self.scoped(other, depth - 1, in_loop)
        elif kind == 6 and depth:
            self.loop(depth)
        elif kind == 7 and in_loop:
            if depth and r.random() < 0.8:  # mostly in some lanes only
                then, other = k.if_(self.test())
                with k.at(r.choice((then, other))):
                    k.node(r.choice(("break", "continue")), None)
                return
            k.node(r.choice(("break", "continue")), None)
        elif kind == 8 and r.random() < (0.9 if self.result else 0.4):
            k.return_(self.value() if self.result else None)
        elif kind == 9 and self.out:
            self.out(r.randrange(WORDS), self.value())

    def guard(self) -> None:
        """A branch that returns, the other going on."""
        blocks = self.k.if_(self.test())
        with self.k.at(self.random.choice(blocks)):
            self.k.return_(self.value())

    def loop(self, depth: int) -> None:
        k = self.k
        count = self.local_counter()
        limit = k.binary("and", self.value(), k.u32(3)) if self.random.random() < 0.5 else k.u32(self.random.randrange(5))
        cond, body, step = k.loop()
        with k.at(cond):
            k.yield_(k.binary("lt", k.load(count), limit))
        with k.at(step):
            k.store(count, k.binary("add", k.load(count), k.u32(1)))
        with k.at(body):  # every turn leaves a trace, so that a turn too few or too many shows
            trace = self.locals[0]
            turned = k.binary("add", k.binary("mul", k.load(trace), k.u32(3)), k.load(count))
            k.store(trace, turned)
        self.scoped(body, depth - 1, in_loop=True)

    def local_counter(self) -> Node:
        count = self.k.local(u32, "i")
        self.k.store(count, self.k.u32(0))
        return count
