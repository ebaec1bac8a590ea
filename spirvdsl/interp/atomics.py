"""Atomics: lanes take turns in lane order, and each gets the value the one before it left.

Lanes are sorted by address (stably); a run of equal addresses is a chain. Chains advance together, one link at a time,
or, when few chains are long, each by numpy's accumulate.
"""

from __future__ import annotations

import numpy as np

_ACCUMULATE = {
    "add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}


def atomic(fn: str, view: np.ndarray, at, value, comparator, m, lanes: int):
    """Performs `fn` in every lane of m and returns the old values [L]. `lanes`: L; value is ignored by load."""
    if m is False:  # only with checks off
        return np.zeros(lanes, view.dtype)
    sel = np.arange(lanes) if m is None else m.nonzero()[0]
    at = np.broadcast_to(at, (lanes,))[sel]
    if fn == "load":
        return _spread(view.take(at), sel, lanes)
    value = np.broadcast_to(value, (lanes,))[sel]
    if fn == "store":
        view[at] = value
        return None
    order = np.argsort(at, kind="stable")
    at, value = at[order], value[order]
    starts = np.flatnonzero(np.r_[True, at[1:] != at[:-1]])
    lengths = np.diff(np.r_[starts, at.size])
    comparator = None if comparator is None else np.broadcast_to(comparator, (lanes,))[sel][order]
    longest = int(lengths.max())
    old = np.empty(at.size, view.dtype)
    if fn == "exchange":
        old[1:] = value[:-1]
        old[starts] = view[at[starts]]
        view[at[starts]] = value[starts + lengths - 1]
    elif fn in _ACCUMULATE and longest > 8 and starts.size < longest:
        _by_chain(_ACCUMULATE[fn], view, at, value, starts, lengths, old)
    else:
        _by_link(fn, view, at, value, comparator, starts, lengths, old)
    back = np.empty_like(old)
    back[order] = old
    return _spread(back, sel, lanes)


def _spread(values: np.ndarray, sel: np.ndarray, lanes: int) -> np.ndarray:
    if sel.size == lanes:
        return values
    out = np.zeros(lanes, values.dtype)
    out[sel] = values
    return out


def _by_chain(ufunc, view, at, value, starts, lengths, old) -> None:
    for start, n in zip(starts.tolist(), lengths.tolist()):
        where = at[start]
        run = ufunc.accumulate(np.concatenate([view[where : where + 1], value[start : start + n]]), dtype=view.dtype)
        old[start : start + n] = run[:-1]
        view[where] = run[-1]


def _by_link(fn: str, view, at, value, comparator, starts, lengths, old) -> None:
    for link in range(int(lengths.max())):
        now = (starts if link == 0 else starts[lengths > link]) + link
        where = at[now]
        seen = view[where]
        old[now] = seen
        if fn == "compare_exchange":
            view[where] = np.where(seen == comparator[now], value[now], seen)
        else:
            view[where] = _ACCUMULATE[fn](seen, value[now])
