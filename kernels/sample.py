"""The next token, chosen on the device, and the bookkeeping that lets the next step start without the host.

`Argmax` finds the best logit of each piece of the vocabulary, `Greedy` the best of those; both prefer the lowest token id among
equals, as llama.cpp's greedy sampler does. `advance` then writes the token where the next step reads it.
"""

from __future__ import annotations

from spirvdsl import (
    In,
    InOut,
    Kernel,
    Out,
    Param,
    Push,
    barrier,
    f32,
    group_id,
    local_index,
    min,
    shared,
    struct,
    u32,
    u32x2,
    bitcast,
)

from .rows import Row

RING = 4096  # token ids kept for the host, per slot
PIECE = 4096  # logits one workgroup of Argmax looks at


@struct
class SlotState:
    """Sampling of one sequence: parameters as in llama.cpp's chain, the seed, and how many tokens were drawn since the start."""

    temperature: f32
    top_p: f32
    min_p: f32
    top_k: u32
    seed_low: u32
    seed_high: u32
    drawn: u32
    reserved: u32


def better(value, token, other_value, other_token):
    """Does the other candidate win? Larger value, then lower id."""
    return other_value > value or (other_value == value and other_token < token)


def reduce_best(values, tokens, threads):
    """Leaves the best of `threads` candidates in values[0], tokens[0]. All lanes call it."""
    step = u32(threads // 2)
    barrier()
    while step > 0:
        if local_index < step:
            if better(values[local_index], tokens[local_index], values[local_index + step], tokens[local_index + step]):
                values[local_index] = values[local_index + step]
                tokens[local_index] = tokens[local_index + step]
        barrier()
        step = step // 2


def advance(rows, state, ring, source, target, token):
    """One lane: `token` follows rows[source]; rows[target] is what the next step reads, the ring what the host reads."""
    row = rows[source]
    slot = row.slot
    drawn = state[slot].drawn
    ring[slot * RING + drawn % RING] = token
    state[slot].drawn = drawn + 1
    rows[target] = Row(token, row.position + 1, row.table, slot)


class Argmax(Kernel):
    """best[t * pieces + p] = (logit bits, id) of the largest logit of piece p of row t. Grid (pieces, T)."""

    THREADS: Param[int] = 256
    workgroup_size = "THREADS"
    logits: In[f32]
    best: Out[u32x2]
    vocab: Push[u32]

    def main(self):
        values, tokens = shared(f32, self.THREADS), shared(u32, self.THREADS)
        start = group_id.x * PIECE
        end = min(start + PIECE, self.vocab)
        value, token = f32(-3.4e38), u32(0xFFFFFFFF)
        for i in range(start + local_index, end, self.THREADS):
            v = self.logits[group_id.y * self.vocab + i]
            if better(value, token, v, i):
                value = v
                token = i
        values[local_index] = value
        tokens[local_index] = token
        reduce_best(values, tokens, self.THREADS)
        if local_index == 0:
            pieces = (self.vocab + PIECE - 1) // PIECE
            self.best[group_id.y * pieces + group_id.x] = u32x2(bitcast(values[0], u32), tokens[0])


class Greedy(Kernel):
    """The best of the pieces of row t becomes the next token of rows[source + t]. Grid (T)."""

    THREADS: Param[int] = 64
    workgroup_size = "THREADS"
    best: In[u32x2]
    rows_of: InOut[Row]
    state: InOut[SlotState]
    ring: Out[u32]
    pieces: Push[u32]
    source: Push[u32]
    target: Push[u32]

    def main(self):
        values, tokens = shared(f32, self.THREADS), shared(u32, self.THREADS)
        value, token = f32(-3.4e38), u32(0xFFFFFFFF)
        for i in range(local_index, self.pieces, self.THREADS):
            candidate = self.best[group_id.x * self.pieces + i]
            v = bitcast(candidate.x, f32)
            if better(value, token, v, candidate.y):
                value = v
                token = candidate.y
        values[local_index] = value
        tokens[local_index] = token
        reduce_best(values, tokens, self.THREADS)
        if local_index == 0:
            advance(self.rows_of, self.state, self.ring, self.source + group_id.x, self.target + group_id.x, tokens[0])
