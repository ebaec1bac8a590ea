"""Every kernel that ships, with stamps that stand for all those a runtime may ask for: golden files, census and tests walk this list.

The runtime picks other numbers (lanes, columns, head sizes) of the same kernels. Here each kernel has every format, arm, cache
type and option once, in shapes that any device with subgroups of 4 lanes or more can run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spirvdsl import Launchable, f16, f16x4, f32, f32x4

from .attention import Attention, Combine
from .formats import FORMATS
from .matmul import Embed, GateUp, Gemv, Tile
from .moe import ExpertDown, ExpertGateUp, GateScale, Route
from .norm import RmsNorm
from .quantize import Quantize, SwiGLU
from .repack import Repack
from .rope import RopeStore
from .sample import Argmax, Greedy, Sample
from .window_attention import WindowAttention

CACHES = {"f16": (f16, f16x4), "f32": (f32, f32x4)}
ARMS = {"f32": False, "int": True}
IR_TEXTS = (  # one of each kind of code: these have their IR in golden/ too
    "repack.q6_k", "embed.q5_0", "gemv.q4_k.int", "tile.q8_0.f32", "norm.both", "rope.hd64.norm.f16", "attention.hd64x2.f16.sg8", "greedy",
)
TEXT_FORMATS = ("F16", "Q8_0", "Q4_K")  # whose larger kernels have their SPIR-V in golden/; of the others the hash is enough


@dataclass(frozen=True)
class Entry:
    """A kernel and the name of its golden file. text, ir: whether its SPIR-V and its IR are kept as text beside the hash."""

    name: str
    kernel: Launchable
    text: bool = True
    ir: bool = False


def catalogue() -> list[Entry]:
    """All entries in a fixed order; names are unique. The kernels are not compiled yet."""
    found = [*formats(), *options(), *activations(), *attention(), *sampling(), *experts()]
    return [Entry(name, kernel, text, name in IR_TEXTS) for name, kernel, text in found]


def formats() -> Iterator[tuple[str, Launchable, bool]]:
    """What every weight format has."""
    for fmt in FORMATS.values():
        low, text = fmt.name.lower(), fmt.name in TEXT_FORMATS
        yield f"repack.{low}", Repack[fmt], True
        yield f"embed.{low}", Embed[fmt], True
        for arm, integer in ARMS.items():
            if fmt.INTEGER or not integer:
                yield f"gemv.{low}.{arm}", Gemv.stamp(fmt=fmt, INT=integer, LANES=4), True
                yield f"gate_up.{low}.{arm}", GateUp.stamp(fmt=fmt, INT=integer, LANES=4), text
                yield f"tile.{low}.{arm}", Tile.stamp(fmt=fmt, INT=integer), text


def options() -> Iterator[tuple[str, Launchable, bool]]:
    """Epilogues, columns and tile shapes, for a format each."""
    for name, arm, extra in (("Q5_0", "int", "bias"), ("Q8_0", "f32", "residual"), ("Q4_K", "int", "bias.residual")):
        given: dict[str, Any] = {"fmt": FORMATS[name], "INT": ARMS[arm], **{word.upper(): True for word in extra.split(".")}}
        yield f"gemv.{name.lower()}.{arm}.{extra}", Gemv.stamp(**given, LANES=4), False
        yield f"tile.{name.lower()}.{arm}.{extra}", Tile.stamp(**given, BM=32, BN=32, TM=2, TN=2), False
    for name, arm, cols in (("Q4_K", "int", 8), ("Q8_0", "f32", 8), ("Q6_K", "int", 2)):
        given = {"fmt": FORMATS[name], "INT": ARMS[arm], "COLS": cols}
        yield f"gemv.{name.lower()}.{arm}.cols{cols}", Gemv.stamp(**given, LANES=4), False
        yield f"gate_up.{name.lower()}.{arm}.cols{cols}", GateUp.stamp(**given, LANES=4), False
    for name, arm, cols in (("Q8_0", "f32", 1), ("Q8_0", "f32", 4), ("Q4_K", "f32", 4), ("Q4_K", "int", 4)):  # CPU devices: one lane a row
        given = {"fmt": FORMATS[name], "INT": ARMS[arm], "COLS": cols, "LANES": 1, "THREADS": 32}
        yield f"gemv.{name.lower()}.{arm}.lane.cols{cols}", Gemv.stamp(**given), False
        yield f"gate_up.{name.lower()}.{arm}.lane.cols{cols}", GateUp.stamp(**given), False
    yield "gemv.q4_k.int.wide", Gemv.stamp(fmt=FORMATS["Q4_K"], INT=True, LANES=4, THREADS=128), False


def activations() -> Iterator[tuple[str, Launchable, bool]]:
    """Norms, q8 activations, SwiGLU and rotary embedding."""
    for lanes in (4, 8):
        yield f"quantize.ql{lanes}", Quantize[lanes], True
        yield f"swiglu.int.ql{lanes}", SwiGLU[True, lanes], True
    yield "swiglu.f32", SwiGLU[False, 4], True
    yield "norm.f32", RmsNorm[True, False, 4], True
    yield "norm.q8", RmsNorm[False, True, 4], True
    yield "norm.both", RmsNorm[True, True, 4], True
    yield "norm.both.threads32", RmsNorm[True, True, 8, 32], True
    for head_dim, rotated, norm, cache in ((64, 64, False, "f16"), (64, 64, True, "f16"), (128, 128, True, "f32"), (24, 16, False, "f32")):
        yield f"rope.hd{head_dim}.{'norm' if norm else 'plain'}.{cache}", RopeStore[head_dim, rotated, norm, CACHES[cache][0]], True


def attention() -> Iterator[tuple[str, Launchable, bool]]:
    """Attention is stamped for the subgroup size of the device: 8 lanes (lavapipe), 32, 64, and the smallest."""
    for head_dim, group, cache, lanes, split in (
        (64, 2, "f16", 8, False), (64, 2, "f16", 8, True), (64, 7, "f16", 32, False), (128, 4, "f16", 32, True), (128, 8, "f16", 64, False),
        (24, 1, "f32", 4, False), (10, 3, "f32", 8, True),
    ):  # fmt: skip
        fixed = {"HD": head_dim, "GROUP": group, "CT4": CACHES[cache][1], "SPLIT": split, "SG": lanes, "NSG": 2 if group > 4 else 4}
        yield f"attention.hd{head_dim}x{group}.{cache}{'.split' if split else ''}.sg{lanes}", Attention.stamp(**fixed), lanes == 8
    for head_dim, group, cache, lanes in ((64, 2, "f16", 8), (128, 4, "f16", 32), (10, 3, "f32", 8)):
        fixed = {"HD": head_dim, "GROUP": group, "CT4": CACHES[cache][1], "SG": lanes, "NSG": 2}
        yield f"window_attention.hd{head_dim}x{group}.{cache}.sg{lanes}", WindowAttention.stamp(**fixed, TOKENS=2), lanes == 8
    for head_dim, q8, lanes in ((64, True, 8), (64, True, 4), (128, False, 4), (10, False, 4)):
        yield f"combine.hd{head_dim}.{f'q8.ql{lanes}' if q8 else 'f32'}", Combine[head_dim, q8, lanes], True


def experts() -> Iterator[tuple[str, Launchable, bool]]:
    """Routing, and the products whose matrix is read from a buffer."""
    for fmt in FORMATS.values():
        for arm, integer in ARMS.items():
            if fmt.INTEGER or not integer:
                text = fmt.name in TEXT_FORMATS
                yield f"experts_gate_up.{fmt.name.lower()}.{arm}", ExpertGateUp.stamp(fmt=fmt, INT=integer, LANES=4), text
                yield f"experts_down.{fmt.name.lower()}.{arm}", ExpertDown.stamp(fmt=fmt, INT=integer, LANES=4), text
    yield "route.norm", Route[True], True
    yield "route.plain", Route[False], True
    yield "gate_scale", GateScale.stamp(), True


def sampling() -> Iterator[tuple[str, Launchable, bool]]:
    """From logits to the next token."""
    yield "argmax", Argmax.stamp(), True
    yield "greedy", Greedy.stamp(), True
    yield "sample", Sample.stamp(THREADS=256), False
    yield "sample.vec4", Sample.stamp(VEC=4), True
