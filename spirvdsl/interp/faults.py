"""What goes wrong in an interpreted kernel, and values nobody may use.

A helper raises `Fault` without knowing where it stands; api.py finds the author's line and turns it into `InterpError`.
A `Poison` stands for a value that was never defined: it may be copied, and any computation with it is a Fault.
"""

from __future__ import annotations

import numpy as np

from ..diagnostics import render
from ..ir.nodes import Span
from .values import build_vector


class Fault(Exception):
    """`lane`: index in the batch of the first lane concerned, None when all are."""

    def __init__(self, message: str, lane: int | None = None):
        super().__init__(message)
        self.message, self.lane = message, lane


class InterpError(Exception):
    """A kernel did something undefined. `span` is the author's source; str() shows it with a caret."""

    code = "interp"
    help = ""

    def __init__(self, message: str, span: Span | None, notes: tuple[str, ...] = ()):
        super().__init__(message, span, notes)
        self.message, self.span, self.notes = message, span, notes

    def __str__(self) -> str:
        return render(self)


class Poison:
    """An undefined value. numpy functions, operators, attributes and conversions raise Fault."""

    def __init__(self, what: str):
        object.__setattr__(self, "what", what)

    def refuse(self, *args, **kwargs):
        raise Fault(f"use of {self.what}")

    def __getattr__(self, name: str):
        self.refuse()

    __array_ufunc__ = __array_function__ = __array__ = refuse
    __bool__ = __int__ = __float__ = __index__ = __iter__ = __len__ = __getitem__ = refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __neg__ = __invert__ = refuse
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = refuse
    __hash__ = None


class PoisonVector(Poison):
    """A vector of which some components are undefined."""

    def __init__(self, what: str, parts: tuple, dtype: np.dtype):
        super().__init__(what)
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "dtype", dtype)

    def with_component(self, i: int, x):
        """This vector with component `i` set; an ordinary value once all are."""
        parts = self.parts[:i] + (x,) + self.parts[i + 1 :]
        if any(p is None for p in parts):
            return PoisonVector(self.what, parts, self.dtype)
        return build_vector(parts, self.dtype)

    def __getitem__(self, i: int):
        if self.parts[i] is None:
            self.refuse()
        return np.atleast_1d(self.parts[i])


class Partial(Poison):
    """A local's content while only the lanes of `init` (False: none, else a mask) have stored to it."""

    def __init__(self, value, init, what: str = "a variable that is not assigned"):
        super().__init__(what)
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "init", init)
