"""Parts of things: attributes, elements, components and swizzles, read and assigned."""

from __future__ import annotations

import ast
from typing import Any

from ..ir.nodes import Node, Span
from ..lang.coopmat import CoopMatrix
from ..lang.types import Array, RuntimeArray, Struct, Vector, u32
from .frame import Names
from .typing import coerce, index_node
from .values import Items, Place, Variable, describe, is_runtime

_COMPONENTS = {"x": 0, "y": 1, "z": 2, "w": 3}
Part = ast.Attribute | ast.Subscript


class Parts(Names):
    """base.attr and base[index] for run-time and compile-time bases."""

    pinned: dict[ast.Subscript, Any]  # indices of the assignment under way

    def expr_Attribute(self, node: ast.Attribute) -> Any:
        return self.part(self.eval(node.value), node)

    def expr_Subscript(self, node: ast.Subscript) -> Any:
        return self.part(self.eval(node.value), node)

    def expr_Slice(self, node: ast.Slice) -> Any:
        raise self.error("E0102", "slices have no lowering", node, "index one element")

    def part(self, base: Any, node: Part) -> Any:
        """base.attr or base[index]: a Place of a Place, a Node of a Node, a value of a compile-time object."""
        if isinstance(base, Place):
            return self._place_attr(base, node) if isinstance(node, ast.Attribute) else self._place_index(base, node)
        if isinstance(base, Node):
            return self._node_part(base, node)
        if isinstance(node, ast.Attribute):
            return self.static_attr(base, node.attr, node)
        if isinstance(base, tuple | Items | range):
            cells = base.values() if isinstance(base, Items) else base
            return cells[self.static_index(cells, node)]
        index = self.index_of(node)
        if is_runtime(index):
            raise self.error("E0209", f"cannot index {describe(base)} with a run-time value", node, "index compile-time sequences by constants")
        try:
            return base[index]
        except TypeError as why:
            code = "E0702" if base is CoopMatrix else "E0209"
            raise self.error(code, f"{ast.unparse(node)}: {why}", node) from None
        except Exception as why:  # noqa: BLE001 whatever the author's object raises is the author's line
            raise self.error("E0209", f"{ast.unparse(node)}: {why}", node) from None

    def static_index(self, cells: Any, node: Part) -> int:
        """The index of a compile-time sequence, counted from 0."""
        at = self.index_of(node)
        if not isinstance(at, int) or isinstance(at, bool):
            raise self.error("E0209", f"a list or tuple is indexed by a compile-time int, this is {describe(at)}", node, "loop with static_range, or use local_array")
        if not -len(cells) <= at < len(cells):
            raise self.error("E0211", f"index {at} is out of range of {len(cells)} elements", node)
        return at % len(cells)

    def _place_attr(self, base: Place, node: ast.Attribute) -> Any:
        t = base.type
        if isinstance(t, Struct):
            at = self._field(t, node)
            return Place(self.b.member(base.ref, at), base.resource, f"{base.what}.{node.attr}", (*base.steps, at), base.owned)
        if isinstance(t, Vector):
            lanes = self.swizzle(t, node)
            if len(lanes) == 1:
                return self._lane_place(base, lanes[0], node.attr)
            return self._node_part(self.load(base, self.span(node)), node)
        raise self.error("E0106", f"{t.name} has no member {node.attr}", node)

    def _lane_place(self, base: Place, lane: int, name: str) -> Place:
        step = self.b.const(u32, lane)
        return Place(self.b.index(base.ref, step), base.resource, f"{base.what}.{name}", (*base.steps, step), base.owned)

    def _place_index(self, base: Place, node: ast.Subscript) -> Place:
        t = base.type
        if not isinstance(t, Array | RuntimeArray | Vector | CoopMatrix):
            raise self.error("E0209", f"cannot index {t.name}", node)
        length = _length(t)
        index = index_node(self.b, self.index_of(node), length, self.span(node))
        return Place(self.b.index(base.ref, index), base.resource, f"an element of {base.what}", (*base.steps, index), base.owned)

    def _node_part(self, base: Node, node: Part) -> Node:
        t = base.type
        at = self.component(base, node)
        if isinstance(at, int):
            return self.b.extract(base, at)
        if isinstance(node, ast.Attribute):
            lanes = self.swizzle(t, node)
            return self.b.node("shuffle", Vector(t.elem, len(lanes)), (base, base), lanes=lanes)
        if isinstance(t, Vector):
            return self.b.node("extract_dynamic", t.elem, (base, at))
        spill = self.b.local(t, "spill")  # a value has no run-time index: through memory
        self.b.store(spill, base)
        return self.b.load(self.b.index(spill, at))

    def component(self, base: Node, node: Part) -> int | Node | None:
        """Which single component of a value is meant: a number, a run-time index, or None for a swizzle."""
        t = base.type
        if isinstance(node, ast.Attribute):
            if isinstance(t, Struct):
                return self._field(t, node)
            if not isinstance(t, Vector):
                raise self.error("E0106", f"{describe(base)} has no member {node.attr}", node)
            lanes = self.swizzle(t, node)
            return lanes[0] if len(lanes) == 1 else None
        if not isinstance(t, Vector | Array | CoopMatrix):
            raise self.error("E0209", f"cannot index {describe(base)}", node)
        at = self.index_of(node)
        if isinstance(at, Node) and at.op != "const":
            return index_node(self.b, at, None, self.span(node))
        return index_node(self.b, at, _length(t), self.span(node)).attrs["value"]

    def _field(self, t: Struct, node: ast.Attribute) -> int:
        at = t.index(node.attr)
        if at is None:
            raise self.error("E0106", f"{t.name} has no member {node.attr}", node, f"members: {', '.join(f.name for f in t.fields)}")
        return at

    def swizzle(self, t: Vector, node: ast.Attribute) -> tuple[int, ...]:
        lanes = tuple(_COMPONENTS.get(c, 9) for c in node.attr)
        if len(lanes) > 4 or any(n >= t.lanes for n in lanes):
            raise self.error("E0106", f"{t.name} has no component {node.attr}", node, f"components: {'xyzw'[: t.lanes]}")
        return lanes

    def index_of(self, node: ast.Subscript) -> Any:
        """The value in the brackets; while an assignment is under way it is evaluated once."""
        return self.pinned[node] if node in self.pinned else self.value(node.slice)

    # assignment
    def target(self, node: Part) -> tuple[Any, Any]:
        """What an assignment to a part changes: (base, what is there now). Base and index are evaluated once, until release().

        A struct, vector or array value that is changed deeper than one fixed component becomes a variable first.
        """
        root = self._root(node)
        if root and not isinstance(node.value, ast.Name):
            self._spill(root, node)
        base = self.eval(node.value)
        if isinstance(base, Node) and not (root and isinstance(node.value, ast.Name)):
            raise self.error("E0308", "cannot assign to a part of a value that has no name", node)
        if isinstance(node, ast.Subscript):
            self.pinned[node] = self.value(node.slice)
            if isinstance(base, Node) and not isinstance(self.component(base, node), int):
                self._spill(root, node)
                base = self.eval(node.value)
        with self.speaking_of(self.span(node)):
            return base, self.part(base, node)

    def release(self, node: Part) -> None:
        """The assignment to this part is done."""
        self.pinned.pop(node, None)

    def _root(self, node: ast.expr) -> str:
        """The local name whose value an assignment to a part would change, or "" when it goes to memory."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return node.id if isinstance(node, ast.Name) and isinstance(self.frame.env.get(node.id), Node) else ""

    def _spill(self, name: str, node: ast.AST) -> None:
        self.frame.bind(name, self.make_variable(name, self.frame.env[name], self.span(node)))

    def assign_part(self, node: Part, value: Any, span: Span) -> None:
        """x[i] = value, v.x = value, v.zx = value, s.field = value."""
        base, now = self.target(node)
        self.put_part(base, now, node, value, span)
        self.release(node)

    def put_part(self, base: Any, now: Any, node: Part, value: Any, span: Span) -> None:
        """The same once target() has said what base and part are."""
        lanes = self._written_lanes(base, node)
        if lanes is not None:
            self._put_swizzle(base, lanes, node, value, span)
        elif isinstance(base, Items):
            self._put_item(base, node, value, span)
        elif isinstance(base, Node):
            at = self.component(base, node)
            elem = base.type.fields[at].type if isinstance(base.type, Struct) else base.type.elem
            new = coerce(self.b, self.rvalue(value, span), elem, f"{node.value.id}.{getattr(node, 'attr', at)}", span)
            self.assign_name(node.value.id, self.b.node("insert", base.type, (base, new), index=at), span)
        elif isinstance(now, Place):
            self.store(now, value, span, self.span(node))
        else:
            raise self.error("E0308", f"cannot assign to {ast.unparse(node)}", node)

    def _written_lanes(self, base: Any, node: Part) -> tuple[int, ...] | None:
        """The lanes of a swizzle that is assigned, None for any other part."""
        if not isinstance(node, ast.Attribute) or not isinstance(base, Node | Place) or not isinstance(base.type, Vector):
            return None
        lanes = self.swizzle(base.type, node)
        if len(set(lanes)) != len(lanes):
            raise self.error("E0308", f"component assigned twice in .{node.attr}", node, "name each component once")
        return lanes if len(lanes) > 1 else None

    def _put_swizzle(self, base: Node | Place, lanes: tuple[int, ...], node: ast.Attribute, value: Any, span: Span) -> None:
        elem = base.type.elem
        new = coerce(self.b, self.rvalue(value, span), Vector(elem, len(lanes)), f".{node.attr}", span)
        if isinstance(base, Place):
            self.writable(base, span)
            for i, lane in enumerate(lanes):
                self.b.store(self._lane_place(base, lane, "xyzw"[lane]).ref, self.b.extract(new, i))
            return
        changed = base
        for i, lane in enumerate(lanes):
            changed = self.b.node("insert", base.type, (changed, self.b.extract(new, i)), index=lane)
        self.assign_name(node.value.id, changed, span)

    def _put_item(self, items: Items, node: Part, value: Any, span: Span) -> None:
        """tiles[i] = value: run-time cells are local variables, so that loops may change them."""
        if isinstance(node, ast.Attribute):
            raise self.error("E0106", f"a list has no member {node.attr}", node, "a list inside a kernel has elements only")
        at = self.static_index(items, node)
        cell = items.cells[at]
        if isinstance(cell, Variable):
            self.b.store(cell.place.ref, coerce(self.b, self.rvalue(value, span), cell.place.type, f"element {at}", span, "E0204"))
        elif self.ctx.depth > items.depth:
            raise self.error("E0213", f"element {at} is {describe(cell)}, which cannot change under run-time control flow", node, "give it a run-time value, e.g. f32(0)")
        else:
            items.cells[at] = self.cell(value, span)

    def cell(self, value: Any, span: Span) -> Any:
        """A list element: run-time values become local variables, so that loops may change them; memory stays memory."""
        if isinstance(value, Place):
            value = self.bound_place(value, span)
        if isinstance(value, Node):
            place = Place(self.ctx.local(value.type, "cell"), None, "list element", owned=True)
            self.b.store(place.ref, value)
            return Variable("cell", place)
        return value


def _length(t: Any) -> int | None:
    """How many elements an index may name; of a matrix, the most that one lane can hold."""
    return {Array: lambda: t.length, Vector: lambda: t.lanes, CoopMatrix: lambda: t.size}.get(type(t), lambda: None)()
