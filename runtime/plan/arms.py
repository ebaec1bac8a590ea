"""Which arm multiplies each tensor: an ordered roster of capability predicates; the first that holds serves, and says why.

Arms so far: int (packed 4x8 dots with q8 activations) and scalar (f32). `RUNTIME_ARM` or --arm forces one; a forced arm that a
tensor or device cannot run is an error that names both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.formats import FORMATS, BlockFormat

from ..errors import PlanError

KNOWN = ("frag", "cm2", "khr", "int", "scalar")


@dataclass(frozen=True)
class Arm:
    """One way to multiply. can: None when it may run, else the reason it may not; want: the same for being chosen unforced."""

    name: str
    can: Callable[[type[BlockFormat], Any], str | None]
    want: Callable[[type[BlockFormat], Any], str | None]


def _int_can(fmt: type[BlockFormat], caps: Any) -> str | None:
    if not fmt.INTEGER:
        return f"{fmt.name} weights are floats"
    if "shaderIntegerDotProduct" not in caps.features:
        return "the device has no shaderIntegerDotProduct"
    return None


def _int_want(fmt: type[BlockFormat], caps: Any) -> str | None:
    return None if caps.int_dot_accelerated else "the device's packed 4x8 integer dot is not accelerated"


ROSTER: tuple[Arm, ...] = (
    Arm("int", _int_can, _int_want),
    Arm("scalar", lambda fmt, caps: None, lambda fmt, caps: None),
)


def choose(tensor: str, type_name: str, caps: Any, forced: str | None) -> tuple[str, str]:
    """(arm, reason) for a matrix. PlanError when a forced arm cannot run it."""
    fmt = FORMATS[type_name]
    if forced:
        if forced not in KNOWN:
            raise PlanError(f"arm {forced!r} is unknown; arms are {', '.join(KNOWN)}")
        arm = next((a for a in ROSTER if a.name == forced), None)
        why = f"this build has no {forced} arm" if arm is None else arm.can(fmt, caps)
        if why:
            raise PlanError(f"arm {forced} cannot run tensor {tensor} on {caps.name}: {why}; leave --arm out or force scalar")
        return forced, "forced"
    passed = []
    for arm in ROSTER:
        why = arm.can(fmt, caps) or arm.want(fmt, caps)
        if why is None:
            return arm.name, "; ".join(passed) or "first arm of the roster"
        passed.append(f"not {arm.name}: {why}")
    raise PlanError(f"no arm can run tensor {tensor} on {caps.name}: {'; '.join(passed)}")
