"""Execution masks, and reads and writes of variables under them.

A mask is None (every lane of the batch), False (no lane), or a bool array [L] with at least one lane set and one not.
Masks are compared by identity where that saves work: `narrow` returns the mask it was given when no lane leaves.
"""

from __future__ import annotations

import numpy as np

from .faults import Fault, Partial, Poison


def split(m, c):
    """(lanes of m where c, lanes of m where not c)."""
    if c.ndim == 0:
        return (m, False) if c else (False, m)
    t = c if m is None else c & m
    n = np.count_nonzero(t)
    if n == 0:
        return False, m
    if m is None:
        return (None, False) if n == t.size else (t, ~t)
    e = np.greater(m, c)
    return (t, e) if e.any() else (m, False)


def narrow(m, c):
    """The lanes of m where c."""
    if c.ndim == 0:
        return m if c else False
    t = c if m is None else c & m
    n = np.count_nonzero(t)
    if n == 0:
        return False
    if n == (t.size if m is None else np.count_nonzero(m)):
        return m
    return t


def join(a, b):
    """The lanes of a or b."""
    if a is False or b is None:
        return b
    if b is False or a is None:
        return a
    t = a | b
    return None if t.all() else t


def minus(m, gone):
    """The lanes of m that are not in gone."""
    if gone is False or m is False:
        return m
    if gone is None:
        return False
    t = ~gone if m is None else np.greater(m, gone)
    return t if t.any() else False


def settle(m, known):
    """`known` when m holds the same lanes (m lies within known), so that later tests by identity succeed."""
    if m is known or m is None or m is False or known is None:
        return m
    return known if np.count_nonzero(m) == np.count_nonzero(known) else m


def first(m) -> int:
    """Index of the first lane of a mask."""
    return 0 if m is None else int(np.argmax(m))


def covered(m, init) -> bool:
    """True when every lane of m is in init."""
    if init is None or init is m:
        return True
    if init is False:
        return False
    if m is None:
        return bool(init.all())
    return not np.greater(m, init).any()


def merge(old, new, m):
    """`new` in the lanes of m, `old` elsewhere; members of composites one by one, poison kept apart."""
    if m is None or old is new:
        return new
    if isinstance(new, tuple) and isinstance(old, tuple):
        return tuple(merge(o, n, m) for o, n in zip(old, new, strict=True))
    if isinstance(old, Poison):
        if isinstance(new, Poison) and new.__class__ is not Partial:
            return old
        return st(old if old.__class__ is Partial else Partial(None, False, old.what), new, m)
    if isinstance(new, Poison):
        return Partial(old, minus(None, m), new.what)
    return np.where(m, new, old)


def st(old, new, m):
    """A variable after storing `new` in the lanes of m, when these are not all lanes that will read it."""
    if old.__class__ is not Partial:
        return merge(old, new, m)
    if new.__class__ is Partial:
        value = new.value if old.value is None else merge(old.value, new.value, m)
        return Partial(value, join(minus(old.init, m), _both(new.init, m)), new.what)
    if m is None:
        return new
    if old.init is False or old.init is m or old.value is None:
        return Partial(new, m, old.what)
    init = join(old.init, m)
    value = merge(old.value, new, m)
    return value if init is None else Partial(value, init, old.what)


def _both(a, b):
    if a is None or b is False:
        return b
    if b is None or a is False:
        return a
    t = a & b
    return t if t.any() else False


def ld(x: Partial, m, name: str):
    """The value of a partly assigned variable; Fault when a lane of m has not assigned it."""
    if not covered(m, x.init):
        lane = first(m if x.init is False else minus(m, x.init))
        raise Fault(f"read of {name}, which no store has reached in this lane", lane)
    return x.value


def hard(x, m, name: str):
    """The value of a variable that may be partly assigned."""
    return ld(x, m, name) if x.__class__ is Partial else x


def soft(x, m, name: str):
    """As `ld` for a member of a composite: what is not assigned reads as poison."""
    if x.__class__ is not Partial:
        return x
    return x.value if covered(m, x.init) else Poison(f"a part of {name} that no store has reached")
