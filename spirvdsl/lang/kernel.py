"""Kernels as objects: `@kernel` functions, `Kernel` classes and their stamps; compile, read, interpret, launch.

    @kernel(workgroup_size=64)
    def saxpy(x: In[f32], y: In[f32], out: Out[f32], a: f32, n: u32): ...

    saxpy[16](x, y, out, a=2.0, n=1000)            # launch on the default device; a grid counts workgroups
    saxpy.interpret(16, x, y, out, a=2.0, n=1000)  # the same IR in numpy
    print(saxpy.dis())                             # canonical SPIR-V

    class Gemv(Kernel): fmt: Param[Format]; ROWS: Param[int] = 4; ...
    Gemv[Q4_K, 2]                                  # a stamp: launchable like a function kernel
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from .. import cache
from ..compiled import CompiledKernel, Reflection
from ..diagnostics import CompileError
from ..ir.nodes import FloatControls, Module, Span
from . import launcher
from .resources import Annotation
from .struct import class_span


class Launchable:
    """What can be compiled and launched. `name` is unique in messages and goldens; `signature` are the argument names in order."""

    name: str
    signature: list[str]

    def __init__(self) -> None:
        self._compiled: CompiledKernel | None = None
        self._ir: Module | None = None
        self._error: CompileError | None = None
        self.plans: dict = {}  # launch plans of the launcher, by device

    def _build(self) -> Module:
        raise NotImplementedError

    def ir(self) -> Module:
        """The typed IR after all passes and checks. Raises CompileError, again at every later call."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        if self._ir is None:
            from ..ir.verify import verify
            from ..passes import check_uniformity, run_passes
            try:
                module = run_passes(self._build())
                verify(module)
                check_uniformity(module)
            except CompileError as error:
                self._error = error
                raise error.with_traceback(None) from None  # the author's line says it; our frames do not
            self._ir = module
        return self._ir

    def compile(self) -> CompiledKernel:
        """SPIR-V and reflection, validated; from the cache on disk where it has them. Raises CompileError, again at every later call."""
        if self._compiled is None:
            if self._error is not None:
                raise self._error.with_traceback(None)
            self._compiled = cache.compiled(self, self._compile)
        return self._compiled

    def _compile(self) -> CompiledKernel:
        from ..spirv import compile_module
        module = self.ir()
        try:
            return compile_module(module)
        except CompileError as error:
            self._error = error
            raise

    @property
    def reflection(self) -> Reflection:
        return self.compile().reflection

    def dis(self) -> str:
        """Canonical SPIR-V text, header version included."""
        from ..spirv.dis import disassemble
        return disassemble(self.compile().spirv)

    def arguments(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Launch arguments by name. TypeError names what is missing, twice or unknown."""
        if len(args) > len(self.signature):
            raise TypeError(f"{self.name} takes {len(self.signature)} arguments ({', '.join(self.signature)}), got {len(args)}")
        bound = dict(zip(self.signature, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.signature or name in bound:
                raise TypeError(f"{self.name} got argument {name} {'twice' if name in bound else 'which it does not have'}; it takes {', '.join(self.signature)}")
            bound[name] = value
        missing = [n for n in self.signature if n not in bound]
        if missing:
            raise TypeError(f"{self.name} misses argument {missing[0]}; it takes {', '.join(self.signature)}")
        return bound

    def interpret(self, grid: int | tuple[int, ...], *args: Any, subgroup_size: int = 32, spec: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Run the IR in numpy for a whole grid, writing into the given arrays: bounds, uninitialised reads and divergent
        barriers are errors at the author's line. grid counts workgroups; subgroup_size is a power of two up to
        128. An array must have the dtype of the elements (structs come as any bytes), as at a launch."""
        from ..interp import interpret
        module = self.ir()
        bound = self.arguments(args, kwargs)
        buffers = {r.name for r in module.resources if r.kind in ("storage", "uniform")}
        interpret(module, grid, {n: v for n, v in bound.items() if n in buffers}, {n: v for n, v in bound.items() if n not in buffers}, spec,
                  subgroup_size=module.subgroup_size or subgroup_size, typed=True)

    def __getitem__(self, grid: int | tuple[int, ...]) -> Callable[..., None]:
        """kernel[grid](...): launch with numpy arrays or device buffers. grid counts workgroups."""
        return _Launch(self, grid)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{self.name} is a kernel: launch it as {self.name}[grid](...), grid counts workgroups")

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


class _Launch:
    """A kernel with its grid, waiting for arguments."""

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: Launchable, grid: int | tuple[int, ...]):
        self.kernel, self.grid = kernel, grid

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        launcher.current()(self.kernel, self.grid, args, kwargs)


class FunctionKernel(Launchable):
    """A decorated function."""

    def __init__(self, function: Callable, options: dict[str, Any]):
        super().__init__()
        self.function, self.options = function, options
        self.name = options.get("name") or function.__name__
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        self.signature = [n for n, p in inspect.signature(function).parameters.items() if not _is_spec(p.annotation)]

    def _build(self) -> Module:
        from ..frontend.build import build_function, start_module
        from ..frontend.source import source_of
        source = source_of(self.function)
        span = source.span(source.node)
        o = self.options
        return build_function(self.function, start_module(self.name, o["workgroup_size"], o["subgroup_size"], o["float_controls"], Span(span.file, span.line, span.col)))


def _is_spec(annotation: Any) -> bool:
    return (isinstance(annotation, Annotation) and annotation.kind == "spec") or (isinstance(annotation, str) and annotation.startswith("Spec["))


def kernel(*, workgroup_size: int | tuple[int, ...], subgroup_size: int | None = None, float_controls: FloatControls | None = None,
           name: str | None = None) -> Callable[[Callable], FunctionKernel]:
    """Make a kernel of a function. workgroup_size: lanes, one to three ints; subgroup_size: only if the kernel needs exactly that."""
    options = {"workgroup_size": workgroup_size, "subgroup_size": subgroup_size, "float_controls": float_controls or FloatControls(), "name": name}
    return lambda function: FunctionKernel(function, options)


class Kernel:
    """Base of class kernels. Annotated members are resources and template parameters; `main(self)` is the entry.

    workgroup_size and subgroup_size may be strings over the parameters ("ROWS * LANES"); requires is a tuple of such strings
    that must all hold for a stamp ("BK % 16 == 0"). Stamp with Class[args] or Class.stamp(name=value).
    """

    workgroup_size: Any = 64
    subgroup_size: Any = None
    float_controls: FloatControls = FloatControls()
    requires: tuple[str, ...] = ()

    def __class_getitem__(cls, args: Any) -> Stamp:
        args = args if isinstance(args, tuple) else (args,)
        names = list(parameters(cls))
        if len(args) > len(names):
            raise CompileError("E0501", f"{cls.__name__} has {len(names)} parameters ({', '.join(names)}), got {len(args)}", class_span(cls))
        return cls.stamp(**dict(zip(names, args, strict=False)))

    @classmethod
    def stamp(cls, **given: Any) -> Stamp:
        """The kernel for these parameters; equal parameters give the same object. E0501 for wrong ones, E0503 when `requires` fails."""
        names = parameters(cls)
        for name in given:
            if name not in names:
                raise CompileError("E0501", f"{cls.__name__} has no parameter {name}", class_span(cls), f"it has {', '.join(names) or 'none'}")
        values = {}
        for name, kind in names.items():
            value = given.get(name, getattr(cls, name, _NOT_GIVEN))
            if value is _NOT_GIVEN:
                raise CompileError("E0501", f"{cls.__name__} needs parameter {name}", class_span(cls), f"write {cls.__name__}[{', '.join(names)}]")
            _check_parameter(cls, name, kind, value)
            try:
                hash(value)
            except TypeError:
                shown = f"{type(value).__name__} {value!r}"
                raise CompileError("E0501", f"parameter {name} of {cls.__name__} is the {shown}, which cannot tell stamps apart", class_span(cls), "give a tuple") from None
            values[name] = value
        cache = cls.__dict__.get("_stamps")
        if cache is None:
            cache = cls._stamps = {}
        key = tuple((type(v).__name__, v) for v in values.values())
        if key not in cache:
            cache[key] = Stamp(cls, values)
        return cache[key]


class Stamp(Launchable):
    """A class kernel with its parameters fixed."""

    def __init__(self, template: type[Kernel], values: dict[str, Any]):
        super().__init__()
        self.template, self.values = template, values
        self.args = ",".join(str(getattr(v, "__name__", v)) for v in values.values())
        self.name = f"{template.__name__}[{self.args}]" if values else template.__name__
        self.cls = type(template.__name__, (template,), {**values, "__module__": template.__module__})
        self.__doc__ = template.__doc__
        self._names = self._constants()
        for text in getattr(template, "requires", ()):
            if not self._evaluate(text, "requires"):
                shown = ", ".join(f"{n}={getattr(v, '__name__', v)}" for n, v in values.items())
                raise CompileError("E0503", f"stamp {self.name} is not valid: {text} does not hold ({shown})", class_span(template))
        self.signature = [n for n, a, _ in self.members() if a.kind != "spec"]

    def _constants(self) -> dict[str, Any]:
        """Plain class attributes and parameters by name, the derived class winning: what strings may refer to."""
        out: dict[str, Any] = {}
        for base in reversed(self.cls.__mro__):
            out.update({n: v for n, v in vars(base).items() if not n.startswith("__") and not isinstance(v, _CODE)})
        return out

    def _evaluate(self, text: Any, what: str, home: type | None = None) -> Any:
        """home: the class in whose module the text stands; by default the template itself."""
        if not isinstance(text, str):
            return text
        names = vars(sys.modules[(home or self.template).__module__])
        try:
            return eval(text, {**names, **self._names})  # noqa: S307 the author's own class body
        except CompileError:
            raise
        except Exception as why:  # noqa: BLE001 whatever the text raises is the author's line
            raise CompileError("E0302", f"{self.template.__name__}: {what} {text!r}: {why}", class_span(self.template)) from None

    def members(self) -> Iterator[tuple[str, Annotation, Any]]:
        """Resources in order, bases first: (name, annotation with a type, default). One whose text gives None is not there."""
        for name, (annotation, home) in _annotations(self.cls).items():
            annotation = self._evaluate(annotation, name, home)
            if not isinstance(annotation, Annotation) or annotation.kind == "param":
                continue
            of = self._evaluate(annotation.of, name, home)
            if of is None and isinstance(annotation.of, str):
                continue
            yield name, Annotation(annotation.kind, of), getattr(self.template, name, None)

    def _build(self) -> Module:
        from ..frontend.build import build_class, start_module
        main = getattr(self.cls, "main", None)
        span = class_span(self.template) or Span("<unknown>", 1, 0)
        if main is None:
            raise CompileError("E0502", f"{self.template.__name__} has no main(self)", span, "the entry of a class kernel is main")
        size, sub = (self._evaluate(getattr(self.template, n), n) for n in ("workgroup_size", "subgroup_size"))
        return build_class(self, main, start_module(self.name, size, sub, self.template.float_controls, span))


_NOT_GIVEN = object()
_CODE = (FunctionType, classmethod, staticmethod, property)


def _annotations(cls: type) -> dict[str, tuple[Any, type]]:
    """Name -> (annotation, the class it stands in), bases first."""
    out: dict[str, tuple[Any, type]] = {}
    for base in reversed(cls.__mro__):
        if base not in (object, Kernel):
            out.update({name: (annotation, base) for name, annotation in inspect.get_annotations(base).items()})
    return out


def parameters(cls: type) -> dict[str, Any]:
    """Template parameters of a class, bases first: name -> kind (a type, or its text)."""
    out = {}
    for base in reversed(cls.__mro__):
        if base in (object, Kernel):
            continue
        names = vars(sys.modules[base.__module__])
        for name, annotation in inspect.get_annotations(base).items():
            if isinstance(annotation, str):
                if not annotation.startswith("Param["):
                    continue
                annotation = eval(annotation, dict(names))  # noqa: S307 the author's own annotation
            if isinstance(annotation, Annotation) and annotation.kind == "param":
                out[name] = annotation.of
    return out


def _check_parameter(cls: type, name: str, kind: Any, value: Any) -> None:
    good = (isinstance(value, kind) and not (kind is int and isinstance(value, bool))) or (isinstance(value, type) and issubclass(value, kind)) if isinstance(kind, type) else True
    if not good:
        shown = getattr(value, "__name__", repr(value))
        raise CompileError("E0501", f"parameter {name} of {cls.__name__} is {shown}, it must be {kind.__name__}", class_span(cls))
