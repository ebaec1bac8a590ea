"""golden: the canonical SPIR-V text of every catalogued kernel, and a manifest of hashes.

golden/<kernel>.spvasm is what a reviewer reads; golden/manifest.json maps kernel names to the SHA-256 of their words, so that
"only these kernels are re-emitted" is a diff of one file. Without --check the files are written, and those of kernels that
are gone are removed; with it nothing is written and any difference is exit status 1.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path

import spirvdsl

from ..diagnostics import CompileError
from ..spirv.dis import disassemble
from . import catalogue
from .resolve import CommandError
from .show import file_name

MANIFEST = "manifest.json"
SUFFIX = ".spvasm"


@dataclass
class Goldens:
    """Texts by file name and hashes by kernel name."""

    texts: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # file name by kernel name


def add_command(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("golden", help="write the golden files of the catalogue, or check them")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name the kernels that differ")
    parser.add_argument("--dir", type=Path, help="folder of the golden files (default: golden/ of the checkout)")
    catalogue.add_argument(parser)
    parser.set_defaults(run=_run)


def golden_dir() -> Path:
    """golden/ of the checkout: of the working directory, else of the checkout this package lies in. CommandError without one."""
    for root in (Path.cwd(), Path(spirvdsl.__file__).resolve().parent.parent):
        if (root / "golden").is_dir() and (root / "pyproject.toml").is_file():
            return root / "golden"
    raise CommandError("no golden/ folder beside a pyproject.toml here; run in the checkout, or pass --dir")


def emit(module_name: str) -> Goldens:
    """Compile the catalogue. CommandError when two kernels would share a file; CompileError names the kernel that fails."""
    out = Goldens()
    for entry in catalogue.load(module_name):
        try:
            compiled = entry.kernel.compile()
        except CompileError as error:
            raise CompileError(error.code, error.message, error.span, error.help, (*error.notes, f"in kernel {entry.name}")) from None
        name = file_name(entry.name) + SUFFIX
        if name.lower() in (n.lower() for n in out.texts):
            raise CommandError(f"kernel {entry.name} would write {name}, which another kernel's golden file is called too")
        out.texts[name] = disassemble(compiled.spirv)
        out.hashes[entry.name], out.files[entry.name] = compiled.hash, name
    return out


def read_manifest(folder: Path) -> dict[str, str]:
    """Hashes by kernel name; empty when there is no manifest yet."""
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise CommandError(f"{path}: {error}; delete it and run `python -m spirvdsl golden`") from None
    if not isinstance(found, dict):
        raise CommandError(f"{path}: is no object; delete it and run `python -m spirvdsl golden`")
    return found


def compare(made: Goldens, folder: Path) -> dict[str, list[str]]:
    """Kernel names (file names for orphans) by kind of difference: missing, re-emitted, orphan. All empty: the folder is up to date."""
    old = read_manifest(folder)
    missing = [n for n, f in made.files.items() if n not in old or not (folder / f).is_file()]
    changed = [n for n in made.files if n not in missing and (old[n] != made.hashes[n] or not _same_text(made, n, folder))]
    orphans = [p.name for p in sorted(folder.glob(f"*{SUFFIX}")) if p.name not in made.texts]
    orphans += [f"{n} (in {MANIFEST})" for n in sorted(old) if n not in made.hashes]
    return {"missing": missing, "re-emitted": changed, "orphan": orphans}


def _same_text(made: Goldens, name: str, folder: Path) -> bool:
    file = made.files[name]
    return (folder / file).read_text(encoding="utf-8") == made.texts[file]  # universal newlines: any checkout's


def write(made: Goldens, folder: Path) -> None:
    """Write what differs and remove what is orphaned."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if path.name not in made.texts:
            path.unlink()
    for name, file in made.files.items():
        if not (folder / file).is_file() or not _same_text(made, name, folder):
            (folder / file).write_text(made.texts[file], encoding="utf-8", newline="\n")
    text = json.dumps(dict(sorted(made.hashes.items())), indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8", newline="\n")


def _run(args: argparse.Namespace) -> int:
    folder = args.dir or golden_dir()
    made = emit(args.catalogue)
    differences = compare(made, folder)
    for kind, names in differences.items():
        for name in names:
            print(f"{kind}: {name}")
    count, touched = len(made.hashes), len(differences["missing"]) + len(differences["re-emitted"])
    print(f"{count} kernels, {touched} of them new or re-emitted, the other {count - touched} byte-identical")
    if args.check:
        if any(differences.values()):
            raise CommandError(f"{folder} is not up to date: run `python -m spirvdsl golden` and read its diff")
        return 0
    write(made, folder)
    return 0
