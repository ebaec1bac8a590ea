"""Runs a planned model: allocates what the plan says, records steps once, resubmits them.

A step is recorded for a number of rows and a form (no head, last logits, all logits, greedy) and kept; everything that
changes from token to token lies in buffers: row records, page table, sampling state. No host arithmetic on weights or
activations happens here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels.rows import PAGE
from kernels.sample import PIECE, RING, Argmax, Greedy, Sample

from ..models.rope import rope_table
from ..plan.lower import Dispatch, Lowering
from ..plan.residency import Plan
from ..vk import Device
from ..vk.buffer import Buffer, Slice
from ..vk.commands import Commands
from .pages import Pages
from .weights import Progress, Weights

ROW = np.dtype([("token", "<u4"), ("position", "<u4"), ("table", "<u4"), ("slot", "<u4")])
STATE = np.dtype([("temperature", "<f4"), ("top_p", "<f4"), ("min_p", "<f4"), ("top_k", "<u4"), ("seed", "<u8"), ("drawn", "<u4"), ("reserved", "<u4")])
SLOTS = 16  # decode rows in front of the prefill rows; 256 bytes, the largest offset alignment Vulkan allows
_KEPT = 24  # recorded prefill steps of different length that are kept


@dataclass(frozen=True)
class Form:
    """What a recorded step ends in. head: none | last | all; pick: none | greedy | sample."""

    tokens: int
    decode: bool
    head: str
    pick: str


class Executor:
    """One model on one device. Not for two threads."""

    def __init__(self, device: Device, plan: Plan, progress: Progress | None = None):
        self.device, self.plan, self.config = device, plan, plan.model.config
        self._kv: list[Buffer] = []
        self.names: dict[object, Slice] = {}
        self._cache_buffers()  # reserved before the weights: without them nothing can be served
        self.weights = Weights(device, plan, progress)
        self.names |= self.weights.slices
        self._scratch()
        self.pages = Pages(plan.pages)
        self._steps: OrderedDict[Form, Commands] = OrderedDict()
        self.fed = 0  # tokens of the newest prefill that were submitted
        self.last = 0  # timeline value of the newest submit

    def _cache_buffers(self) -> None:
        """Never cleared: attention reads no key or value that was not stored, so untouched pages cost a software device nothing."""
        for layer in range(self.config.n_layer):
            for side in "kv":
                self.names[f"{side}{layer}"] = self.device.buffer(self.plan.kv_layer_bytes).whole

    def _scratch(self) -> None:
        sizes = dict(self.plan.scratch)
        ring = self.device.buffer(sizes.pop("ring"), host=True)
        self._ring = ring.mapped.view(np.uint32)
        self.names["ring"] = ring.whole
        self._buffers = {n: self.device.buffer(size) for n, size in sizes.items()}
        clear = self.device.commands(reusable=False)
        for name, buffer in self._buffers.items():
            self.names[name] = buffer.whole
            clear.fill(buffer, 0)  # pads of activation rows stay zero for good
        clear.end()
        self.device.submit(clear)
        self.names["all_rows"] = self.names.pop("rows")  # "rows" is the part that a recorded step works on
        self.names["rope"] = self.device.array(rope_table(self.config, self.plan.n_ctx)).whole

    # recording
    def step(self, form: Form) -> Commands:
        """The recorded commands of a form; recorded at its first use."""
        commands = self._steps.get(form)
        if commands is None:
            commands = self._steps[form] = self.record(form)
            prefill = [f for f in self._steps if not f.decode]
            if len(prefill) > _KEPT:
                del self._steps[prefill[0]]
        else:
            self._steps.move_to_end(form)
        return commands

    def dispatches(self, form: Form) -> list[Dispatch]:
        """What a form consists of, before it is bound to buffers."""
        ops = Lowering(self.plan, self.device.caps, form.tokens, form.decode, form.head == "all", head=form.head != "none").run()
        return ops + self._pick(form)

    def _pick(self, form: Form) -> list[Dispatch]:
        if form.pick == "none":
            return []
        vocab, rows = self.config.n_vocab, form.tokens if form.decode else 1
        pieces = -(-vocab // PIECE)
        source = 0 if form.decode else SLOTS + form.tokens - 1
        if form.pick == "sample":
            caps = self.device.caps
            small = caps.is_cpu or caps.max_workgroup_invocations < 512  # lavapipe compiles and runs this stamp fastest (2026-11-30)
            kernel = Sample.stamp(VEC=1 if small or vocab % 4 else 4, THREADS=256 if small else 512)
            return [Dispatch(kernel, {"logits": "logits", "rows_of": "all_rows", "state": "state", "ring": "ring"},
                             {"vocab": vocab, "source": source, "target": 0}, (rows, 1, 1), "pick")]
        return [Dispatch(Argmax.stamp(), {"logits": "logits", "best": "best"}, {"vocab": vocab}, (pieces, rows, 1), "argmax"),
                Dispatch(Greedy.stamp(), {"best": "best", "rows_of": "all_rows", "state": "state", "ring": "ring"},
                         {"pieces": pieces, "source": source, "target": 0}, (rows, 1, 1), "pick")]

    def record(self, form: Form, profile: bool = False) -> Commands:
        """Bind the dispatches of a form to buffers and record them. profile: with a timestamp after each."""
        rows = self._buffers["rows"]
        view = rows.range(0, SLOTS * ROW.itemsize) if form.decode else rows.range(SLOTS * ROW.itemsize, rows.size - SLOTS * ROW.itemsize)
        with self.device.commands(reusable=True, profile=profile) as commands:
            for d in self.dispatches(form):
                compiled = d.kernel.compile()
                pipe = self.device.pipeline(compiled)
                bound = [self._slice(view if d.bind[b.name] == "rows" else d.bind[b.name]) for b in compiled.reflection.bindings]
                commands.dispatch(pipe, bound, {m.name: d.push[m.name] for m in compiled.reflection.push}, d.groups, d.label)
        return commands

    def _slice(self, name: object) -> Slice:
        if isinstance(name, Slice):
            return name
        if isinstance(name, tuple) and name not in self.names:
            return self.names[name[0]].range(name[1], name[2])
        return self.names[name]

    # running
    def prefill(self, tokens: list[int], start: int, table: int, slot: int, head: str = "last", pick: str = "none",
                stop: Callable[[], bool] = lambda: False) -> None:
        """Feed tokens at positions start.. in windows. head and pick apply to the last window ("all": to every window).

        Submits without waiting for the result; `wait()` does. `stop` is asked before each window; `fed` counts the tokens
        that were given to the device.
        """
        window, self.fed = self.plan.window, 0
        for at in range(0, len(tokens), window):
            if at and stop():
                return
            part = tokens[at: at + window]
            rows = np.zeros(len(part), ROW)
            rows["token"], rows["position"], rows["table"], rows["slot"] = part, np.arange(start + at, start + at + len(part)), table, slot
            final = at + window >= len(tokens)
            self.device.upload(self._buffers["rows"], SLOTS * ROW.itemsize, rows)
            form = Form(len(part), False, head if final or head == "all" else "none", pick if final else "none")
            self.last = self.device.submit(self.step(form))
            self.fed += len(part)

    def decode(self, rows: int = 1, pick: str = "greedy") -> int:
        """Submit one step of the first `rows` slots, which reads and writes its row records on the device."""
        self.last = self.device.submit(self.step(Form(rows, True, "last", pick)))
        return self.last

    def set_rows(self, rows: np.ndarray) -> None:
        """Row records of the decode slots, from the host."""
        self.device.upload(self._buffers["rows"], 0, rows)

    def set_table(self, entry: int, pages: list[int]) -> None:
        """Page-table entries from `entry` on."""
        self.device.upload(self._buffers["table"], 4 * entry, np.asarray(pages, np.uint32))

    def set_state(self, slot: int, **values: float) -> None:
        """Sampling state of a slot; also empties its ring."""
        state = np.zeros(1, STATE)
        for name, value in values.items():
            state[name] = value
        self.device.upload(self._buffers["state"], slot * STATE.itemsize, state)

    def drawn(self, slot: int, index: int) -> int:
        """The index-th token drawn in a slot since set_state; its step must have finished."""
        return int(self._ring[slot * RING + index % RING])

    def wait(self, value: int | None = None) -> None:
        """Wait for a submit, by default the newest."""
        self.device.wait(self.last if value is None else value)

    def logits(self, rows: int = 1) -> np.ndarray:
        """f32 [rows, vocabulary] of the newest step."""
        self.wait()
        raw = self.device.download(self._buffers["logits"], 0, rows * self.config.n_vocab * 4)
        return raw.view(np.float32).reshape(rows, self.config.n_vocab)

    def page_count(self, tokens: int) -> int:
        """Pages that hold so many tokens."""
        return -(-tokens // PAGE)
