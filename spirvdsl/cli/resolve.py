"""From `MODULE:KERNEL[STAMP]` to a kernel object. Stamp arguments are names of the module, ints, bools and strings; nothing is evaluated."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import spirvdsl

_SHAPE = re.compile(r"^(?P<module>[\w.]+):(?P<kernel>\w+)(\[(?P<stamp>.*)\])?$", re.DOTALL)


class CommandError(Exception):
    """A command that cannot be carried out: one line that says why and what to do."""


def load_module(name: str) -> ModuleType:
    """Import by name, from the working directory too. CommandError when there is no such module, or when it fails to import."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise CommandError(f"cannot import {name}: {error}; name a module that Python finds from {here}") from None
    except (ImportError, SyntaxError, TypeError, NameError, ValueError, AttributeError) as error:
        raise CommandError(f"importing {name} failed: {type(error).__name__}: {error}") from None


def resolve(text: str) -> Any:
    """The kernel, with compile() and ir(). CommandError for anything else; CompileError for a stamp that is not valid."""
    match = _SHAPE.match(text)
    if match is None:
        raise CommandError(f"{text!r} is not MODULE:KERNEL or MODULE:KERNEL[STAMP], as in kernels.norm:rms_norm")
    module = load_module(match["module"])
    kernel = getattr(module, match["kernel"], None)
    if kernel is None:
        own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__ and (is_kernel(v) or is_template(v))]
        known = ", ".join(sorted(own))
        raise CommandError(f"{match['module']} has no {match['kernel']}; its kernels are {known or 'none'}")
    if match["stamp"] is not None:
        if not is_template(kernel):
            raise CommandError(f"{match['kernel']} is no template, it takes no [...]")
        kernel = kernel[stamp_arguments(match["stamp"], module)]
    elif is_template(kernel):
        kernel = kernel.stamp()
    if not is_kernel(kernel):
        raise CommandError(f"{match['module']}:{match['kernel']} is a {type(kernel).__name__}, not a kernel")
    return kernel


def is_template(value: Any) -> bool:
    """A class kernel that waits for its parameters."""
    return isinstance(value, type) and callable(getattr(value, "stamp", None))


def is_kernel(value: Any) -> bool:
    """Something that compiles."""
    return not isinstance(value, type) and callable(getattr(value, "compile", None)) and callable(getattr(value, "ir", None))


def stamp_arguments(text: str, module: ModuleType) -> tuple[Any, ...]:
    """`Q4_K, 4, True` as values."""
    try:
        tree = ast.parse(f"({text},)", mode="eval").body
    except SyntaxError:
        raise CommandError(f"[{text}] is not a list of names, numbers and strings") from None
    if not isinstance(tree, ast.Tuple) or not tree.elts:
        raise CommandError(f"[{text}] is not a list of names, numbers and strings")
    return tuple(_argument(node, module) for node in tree.elts)


def _argument(node: ast.expr, module: ModuleType) -> Any:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _argument(node.operand, module)
        if isinstance(value, int) and not isinstance(value, bool):
            return -value
    if isinstance(node, ast.Constant) and isinstance(node.value, int | str):
        return node.value
    if isinstance(node, ast.Name):
        for scope in (module, spirvdsl):
            if hasattr(scope, node.id):
                return getattr(scope, node.id)
        raise CommandError(f"stamp argument {node.id} is not a name of {module.__name__}")
    raise CommandError(f"stamp argument {ast.unparse(node)!r} is not a name, number, bool or string")
