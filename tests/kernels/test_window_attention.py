"""WindowAttention: windows that start and end anywhere in a page, with token counts that its tiles do not divide.

Cache places that no token was stored at hold NaN, and so does the output at first.
"""

from __future__ import annotations

import pytest

from tests.kernels import rig
from tests.kernels.attention_rig import BAR, Shape, whole, window, windowed
from tests.kernels.test_attention import name

RUNS = ["interp4", "interp8", "interp32", "device"]
SHAPES = [Shape(24, 1, 1, "f32"), Shape(64, 2), Shape(10, 3, cache="f32"), Shape(128, 4, 1), Shape(64, 7, 1)]


@pytest.mark.parametrize("run", RUNS, indirect=True)
@pytest.mark.parametrize("first, tokens", [(0, 1), (0, 13), (61, 9), (130, 6)])
@pytest.mark.parametrize("shape", SHAPES, ids=name)
def test_windows(run, shape, first, tokens, seed):
    s = window(shape, first, tokens, seed)
    assert rig.rel_rms(windowed(run, s, 4 if shape.group < 7 else 2, 2), s.truth) < BAR


@pytest.mark.parametrize("run", ["interp8", "device"], indirect=True)
@pytest.mark.parametrize("share, nsg", [(1, 1), (2, 4), (3, 1), (8, 2)])
def test_shapes_of_a_workgroup(run, share, nsg, seed):
    s = window(Shape(16, 2, 1), 100, 21, seed)
    assert rig.rel_rms(windowed(run, s, share, nsg), s.truth) < BAR


@pytest.mark.parametrize("run", ["interp32", "device"], indirect=True)
def test_scores_of_every_size(run, seed):
    """One key takes all, keys share alike, scores that exp alone would overflow; whole steps of keys are masked for some rows."""
    for size in (0.0, 1e-3, 300.0, 2e5):
        s = window(Shape(24, 3, 2, "f32", size), 58, 12, seed)
        error = rig.rel_rms(windowed(run, s, 4, 2), s.truth)
        assert error < max(BAR, size * 1e-6), (size, error)


@pytest.mark.parametrize("run", ["interp8", "device"], indirect=True)
def test_the_window_is_what_its_tokens_are_alone(run, seed):
    """The same numbers as the kernel of one token at a time, up to the order of sums."""
    s = window(Shape(64, 4, 2), 40, 50, seed)
    assert rig.rel_rms(windowed(run, s, 4, 2), whole(run, s).astype("f8")) < BAR


@pytest.mark.full
@pytest.mark.parametrize("run", ["device"], indirect=True)
@pytest.mark.parametrize("cache", ["f16", "f32"])
@pytest.mark.parametrize("hd", [10, 64, 80, 128])
@pytest.mark.parametrize("group", [1, 2, 5, 8])
def test_windows_everywhere(run, hd, group, cache, seed):
    for first, tokens in ((0, 64), (1, 65), (63, 2), (500, 40)):
        s = window(Shape(hd, group, 2, cache), first, tokens, seed)
        for share in {1, 2, 8 // group or 1}:
            assert rig.rel_rms(windowed(run, s, share, 1), s.truth) < BAR
