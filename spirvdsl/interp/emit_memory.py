"""Code for places, loads, stores and atomics."""

from __future__ import annotations

import numpy as np

from ..ir.nodes import Node
from ..lang.coopmat import CoopMatrix
from ..lang.layout import offsets_of, size_of, stride_of
from ..lang.types import Array, Struct, Type, Vector, scalar_of
from .checks import Bad
from .emit_matrix import element_of_matrix
from .places import Group, Local, Spot, byte_spot, chain_of, length_of, memory_type, suffix
from .values import dtype_of, memory_dtype


class MemoryEmitter:
    """Mixed into FunctionEmitter, which has line, fresh, names, indices, locals and program."""

    def op_local(self, node: Node) -> None:
        """Declared at the top of the function."""

    op_resource = op_member = op_local

    def declare(self, local: Local) -> None:
        """A local's variables, unset."""
        for g in local.groups.values():
            if g.dynamic:
                self.line(f"{g.var} = LaneArray({g.count}, {self.called(local)!r}, S.lanes)")
            else:
                self.line(f"{g.var} = [UNSET] * {g.count}" if g.dims else f"{g.var} = UNSET")

    def called(self, local: Local) -> str:
        """A local in a message."""
        return f"'{local.name}'"

    def op_index(self, node: Node) -> None:
        root, _ = chain_of(node)
        t = node.args[0].type.elem
        name = f"'{root.attrs['resource'].name if root.op == 'resource' else root.attrs['name']}'"
        at = node.args[1]
        if isinstance(t, CoopMatrix):  # checked where it is used: how many elements a lane holds is known when running
            self.indices[node] = (at.attrs["value"] if at.op == "const" else self.fresh(), None)
            if at.op != "const":
                self.line(f"{self.indices[node][0]} = {self.names[at]}")
            return
        n = length_of(t)
        if at.op == "const" and n is not None:
            k = at.attrs["value"]
            inside = 0 <= k < n
            bad = None if inside else self.program.object(Bad(np.True_, dtype_of(at.type).type(k), n, name))
            self.indices[node] = (k if inside else 0, bad)
            return
        k, bad = self.fresh(), self.fresh()
        length = n if n is not None else f"S.n{self.program.resources[root.attrs['resource']]}"
        self.line(f"{k}, {bad} = index({self.names[at]}, {length}, {name!r})")
        self.indices[node] = (k, bad)

    def op_array_length(self, node: Node) -> None:
        self.names[node] = f"S.u{self.program.resources[node.args[0].attrs['resource']]}"

    def op_load(self, node: Node) -> None:
        root, nodes = chain_of(node.args[0])
        if element_of_matrix(node.args[0]):
            self.load_element(node, self.locals[root], nodes)
            return
        if root.op == "local":
            self.load_local(node, self.locals[root], nodes)
            return
        spot = byte_spot(nodes, self.indices)
        self.report(spot.bads)
        text = self.load_text(root, spot, node.type, 0)
        self.line(f"{self.result(node)} = {text}")

    def op_store(self, node: Node) -> None:
        root, nodes = chain_of(node.args[0])
        value = self.names[node.args[1]]
        if element_of_matrix(node.args[0]):
            self.store_element(self.locals[root], nodes, value)
            return
        if root.op == "local":
            self.store_local(self.locals[root], nodes, node.args[1].type, value)
            return
        spot = byte_spot(nodes, self.indices)
        self.program.stored.add(self.program.resources[root.attrs["resource"]])
        self.store_bytes(root, spot, node.args[1].type, 0, value, self.guard(spot.bads))

    def report(self, bads: list[str]) -> None:
        """Indices out of range are errors now that the place is used."""
        if self.check:
            for bad in bads:
                self.line(f"if {bad} is not None: {bad}.report(m)")

    def guard(self, bads: list[str]) -> str:
        """The mask a store goes by."""
        if self.check or not bads:
            self.report(bads)
            return "m"
        self.line("q = m")
        for bad in bads:
            self.line(f"if {bad} is not None: q = {bad}.without(q)")
        return "q"

    # byte memory
    def base(self, root: Node, dtype: np.dtype) -> tuple[int, str, str]:
        """(resource number, view, expression added to every index)."""
        resource = root.attrs["resource"]
        i = self.program.resources[resource]
        view = self.program.view(i, dtype)
        return i, view, f"S.g{i}_{suffix(dtype)}" if resource.kind == "workgroup" else ""

    def load_text(self, root: Node, spot: Spot, t: Type, extra: int) -> str:
        """Expression of the value of type `t` at spot + extra bytes."""
        if isinstance(t, Struct):
            offsets = offsets_of(memory_type(t))
            return f"({''.join(self.load_text(root, spot, f.type, extra + o) + ', ' for f, o in zip(t.fields, offsets))})"
        if isinstance(t, Array) and not (scalar_of(t.elem) and not isinstance(t.elem, Vector)):
            stride = stride_of(memory_type(t))
            return f"({''.join(self.load_text(root, spot, t.elem, extra + i * stride) + ', ' for i in range(t.length))})"
        s = scalar_of(t) or t.elem
        dtype = memory_dtype(s)
        i, view, base = self.base(root, dtype)
        at = spot.at(extra, dtype.itemsize, base)
        n = t.lanes if isinstance(t, Vector) else t.length if isinstance(t, Array) else 0
        if base:
            text = f"S.w{i}.load({view}, {at}, {n}, m, {self.check})"
        else:
            text = f"load_row({view}, {at}, {n})" if n else f"{view}.take({at})"
        if s.encoding == "bf16" or s.is_bool:
            text = f"from_memory({self.program.object(s)}, {text})"
        return f"members({text})" if isinstance(t, Array) else text

    def store_bytes(self, root: Node, spot: Spot, t: Type, extra: int, value: str, mask: str) -> None:
        """Lines that store `value` (an expression) of type `t`."""
        if isinstance(t, Struct):
            for i, (f, o) in enumerate(zip(t.fields, offsets_of(memory_type(t)))):
                self.store_bytes(root, spot, f.type, extra + o, f"{value}[{i}]", mask)
            return
        if isinstance(t, Array | Vector):
            n = t.lanes if isinstance(t, Vector) else t.length
            stride = size_of(memory_type(t.elem)) if isinstance(t, Vector) else stride_of(memory_type(t))
            for i in range(n):
                part = f"squeeze({value}[{i}])" if isinstance(t, Vector) else f"{value}[{i}]"
                self.store_bytes(root, spot, t.elem, extra + i * stride, part, mask)
            return
        dtype = memory_dtype(t)
        i, view, base = self.base(root, dtype)
        if t.encoding == "bf16":
            value = f"to_memory({self.program.object(t)}, {value})"
        self.line(f"at = {spot.at(extra, dtype.itemsize, base)}")
        self.line(f"store({view}, at, {value}, {mask})")
        if base:
            self.line(f"S.w{i}.wrote({dtype.itemsize}, at, {mask})")

    def op_atomic(self, node: Node) -> None:
        fn = node.attrs["fn"]
        root, nodes = chain_of(node.args[0])
        spot = byte_spot(nodes, self.indices)
        mask = self.guard(spot.bads)
        dtype = memory_dtype(node.args[0].type.elem)
        i, view, base = self.base(root, dtype)
        values = [self.names[a] for a in node.args[1:]] + ["None", "None"]
        self.line(f"at = {spot.at(0, dtype.itemsize, base)}")
        if base and fn != "store" and self.check:
            self.line(f"S.w{i}.read({dtype.itemsize}, at, 1, {mask})")
        if fn != "load":
            self.program.stored.add(i)
        text = f"atomic({fn!r}, {view}, at, {values[0]}, {values[1]}, {mask}, S.lanes)"
        self.line(text if node.type is None else f"{self.result(node)} = {text}")
        if base and fn == "store":
            self.line(f"S.w{i}.wrote({dtype.itemsize}, at, {mask})")

    # locals
    def slot(self, g: Group, indices: list[tuple]) -> str:
        """Expression of the element number of a group."""
        spot = Spot()
        for (k, _), stride in zip(indices, g.strides()):
            if isinstance(k, int):
                spot.const += k * stride
            else:
                spot.terms.append((k, stride))
        return spot.at(0)

    def load_local(self, node: Node, local: Local, nodes: list[Node]) -> None:
        path, indices = local.spot(nodes, self.indices)
        self.report([bad for _, bad in indices if bad is not None])
        g = local.groups.get(path)
        if g is None or len(indices) < len(g.dims):
            self.line(f"{self.result(node)} = {self.tree(local, node.type, path, indices, False)}")
            return
        if g.dynamic:
            self.line(f"{self.result(node)} = {g.var}.get({self.slot(g, indices)}, m)")
            return
        name = self.result(node)
        self.line(f"{name} = {self.entry(g, indices)}")
        self.line(f"if {name}.__class__ is Partial: {name} = ld({name}, m, {self.called(local)!r})")

    def entry(self, g: Group, indices: list[tuple]) -> str:
        """The variable or list entry of a group that is not indexed at run time."""
        return f"{g.var}[{self.slot(g, indices)}]" if g.dims else g.var

    def load_element(self, node: Node, local: Local, nodes: list[Node]) -> None:
        """An element of a matrix that lies in a local: of the whole, read first."""
        t, path, indices = nodes[-1].args[0].type.elem, *local.spot(nodes[:-1], self.indices)
        self.report([bad for _, bad in indices if bad is not None])
        whole = self.tree(local, t, path, indices, False)
        self.line(f"{self.result(node)} = S.matrices.element({whole}, {self.indices[nodes[-1]][0]}, {self.program.object(t)}, m)")

    def store_element(self, local: Local, nodes: list[Node], value: str) -> None:
        """The same, put back whole: the matrix must have been given a value before."""
        t, path, indices = nodes[-1].args[0].type.elem, *local.spot(nodes[:-1], self.indices)
        mask = self.guard([bad for _, bad in indices if bad is not None])
        whole = self.tree(local, t, path, indices, False)
        self.line(f"e = S.matrices.replaced({whole}, {self.indices[nodes[-1]][0]}, {value}, {self.program.object(t)}, m)")
        self.store_tree(local, t, path, indices, "e", mask)

    def tree(self, local: Local, t: Type, path: tuple, indices: list[tuple], lenient: bool) -> str:
        """Expression of a composite value; members that are not assigned are poison."""
        name = self.called(local)
        if isinstance(t, Struct):
            return f"({''.join(self.tree(local, f.type, (*path, i), indices, True) + ', ' for i, f in enumerate(t.fields))})"
        if isinstance(t, Array):
            return f"({''.join(self.tree(local, t.elem, path, [*indices, (i, None)], True) + ', ' for i in range(t.length))})"
        if isinstance(t, Vector) and local.split:
            parts = "".join(self.tree(local, t.elem, path, [*indices, (i, None)], lenient) + ", " for i in range(t.lanes))
            dtype = self.program.object(dtype_of(t.elem))
            return f"soft_vector(({parts}), {dtype}, {name!r})" if lenient else f"build_vector(({parts}), {dtype})"
        g = local.groups[path]
        if g.dynamic:
            return f"{g.var}.get({self.slot(g, indices)}, m, {lenient})"
        return f"{'soft' if lenient else 'hard'}({self.entry(g, indices)}, m, {name!r})"

    def store_local(self, local: Local, nodes: list[Node], t: Type, value: str) -> None:
        path, indices = local.spot(nodes, self.indices)
        mask = self.guard([bad for _, bad in indices if bad is not None])
        self.store_tree(local, t, path, indices, value, mask)

    def store_tree(self, local: Local, t: Type, path: tuple, indices: list[tuple], value: str, mask: str) -> None:
        """Lines that store `value` (an expression) of type `t` member by member."""
        if isinstance(t, Struct):
            for i, f in enumerate(t.fields):
                self.store_tree(local, f.type, (*path, i), indices, f"{value}[{i}]", mask)
        elif isinstance(t, Array):
            for i in range(t.length):
                self.store_tree(local, t.elem, path, [*indices, (i, None)], f"{value}[{i}]", mask)
        elif isinstance(t, Vector) and local.split:
            for i in range(t.lanes):
                self.store_tree(local, t.elem, path, [*indices, (i, None)], f"squeeze({value}[{i}])", mask)
        else:
            g = local.groups[path]
            if mask == "q":
                self.line("if q is not False:")
                self.depth += 1
            if g.dynamic:
                self.line(f"{g.var}.set({self.slot(g, indices)}, {value}, {mask}, lv)")
            else:
                where = self.entry(g, indices)
                self.line(f"{where} = {value} if {mask} is lv else st({where}, {value}, {mask})")
            if mask == "q":
                self.depth -= 1
