"""Code for single operations: computation, built-ins, memory, atomics, subgroups, barriers."""

from __future__ import annotations

import numpy as np

from ..ir.nodes import Node
from ..lang.coopmat import CoopMatrix, component_of
from ..lang.types import Array, Scalar, Struct, Type, Vector
from . import arith, checks, masks
from .atomics import atomic
from .emit_matrix import MatrixEmitter
from .emit_memory import MemoryEmitter
from .faults import Partial, Poison, PoisonVector
from .memory import LaneArray, load_many, load_row, store
from .pure import function_of
from .values import build_vector, dtype_of, from_memory, squeeze, to_memory

_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^",
          "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ROUNDING = ("add", "sub", "mul", "div", "rem", "math", "dot", "convert")


def undefined(t: Type):
    """The value of an `undef` node."""
    if isinstance(t, Struct):
        return tuple(undefined(f.type) for f in t.fields)
    if isinstance(t, Array):
        return (undefined(t.elem),) * t.length
    if isinstance(t, Vector):
        return PoisonVector("an undefined value", (None,) * t.lanes, dtype_of(t.elem))
    return Poison("an undefined value")


def soft_vector(parts: tuple, dtype: np.dtype, name: str):
    """A vector of components that may be poison."""
    if any(isinstance(p, Poison) for p in parts):
        return PoisonVector(f"a part of {name} that no store has reached",
                            tuple(None if isinstance(p, Poison) else p for p in parts), dtype)
    return build_vector(parts, dtype)


def members(vector) -> tuple:
    """The rows of a vector as the members of an array value."""
    return tuple(squeeze(r) for r in vector)


NAMESPACE = {
    "np": np, "split": masks.split, "narrow": masks.narrow, "join": masks.join, "minus": masks.minus,
    "settle": masks.settle, "merge": masks.merge, "st": masks.st, "ld": masks.ld, "soft": masks.soft, "hard": masks.hard,
    "Partial": Partial, "UNSET": Partial(None, False), "LaneArray": LaneArray, "store": store, "load_row": load_row,
    "load_many": load_many, "build_vector": build_vector, "soft_vector": soft_vector, "squeeze": squeeze, "members": members,
    "from_memory": from_memory, "to_memory": to_memory, "atomic": atomic, "stuck": checks.stuck, "index": checks.index,
    "unreachable": checks.unreachable, "chk_shift": checks.shift, "chk_div": checks.division, "chk_conv": checks.float_to_int,
    "chk_field": checks.bit_field, "chk_lane": checks.lane_index,
}


class OpEmitter(MemoryEmitter, MatrixEmitter):
    """Expressions and effects. `names` maps values to variables."""

    def result(self, node: Node) -> str:
        """A variable for the node's value."""
        name = self.names[node] = self.fresh()
        return name

    def arguments(self, node: Node) -> str:
        return ", ".join(self.names[a] for a in node.args)

    # values without code
    def op_const(self, node: Node) -> None:
        self.names[node] = self.program.const(node.type, node.attrs["value"])

    def op_undef(self, node: Node) -> None:
        self.names[node] = self.program.object(undefined(node.type))

    def op_spec_const(self, node: Node) -> None:
        self.names[node] = f"S.spec{self.program.specs[node.attrs['spec']]}"

    def op_builtin(self, node: Node) -> None:
        self.names[node] = f"S.{node.attrs['name']}"

    # computation
    def pure(self, node: Node) -> None:
        """Any op that is a function of its arguments."""
        if self.check:
            self.checks(node)
        op, args = node.op, [self.names[a] for a in node.args]
        s = component_of(node.args[0].type) if node.args else None
        flushed = self.flushes(node)
        plain = s is not None and s.encoding == "ieee" and not flushed
        if op in _INFIX and (plain or op in arith.COMPARE):
            text = f"{args[0]} {_INFIX[op]} {args[1]}"
        elif op == "not":
            text = f"~{args[0]}"
        elif op == "neg" and plain:
            text = f"-{args[0]}"
        elif op in ("struct", "array"):
            text = f"({', '.join(args)},)"
        else:
            text = f"{self.program.object(flushing(function_of(node)) if flushed else function_of(node))}({', '.join(args)})"
        self.line(f"{self.result(node)} = {text}")

    def flushes(self, node: Node) -> bool:
        """True when the kernel asks for subnormals of this result to become zero."""
        s = component_of(node.type)
        widths = self.program.float_controls.denorm_flush
        return bool(widths) and node.op in _ROUNDING and s is not None and s.is_float and s.bits in widths

    def checks(self, node: Node) -> None:
        """Lines that report what the IR leaves undefined."""
        op = node.op
        s = component_of(node.args[0].type) if node.args else None
        if op in ("shl", "shr"):
            if not _all_const(node.args[1], lambda n: 0 <= n < s.bits):
                self.line(f"chk_shift({self.names[node.args[1]]}, {s.bits}, m)")
        elif op in ("div", "rem") and s.is_int:
            if not _all_const(node.args[1], lambda n: n not in (0, -1)):
                least = s.range()[0] if s.is_signed else None
                self.line(f"chk_div({self.arguments(node)}, {least}, m)")
        elif op == "convert" and s.is_float and component_of(node.type).is_int:
            lo, hi = arith.float_to_int_limits(s, component_of(node.type))
            self.line(f"chk_conv({self.arguments(node)}, {lo!r}, {hi!r}, {component_of(node.type).name!r}, m)")
        elif op == "math" and node.attrs["fn"] == "bit_extract":
            at, count = (self.names[a] for a in node.args[1:])
            self.line(f"chk_field({at}, {count}, {s.bits}, m)")
        elif op in ("extract", "insert") and isinstance(node.args[0].type, CoopMatrix):
            self.line(f"S.matrices.position({node.attrs['index']}, {self.program.object(node.args[0].type)}, m)")
        elif op == "extract_dynamic":
            self.line(f"chk_lane({self.names[node.args[1]]}, {node.args[0].type.lanes}, m)")

    # effects
    def op_barrier(self, node: Node) -> None:
        self.line(f"S.barrier({node.attrs['scope']!r}, m, {self.check})")

    def op_memory_barrier(self, node: Node) -> None:
        """Lanes run in lockstep: memory is always seen."""

    def op_subgroup(self, node: Node) -> None:
        fn, at = node.attrs["fn"], node.attrs
        args = [self.names[a] for a in node.args]
        x = args[0] if args else ""
        text = {
            "elect": "elect(m)", "all": f"vote('all', {x}, m)", "any": f"vote('any', {x}, m)",
            "all_equal": f"all_equal({x}, m)", "ballot": f"ballot({x}, m)", "inverse_ballot": f"inverse_ballot({x})",
            "ballot_bit_count": f"ballot_bit_count({x}, {at.get('mode', 'reduce')!r})",
            "broadcast_first": f"broadcast_first({x}, m)",
            "quad_swap": f"move('quad_swap', {x}, {at.get('direction', 0)}, m)",
        }.get(fn)
        if fn == "broadcast":
            text = f"broadcast({x}, {args[1]}, m, {self.check})"
        elif text is None and len(args) == 2:
            text = f"move({fn!r}, {x}, {args[1]}, m, {at.get('cluster')!r})"
        elif text is None:
            text = f"reduce({fn!r}, {at['mode']!r}, {at.get('cluster')!r}, {x}, m)"
        self.line(f"{self.result(node)} = S.sub.{text}")


def flushing(fn):
    """`fn` with subnormal float arguments and results flushed to zero."""

    def body(*args):
        return arith.flush(fn(*[arith.flush(a) if a.dtype.kind == "f" else a for a in args]))

    return body


def _all_const(node: Node, ok) -> bool:
    if node.op == "splat":
        node = node.args[0]
    if node.op != "const" or not isinstance(node.type, Scalar | Vector):
        return False
    value = node.attrs["value"]
    return all(ok(v) for v in (value if isinstance(value, tuple) else (value,)))
