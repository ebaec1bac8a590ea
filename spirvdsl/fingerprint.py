"""What a kernel's SPIR-V depends on, as one SHA-256: the key of the compile cache (cache.py).

The kernel is walked as the front end would reach it: functions (their source file, line, defaults, closure and the globals
their code names), classes (every base and attribute), template arguments, and the plain values behind all of these. A value
without a stable representation raises `Unstable`, and the kernel is then not cached. The compiler itself counts as the
contents of its own files; other installed packages and the standard library count as their name and version.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import inspect
import linecache
import os
import re
import sys
import sysconfig
import time
import types
import typing
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from .lang.builtins import Builtin

_PACKAGE = Path(__file__).resolve().parent
_LOADED = time.time()
_WORD = re.compile(r"[^\W\d]\w*")
_LOCAL = re.compile(r"\s*[^\W\d]\w*\s*:\s*(\S.*)")  # name: annotation = value, of which bytecode keeps nothing
_ALIASES = (types.GenericAlias, types.UnionType, type(typing.List[int]), typing.TypeVar, typing._SpecialForm)  # noqa: UP006 the alias class itself
_INSTALLED = tuple({os.path.join(sysconfig.get_paths()[n], "") for n in ("stdlib", "platstdlib", "purelib", "platlib")})
_codes: dict[int, tuple[types.CodeType, str]] = {}  # id of a code object -> itself, digest of the file it was first seen with


class Unstable(Exception):
    """A kernel depends on something that has no stable representation. The text names it."""


@lru_cache(maxsize=1)
def compiler_digest() -> str:
    """SHA-256 of the compiler's own files, and of the interpreter version, which decides how source parses.

    Unstable when a file is newer than this process: what runs may not be what the files say.
    """
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for path in sorted(p for p in _PACKAGE.rglob("*") if p.suffix in (".py", ".json")):
        if path.stat().st_mtime > _LOADED:
            raise Unstable(f"{path} changed after it was loaded")
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def fingerprint(kernel: Any) -> str:
    """Hex SHA-256 of everything the SPIR-V of a function kernel or a stamp depends on. Unstable when that cannot be told."""
    walk = _Walk()
    walk.text("compiler", compiler_digest())
    walk.value(kernel, frozenset())
    return hashlib.sha256("".join(walk.parts).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=4096)
def _file_digest(path: str, mtime_ns: int, size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@cache
def _words_of(code: types.CodeType) -> frozenset[str]:
    """Every name a code object, or one nested in it, may look up outside itself; strings that are names too (getattr)."""
    words = set(code.co_names) | set(code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            words |= _words_of(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            words.add(constant)
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    for line in linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : last]:
        found = _LOCAL.match(line)
        words.update(_WORD.findall(found[1]) if found else ())
    return frozenset(words)


def _file_of(module: str) -> str:
    return getattr(sys.modules.get(module), "__file__", None) or ""


def _installed(file: str) -> bool:
    return file.startswith(_INSTALLED) or "/site-packages/" in file or "/dist-packages/" in file  # Debian has two of those


class _Walk:
    """One key in the making: `parts` are its text. `seen` keeps cycles finite; `own` are top-level packages whose sources count by content
    even where they are installed: those of the kernel and of its template arguments."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.seen: dict[int, int] = {}
        self.keep: list[Any] = []
        self.own: set[str] = set()

    def text(self, *parts: str | int) -> None:
        for part in parts:
            self.parts.append(f"{len(part)}:{part}" if isinstance(part, str) else f"{part};")

    # which sources count by content
    def claim(self, module: str) -> None:
        """Count a module's top-level package as the author's own, unless it is Python's."""
        top = module.partition(".")[0]
        if top not in sys.stdlib_module_names:
            self.own.add(top)

    def is_own(self, module: str) -> bool:
        top = module.partition(".")[0]
        if top == __package__:
            return False  # compiler_digest() has it
        if top in self.own:
            return True
        file = _file_of(module)
        return bool(file) and not _installed(file)

    def builtin(self, v: Builtin, words: frozenset[str]) -> None:
        self.text("builtin", v.name)

    def callable(self, v: Any, words: frozenset[str]) -> None:
        self.opaque("builtin", v)

    def opaque(self, what: str, value: Any) -> None:
        module = getattr(value, "__module__", None) or getattr(value, "__name__", "")
        version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", "")
        self.text(what, module, getattr(value, "__qualname__", ""), version)

    def file(self, path: str) -> str:
        try:
            stat = os.stat(path)
            digest = _file_digest(path, stat.st_mtime_ns, stat.st_size)
        except OSError:
            raise Unstable(f"no source file {path}") from None
        self.text("file", digest)
        return digest

    # values
    def value(self, v: Any, words: frozenset[str]) -> None:
        """Add any value. words: the names used by the code that looks at it (what counts of a module)."""
        if v is None or isinstance(v, bool | int | str | bytes | complex) and type(v).__module__ == "builtins":
            self.text(type(v).__name__, repr(v))
            return
        if type(v) is float:
            self.text("float", v.hex())
            return
        if id(v) in self.seen:
            self.text("seen", self.seen[id(v)])
            return
        self.seen[id(v)] = len(self.seen)
        self.keep.append(v)
        for kinds, method in _METHODS:
            if isinstance(v, kinds):
                getattr(self, method)(v, words)
                return
        self.instance(v, words)

    def sequence(self, v: Any, words: frozenset[str]) -> None:
        self.text("sequence", type(v).__module__, type(v).__qualname__, len(v))
        for item in v:
            self.value(item, words)

    def mapping(self, v: dict, words: frozenset[str]) -> None:
        self.text("dict", len(v))
        for key, item in v.items():
            self.value(key, words)
            self.value(item, words)

    def as_text(self, v: Any, words: frozenset[str]) -> None:
        self.text(type(v).__name__, repr(v))

    def wrapper(self, v: Any, words: frozenset[str]) -> None:
        self.text(type(v).__name__)
        for part in ("__func__", "func", "fget", "fset", "__self__"):
            inner = getattr(v, part, None)
            if inner is not None:
                self.value(inner, words)

    def member(self, v: enum.Enum, words: frozenset[str]) -> None:
        self.text("enum", v.name)
        self.value(type(v), words)

    def module(self, v: types.ModuleType, words: frozenset[str]) -> None:
        """Of a module of the author's, what the code may name; of any other, its version."""
        self.text("module", v.__name__)
        if not self.is_own(v.__name__):
            self.opaque("installed", v)
            return
        names = vars(v)
        for word in sorted(words & names.keys()):
            self.text(word)
            self.value(names[word], words)

    def function(self, v: types.FunctionType, words: frozenset[str]) -> None:
        v = inspect.unwrap(v)
        if not isinstance(v, types.FunctionType):
            self.value(v, words)
            return
        self.text("function", v.__module__, v.__qualname__)
        if not self.is_own(v.__module__):
            self.opaque("installed", v)
            return
        code = v.__code__
        digest = self.file(code.co_filename)
        if _codes.setdefault(id(code), (code, digest))[1] != digest:
            raise Unstable(f"{code.co_filename} changed after it was loaded")
        self.text(code.co_firstlineno)
        used = _words_of(code)
        for part in (v.__defaults__, v.__kwdefaults__):
            self.value(part, used)
        for name, cell in zip(code.co_freevars, v.__closure__ or (), strict=True):
            self.text(name)
            try:
                self.value(cell.cell_contents, used)
            except ValueError:
                self.text("unbound")
        self.annotations(v.__annotations__, v.__globals__)
        self.globals(used, v.__globals__)

    def annotations(self, annotations: dict[str, Any], names: dict[str, Any]) -> None:
        for name, annotation in annotations.items():
            self.text(name)
            self.value(annotation, frozenset())
            self.strings(annotation, names)

    def strings(self, v: Any, names: dict[str, Any]) -> None:
        """A string may be an expression over a module's names: In["fmt.Quants"], requires, workgroup_size."""
        for text in (v, getattr(v, "of", None), *(v if isinstance(v, tuple) else ())):
            if isinstance(text, str):
                self.globals(frozenset(_WORD.findall(text)), names)

    def globals(self, words: frozenset[str], names: dict[str, Any]) -> None:
        for word in sorted(words & names.keys()):
            self.text(word)
            self.value(names[word], words)

    def type(self, v: type, words: frozenset[str]) -> None:
        self.text("class", v.__module__, v.__qualname__)
        if not self.is_own(v.__module__):
            self.opaque("installed", v)
            return
        self.file(_file_of(v.__module__))
        for base in v.__mro__[1:]:
            self.value(base, words)
        names = vars(sys.modules[v.__module__]) if v.__module__ in sys.modules else {}
        self.annotations(inspect.get_annotations(v), names)
        for name, item in self.attributes(v):
            self.text(name)
            self.value(item, words)
            self.strings(item, names)

    @staticmethod
    def attributes(v: type) -> Iterator[tuple[str, Any]]:
        """What a class body defines, without what Python, enum and dataclasses put there and the table of stamps."""
        generated = ("_member_map_", "_member_names_", "_value2member_map_", "_stamps", "_abc_impl")
        for name, item in vars(v).items():
            dunder = name.startswith("__") and name.endswith("__") and not isinstance(item, types.FunctionType)
            if dunder or name in generated or isinstance(item, types.MemberDescriptorType | types.GetSetDescriptorType):
                continue
            if isinstance(item, types.FunctionType) and item.__code__.co_filename.startswith("<"):
                continue  # made by dataclass() from the fields
            yield name, item

    def instance(self, v: Any, words: frozenset[str]) -> None:
        """An object of the author's or of this package: its class and its attributes."""
        from .lang.kernel import FunctionKernel, Stamp

        if isinstance(v, Stamp):
            self.stamp(v)
            return
        if isinstance(v, FunctionKernel):
            self.text("kernel", v.name)
            self.claim(v.function.__module__)
            self.value(v.function, words)
            self.value(v.options, words)
            return
        cls = type(v)
        if callable(getattr(v, "__wrapped__", None)):  # functools.lru_cache
            self.value(v.__wrapped__, words)
            return
        if cls.__module__.partition(".")[0] != __package__ and not self.is_own(cls.__module__):
            raise Unstable(f"{cls.__module__}.{cls.__qualname__} has no stable representation")
        self.value(cls, words)
        if dataclasses.is_dataclass(v):
            fields: Any = {f.name: getattr(v, f.name) for f in dataclasses.fields(v)}
        elif hasattr(v, "__dict__"):
            fields = vars(v)
        else:
            raise Unstable(f"{cls.__module__}.{cls.__qualname__} has no stable representation")
        self.mapping(fields, words)

    def stamp(self, v: Any) -> None:
        self.text("stamp", v.name)
        for part in (v.template, *v.values.values()):
            self.claim(getattr(part, "__module__", None) or type(part).__module__)
        self.value(v.template, frozenset())
        self.value(v.values, frozenset())
        for base in v.template.__mro__:
            if self.is_own(base.__module__):
                names = vars(sys.modules[base.__module__])  # its strings are evaluated among these
                for item in (*inspect.get_annotations(base).values(), *(i for _, i in self.attributes(base))):
                    self.strings(item, names)


_METHODS: tuple[tuple[Any, str], ...] = (
    (Builtin, "builtin"), (types.ModuleType, "module"), (types.FunctionType, "function"), (enum.Enum, "member"), (_ALIASES, "as_text"), (type, "type"),
    ((types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType), "callable"),
    ((staticmethod, classmethod, property, cached_property, types.MethodType), "wrapper"),
    ((tuple, list), "sequence"), (dict, "mapping"), ((range, slice, type(...), type(NotImplemented)), "as_text"),
)  # fmt: skip
