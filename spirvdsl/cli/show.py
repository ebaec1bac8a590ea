"""dis, reflect and build: one kernel, its text, its interface, its words."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from pathlib import Path

from ..compiled import Reflection
from ..ir.printer import print_module
from ..spirv.dis import disassemble
from .resolve import resolve


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Register the three subcommands."""
    target = argparse.ArgumentParser(add_help=False)
    target.add_argument("kernel", metavar="MODULE:KERNEL[STAMP]", help="as in kernels.norm:rms_norm or kernels.gemv:Gemv[Q4_K,4]")
    dis = commands.add_parser("dis", parents=[target], help="print the canonical SPIR-V of a kernel")
    dis.add_argument("--ir", action="store_true", help="print the typed IR instead")
    dis.set_defaults(run=_dis)
    reflect = commands.add_parser("reflect", parents=[target], help="print what a runtime must bind and have")
    reflect.add_argument("--json", action="store_true", help="as one JSON object")
    reflect.set_defaults(run=_reflect)
    build = commands.add_parser("build", parents=[target], help="write the SPIR-V words of a kernel to a file")
    build.add_argument("-o", "--out", type=Path, help="file to write (default: <kernel>.spv here)")
    build.set_defaults(run=_build)


def file_name(name: str) -> str:
    """A kernel's name as a file name: `Gemv[Q4_K,4]` is Gemv-Q4_K-4."""
    return re.sub(r"[^\w.]+", "-", name).strip("-")


def _dis(args: argparse.Namespace) -> int:
    kernel = resolve(args.kernel)
    print(print_module(kernel.ir()) if args.ir else disassemble(kernel.compile().spirv), end="")
    return 0


def _reflect(args: argparse.Namespace) -> int:
    compiled = resolve(args.kernel).compile()
    if args.json:
        record = {"name": compiled.name, "hash": compiled.hash, **dataclasses.asdict(compiled.reflection)}
        print(json.dumps(record, indent=2))
    else:
        print(f"{compiled.name}: {len(compiled.spirv)} bytes, SPIR-V {compiled.reflection.spirv_version}, hash {compiled.hash}")
        print("\n".join(_lines(compiled.reflection)))
    return 0


def _lines(r: Reflection) -> list[str]:
    lines = [f"workgroup {' x '.join(map(str, r.workgroup_size))}, {r.workgroup_bytes} bytes of workgroup memory"]
    if r.subgroup_size is not None:
        lines.append(f"subgroup size {r.subgroup_size} required")
    lines += [f"set {b.set} binding {b.binding}: {b.name}, {b.access} {b.kind}, {b.element} every {b.stride} bytes" for b in r.bindings]
    lines += [f"push offset {p.offset}: {p.name}, {p.type}, {p.size} bytes" for p in r.push]
    lines += [f"spec id {s.id}: {s.name}, {s.type}, default {s.default}" for s in r.spec_constants]
    lines += [f"matrix {m.component} {m.rows} x {m.cols}, {m.use} of a {m.scope}" for m in r.matrices]
    lines += [f"product {p.m} x {p.n} x {p.k}: {p.a} * {p.b} + {p.c} -> {p.result}{', saturating' if p.saturating else ''}" for p in r.products]
    return [*lines, "features: " + (", ".join(r.features) or "none")]


def _build(args: argparse.Namespace) -> int:
    compiled = resolve(args.kernel).compile()
    path = args.out or Path(f"{file_name(compiled.name)}.spv")
    path.write_bytes(compiled.spirv)
    print(f"{path}: {len(compiled.spirv)} bytes, SPIR-V {compiled.reflection.spirv_version}, hash {compiled.hash}")
    return 0
