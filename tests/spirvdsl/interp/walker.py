"""A second, deliberately naive executor: one lane at a time, u32 and bool only, exceptions for control flow.

The oracle of the structured-program tests: it shares no code with the interpreter.
"""

from __future__ import annotations

from spirvdsl.ir.nodes import Block, Function, Module, Node

MASK = 0xFFFFFFFF
_OPS = {
    "add": lambda a, b: (a + b) & MASK, "sub": lambda a, b: (a - b) & MASK, "mul": lambda a, b: (a * b) & MASK,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "lt": lambda a, b: a < b, "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b, "ge": lambda a, b: a >= b, "shr": lambda a, b: a >> b, "not": lambda a: not a,
    "select": lambda c, a, b: a if c else b,
}  # fmt: skip


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    def __init__(self, value):
        self.value = value


def walk_module(module: Module, lanes: int, memory: dict[str, list[int]]) -> None:
    """Runs every lane to its end, one after the other (fine where lanes do not talk to each other)."""
    for lane in range(lanes):
        _Lane(lane, memory).call(module.entry, [])


class _Lane:
    def __init__(self, lane: int, memory: dict[str, list[int]]):
        self.lane, self.memory = lane, memory

    def call(self, fn: Function, args: list) -> int | None:
        values: dict[Node, object] = dict(zip(fn.params, args))
        locals_: dict[Node, int] = {}
        try:
            self.block(fn.body, values, locals_)
        except _Return as r:
            return r.value
        return None

    def block(self, block: Block, v: dict, locals_: dict) -> None:
        for n in block.nodes:
            self.node(n, [v.get(a) for a in n.args], v, locals_)

    def node(self, n: Node, args: list, v: dict, locals_: dict) -> None:
        op = n.op
        if op in _OPS:
            v[n] = _OPS[op](*args)
        elif op == "const":
            v[n] = n.attrs["value"]
        elif op == "builtin":
            v[n] = (self.lane, 0, 0)
        elif op == "extract":
            v[n] = args[0][n.attrs["index"]]
        elif op == "local":
            v[n] = n
        elif op == "resource":
            v[n] = n.attrs["resource"].name
        elif op == "index":
            v[n] = (args[0], args[1])
        elif op == "load":
            v[n] = self.memory[args[0][0]][args[0][1]] if isinstance(args[0], tuple) else locals_[args[0]]
        elif op == "store" and isinstance(args[0], tuple):
            self.memory[args[0][0]][args[0][1]] = args[1]
        elif op == "store":
            locals_[args[0]] = args[1]
        elif op == "call":
            v[n] = self.call(n.attrs["function"], args)
        elif op == "if":
            self.block(n.blocks[0 if args[0] else 1], v, locals_)
        elif op == "loop":
            self.loop(n, v, locals_)
        elif op == "return":
            raise _Return(args[0] if args else None)
        elif op == "break":
            raise _Break
        elif op == "continue":
            raise _Continue
        elif op != "yield":
            raise NotImplementedError(op)

    def loop(self, n: Node, v: dict, locals_: dict) -> None:
        test, body, step = n.blocks
        while True:
            self.block(test, v, locals_)
            if not v[test.nodes[-1].args[0]]:
                return
            try:
                self.block(body, v, locals_)
            except _Break:
                return
            except _Continue:
                pass
            self.block(step, v, locals_)
