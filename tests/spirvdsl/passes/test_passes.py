"""Passes keep the meaning of random programs, keep the IR well formed, change nothing they are given, and are deterministic."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spirvdsl.ir.nodes import Module, walk
from spirvdsl.ir.printer import print_module
from spirvdsl.ir.verify import verify
from spirvdsl.passes import dce, fold, inline, run_passes

from ..interp.programs import program
from ..interp.test_flow import run

PASSES = [fold, inline, dce, run_passes]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_passes_keep_the_meaning(random):
    module = program(random)
    before, expected = print_module(module), run(module)
    for step in PASSES:
        made = step(module)
        verify(made)
        np.testing.assert_array_equal(run(made), expected, err_msg=step.__name__)
    assert print_module(module) == before


@pytest.mark.full
def test_passes_keep_the_meaning_of_many_programs():
    for seed in range(2000):
        module = program(Random(seed))
        made = run_passes(module)
        verify(made)
        np.testing.assert_array_equal(run(made), run(module), err_msg=str(seed))


def nodes(module: Module) -> int:
    return sum(1 for fn in module.functions for _ in walk(fn.body))


def test_passes_shrink_programs_and_are_deterministic():
    smaller = 0
    for seed in range(40):
        module = program(Random(seed))
        made = run_passes(module)
        smaller += nodes(made) < nodes(inline(module))
        assert print_module(run_passes(program(Random(seed)))) == print_module(made)
    assert smaller > 30
