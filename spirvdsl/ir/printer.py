"""Stable text of IR, for reading, golden files and test failures."""

from __future__ import annotations

from .nodes import Block, Function, Module, Node


def print_module(module: Module) -> str:
    """The whole kernel as text; equal modules give equal text."""
    lines = [f"kernel {module.name} workgroup_size={module.workgroup_size} subgroup_size={module.subgroup_size}"]
    if module.float_controls != type(module.float_controls)():
        lines.append(f"  {module.float_controls}")
    for r in module.resources:
        at = f" set={r.set} binding={r.binding} {r.access}{'' if r.written else ' nonwritable'}" if r.kind in ("storage", "uniform") else ""
        at = f" views {r.views.name}" if r.views is not None else at
        lines.append(f"  {r.kind} {r.name}: {r.type}{at}")
    for s in module.spec_consts:
        lines.append(f"  spec {s.name}: {s.type} id={s.id} default={s.default}")
    for fn in module.functions:
        lines += _print_function(fn)
    return "\n".join(lines) + "\n"


def _print_function(fn: Function) -> list[str]:
    names: dict[Node, str] = {}
    for p in fn.params:
        names[p] = f"%{p.attrs['name']}"
    head = ", ".join(f"{names[p]}: {p.type}" for p in fn.params)
    lines = [f"func {fn.name}({head}) -> {fn.result or 'void'}"]
    _print_block(fn.body, names, lines, "  ")
    return lines


def _attr(value) -> str:
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else repr(value)


def _print_block(block: Block, names: dict[Node, str], lines: list[str], pad: str) -> None:
    for node in block.nodes:
        args = ", ".join(names.get(a, "?undefined") for a in node.args)
        attrs = " ".join(f"{k}={_attr(v)}" for k, v in node.attrs.items())
        text = f"{node.op} {args}".rstrip() + (f" {{{attrs}}}" if attrs else "")
        if node.type is not None:
            names[node] = f"%{len(names)}"
            text = f"{names[node]}: {node.type} = {text}"
        lines.append(pad + text)
        for i, inner in enumerate(node.blocks):
            label = {"if": ("then", "else"), "loop": ("cond", "body", "step")}[node.op][i]
            if inner.nodes or label != "else":
                lines.append(f"{pad}{label}:")
                _print_block(inner, names, lines, pad + "  ")
