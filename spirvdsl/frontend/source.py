"""Python source of a function as an AST whose positions are those of the file (inspect + ast, never bytecode)."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Span


@dataclass(frozen=True, eq=False)
class Source:
    """The definition of one function and the names it can see."""

    function: Callable
    node: ast.FunctionDef
    file: str
    globals: dict[str, Any]

    def span(self, node: ast.AST, parent: Span | None = None) -> Span:
        """Where `node` stands in the author's file."""
        return Span(self.file, node.lineno, node.col_offset, node.end_lineno or node.lineno,
                    node.end_col_offset or node.col_offset, parent)


@lru_cache(maxsize=256)
def _definitions(text: str) -> dict[tuple[int, str], ast.AST]:
    """Every def, lambda-free, of a file by (first line with decorators, name). Whole files keep positions exact."""
    out = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            out[first, node.name] = node
    return out


@cache
def source_of(function: Callable) -> Source:
    """Parse a function's source once.

    Raises CompileError E0104 when there is none (typed at a prompt, built by exec, a lambda, async or a generator).
    """
    function = inspect.unwrap(function)
    help = "write the kernel as a plain def in a file"
    try:
        lines, _ = inspect.findsource(function)
        file = inspect.getsourcefile(function) or "<unknown>"
    except (OSError, TypeError):
        raise CompileError("E0104", f"source of {getattr(function, '__name__', function)} cannot be read", None, help) from None
    code = function.__code__
    node = _definitions("".join(lines)).get((code.co_firstlineno, code.co_name))
    if not isinstance(node, ast.FunctionDef):
        raise CompileError("E0104", f"{function.__name__} is not a plain function", Span(file, code.co_firstlineno, 0), help)
    visible = dict(function.__globals__)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            visible[name] = cell.cell_contents
        except ValueError:
            continue  # a name bound later, e.g. the function itself
    return Source(function, node, file, visible)


def stored_in(nodes: list[ast.stmt]) -> list[str]:
    """Plain names that some statement below `nodes` assigns or changes in part (v.x = ..., v[i] = ...), in order."""
    out: dict[str, None] = {}
    for top in nodes:
        for n in ast.walk(top):
            if not isinstance(getattr(n, "ctx", None), ast.Store):
                continue
            while isinstance(n, ast.Attribute | ast.Subscript):
                n = n.value
            if isinstance(n, ast.Name):
                out[n.id] = None
    return list(out)
