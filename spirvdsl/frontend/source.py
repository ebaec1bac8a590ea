"""Python source of a function as an AST whose positions are those of the file (inspect + ast, never bytecode)."""

from __future__ import annotations

import ast
import inspect
from collections import ChainMap, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any

from ..diagnostics import CompileError
from ..ir.nodes import Span

_HELP = "write it as a plain def in a file"


@dataclass(frozen=True, eq=False)
class Source:
    """The definition of one function."""

    function: Callable
    node: ast.FunctionDef
    file: str
    lines: list[str]

    @cached_property
    def stored(self) -> frozenset[str]:
        """Names that the function assigns anywhere, as a whole or in part."""
        return frozenset(stored_in(self.node.body))

    def names(self) -> Mapping[str, Any]:
        """What the function can see around itself: its closure as it is now, then its module's globals."""
        closure = {}
        for name, cell in zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True):
            try:
                closure[name] = cell.cell_contents
            except ValueError:
                continue  # a name bound later, e.g. the function itself
        return ChainMap(closure, self.function.__globals__)

    def span(self, node: ast.AST, parent: Span | None = None) -> Span:
        """Where `node` stands in the author's file."""
        end_line = node.end_lineno or node.lineno
        return Span(self.file, node.lineno, self._column(node.lineno, node.col_offset), end_line,
                    self._column(end_line, node.end_col_offset or node.col_offset), parent)

    def head(self) -> Span:
        """The `def name` of the function, without its body."""
        span = self.span(self.node)
        return Span(self.file, span.line, span.col, span.line, span.col + len("def ") + len(self.node.name))

    def _column(self, line: int, offset: int) -> int:
        """ast counts bytes of UTF-8, authors count characters."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))

    def arguments(self) -> list[ast.arg]:
        """Every parameter in the order of the signature."""
        a = self.node.args
        return [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]


@lru_cache(maxsize=256)
def definitions(text: str) -> dict[tuple[int, str], ast.AST]:
    """Every def and class of a file by (first line with decorators, name). Whole files keep positions exact."""
    out = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            out[first, node.name] = node
    return out


@lru_cache(maxsize=4096)
def source_of(function: Callable) -> Source:
    """Parse a function's source once.

    Raises CompileError E0104 when there is none (typed at a prompt, built by exec, a lambda, async or a generator), or when
    the file has changed since the function was made.
    """
    name, code = getattr(function, "__name__", str(function)), getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        raise CompileError("E0104", f"{name} is not a plain function", None, _HELP)
    try:
        lines, _ = inspect.findsource(function)
        file = inspect.getsourcefile(function) or code.co_filename
        node = definitions("".join(lines)).get((code.co_firstlineno, code.co_name))
    except (OSError, TypeError, IndexError):
        raise CompileError("E0104", f"source of {name} cannot be read", None, _HELP) from None
    except (SyntaxError, ValueError):
        raise CompileError("E0104", f"{code.co_filename} has changed since {name} was loaded", None, "start anew") from None
    span = Span(file, code.co_firstlineno, 0)
    if code.co_name == "<lambda>" or isinstance(node, ast.AsyncFunctionDef):
        raise CompileError("E0104", f"{name} is not a plain function", span, _HELP)
    source = Source(function, node, file, lines)
    if not isinstance(node, ast.FunctionDef) or _parameters(code) != [a.arg for a in source.arguments()]:
        raise CompileError("E0104", f"{file} has changed since {name} was loaded", None, "start anew")
    return source


def _parameters(code: CodeType) -> list[str]:
    """Names in the order of the signature; bytecode has *args after keyword-only ones."""
    plain, keyword = code.co_argcount, code.co_kwonlyargcount
    names = list(code.co_varnames)
    out, rest = names[:plain], names[plain : plain + keyword]
    stars = names[plain + keyword :]
    if code.co_flags & inspect.CO_VARARGS:
        out.append(stars.pop(0))
    out += rest
    if code.co_flags & inspect.CO_VARKEYWORDS:
        out.append(stars.pop(0))
    return out


def stored_in(nodes: Sequence[ast.AST]) -> list[str]:
    """Plain names that some statement below `nodes` assigns or changes in part (v.x = ..., v[i] = ...), in order.

    Names of comprehensions are their own and do not count.
    """
    out: dict[str, None] = {}
    for top in nodes:
        todo = deque([top])
        while todo:
            n = todo.popleft()
            if isinstance(n, ast.comprehension):
                todo += [n.iter, *n.ifs]
                continue
            todo.extend(ast.iter_child_nodes(n))
            if isinstance(getattr(n, "ctx", None), ast.Store):
                while isinstance(n, ast.Attribute | ast.Subscript):
                    n = n.value
                if isinstance(n, ast.Name):
                    out[n.id] = None
    return list(out)
