"""golden: the canonical text of catalogued kernels, and a manifest of the hashes of all of them.

golden/<kernel>.spvasm is what a reviewer reads, golden/<kernel>.ir the typed IR before it, both where the catalogue asks for
them; golden/manifest.json maps every kernel's name to the SHA-256 of its words, so that "only these kernels are re-emitted" is
a diff of one file, and golden/census.txt names every instruction and operand value that some kernel holds. Without --check the files are written, and those of kernels that are gone are removed; with it nothing is
written and any difference is exit status 1. Kernels are compiled here and now, never taken from the cache.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path

import spirvdsl

from ..compiled import CompiledKernel
from ..diagnostics import CompileError
from ..ir.printer import print_module
from ..spirv import compile_module
from ..spirv.census import Census
from ..spirv.dis import disassemble
from . import catalogue
from .resolve import CommandError
from .show import file_name

MANIFEST, CENSUS = "manifest.json", "census.txt"
SPIRV, IR = ".spvasm", ".ir"


@dataclass
class Goldens:
    """Texts by file name, compiled kernels by kernel name."""

    texts: dict[str, str] = field(default_factory=dict)
    compiled: dict[str, CompiledKernel] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)  # names of text files by kernel name
    census: Census = field(default_factory=Census)

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of the words, by kernel name."""
        return {name: kernel.hash for name, kernel in self.compiled.items()}

    def emitted(self) -> list[str]:
        """Rows of the census without its counts, which every change of a kernel would change."""
        return [f"{title} {name}" for title, table in self.census.tables().items() for name in table]


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
    out, taken = Goldens(), {}
    for entry in catalogue.load(module_name):
        stem = file_name(entry.name)
        if taken.setdefault(stem.lower(), entry.name) != entry.name:
            raise CommandError(f"kernel {entry.name} would write {stem}{SPIRV}, which is the golden file of {taken[stem.lower()]} too")
        try:
            module = entry.kernel.ir()
            compiled = compile_module(module)
        except CompileError as error:
            raise CompileError(error.code, error.message, error.span, error.help, (*error.notes, f"in kernel {entry.name}")) from None
        texts = ({stem + SPIRV: disassemble(compiled.spirv)} if entry.text else {}) | ({stem + IR: print_module(module)} if entry.ir else {})
        out.census.add(compiled.spirv)
        out.texts |= texts
        out.compiled[entry.name], out.files[entry.name] = compiled, list(texts)
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
    """What differs, by kind: names of kernels, of files (orphans), rows of the census. All empty: the folder is up to date."""
    old = read_manifest(folder)
    missing = [n for n, files in made.files.items() if n not in old or not all((folder / f).is_file() for f in files)]
    hashes = made.hashes
    changed = [n for n in made.files if n not in missing and (old[n] != hashes[n] or not _same_texts(made, n, folder))]
    orphans = [path.name for path in _text_files(folder) if path.name not in made.texts]
    orphans += [f"{n} (in {MANIFEST})" for n in sorted(old) if n not in hashes]
    known, now = _read_census(folder), made.emitted()
    return {
        "missing": missing, "re-emitted": changed, "orphan": orphans,
        "emitted for the first time": [row for row in now if row not in known],
        "emitted no more": [row for row in known if row not in now],
    }


def _read_census(folder: Path) -> list[str]:
    path = folder / CENSUS
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _text_files(folder: Path) -> list[Path]:
    return sorted(path for suffix in (SPIRV, IR) for path in folder.glob(f"*{suffix}"))


def _same_text(made: Goldens, file: str, folder: Path) -> bool:
    """Universal newlines: any checkout's."""
    return (folder / file).is_file() and (folder / file).read_text(encoding="utf-8") == made.texts[file]


def _same_texts(made: Goldens, name: str, folder: Path) -> bool:
    return all(_same_text(made, file, folder) for file in made.files[name])


def write(made: Goldens, folder: Path) -> None:
    """Write what differs and remove what is orphaned."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in _text_files(folder):
        if path.name not in made.texts:
            path.unlink()
    for file, text in made.texts.items():
        if not _same_text(made, file, folder):
            (folder / file).write_text(text, encoding="utf-8", newline="\n")
    text = json.dumps(dict(sorted(made.hashes.items())), indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8", newline="\n")
    (folder / CENSUS).write_text("".join(f"{row}\n" for row in made.emitted()), encoding="utf-8", newline="\n")


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
