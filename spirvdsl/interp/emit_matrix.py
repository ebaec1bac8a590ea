"""Code for cooperative matrices: S.matrices (matrix.py) does the work."""

from __future__ import annotations

from ..ir.nodes import Node
from ..lang.coopmat import CoopMatrix, MatrixLayout
from ..lang.layout import stride_of
from ..lang.types import RuntimeArray, Type
from .places import byte_spot, chain_of, memory_type
from .values import dtype_of


def element_of_matrix(ref: Node) -> bool:
    """Whether a place is one element of a matrix in a local."""
    return ref.op == "index" and isinstance(ref.args[0].type.elem, CoopMatrix)


class MatrixEmitter:
    """Mixed into FunctionEmitter."""

    def op_matrix_fill(self, node: Node) -> None:
        self.line(f"{self.result(node)} = S.matrices.fill({self.arguments(node)}, {self.program.object(node.type)}, m)")

    def op_matrix_scale(self, node: Node) -> None:
        self.line(f"{self.result(node)} = S.matrices.scale({self.arguments(node)}, m)")

    def op_matrix_length(self, node: Node) -> None:
        self.line(f"{self.result(node)} = np.uint32(S.matrices.held({self.program.object(node.attrs['matrix'])}))")

    def op_matrix_muladd(self, node: Node) -> None:
        types = self.program.object(tuple(a.type for a in node.args))
        self.line(f"{self.result(node)} = S.matrices.muladd({self.arguments(node)}, {types}, {node.attrs['saturate']}, m)")

    def op_matrix_load(self, node: Node) -> None:
        view, memory, where = self.matrix_place(node, node.type, "matrix_load()")
        matrix = self.program.object(node.type)
        self.line(f"{self.result(node)} = S.matrices.load({view}, {memory}, {matrix}, {where}, m, {self.check})")

    def op_matrix_store(self, node: Node) -> None:
        t: Type = node.args[1].type
        view, memory, where = self.matrix_place(node, t, "matrix_store()")
        self.program.stored.add(self.program.resources[chain_of(node.args[0])[0].attrs["resource"]])
        self.line(f"S.matrices.store({view}, {memory}, {self.names[node.args[1]]}, {self.program.object(t)}, {where}, m)")

    def matrix_place(self, node: Node, t: CoopMatrix, what: str) -> tuple[str, str, str]:
        """(typed view, workgroup memory or None, arguments of Matrices.addresses) of a load or store."""
        root, nodes = chain_of(node.args[0])
        spot = byte_spot(nodes, self.indices)
        self.report(spot.bads)
        dtype = dtype_of(t.elem)
        i, view, base = self.base(root, dtype)
        array = memory_type(nodes[-1].args[0].type.elem)
        length = f"S.n{i}" if isinstance(array, RuntimeArray) else array.length
        resource, layout = root.attrs["resource"], self.program.object(_layout(node))
        where = (f"({spot.at(0, dtype.itemsize, base)}, {self.indices[nodes[-1]][0]}, {length}, {stride_of(array) // dtype.itemsize}, "
                 f"{self.names[node.args[-1]]}, {self.program.object(t)}, {layout}, {what!r}, {repr(resource.name)!r})")
        return view, f"S.w{i}" if base else "None", where


def _layout(node: Node) -> MatrixLayout:
    return node.attrs["layout"]
