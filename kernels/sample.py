"""The next token, chosen on the device, and the bookkeeping that lets the next step start without the host.

`Argmax` finds the best logit of each piece of the vocabulary, `Greedy` the best of those; both prefer the lowest token id among
equals, as llama.cpp's greedy sampler does. `Sample` is llama.cpp's chain top_k, top_p, min_p, temperature, dist in one dispatch.
`advance` then writes the token where the next step reads it.

NaN and -inf are never drawn and lose against every number; a row of nothing else gives token 0. +inf counts as the largest f32.
"""

from __future__ import annotations

from spirvdsl import (
    In,
    InOut,
    Kernel,
    Out,
    Param,
    Push,
    atomic_add,
    barrier,
    f32,
    f32x4,  # noqa: F401 named in the annotation of Candidates.logits
    group_id,
    local_index,
    max,
    min,
    select,
    shared,
    static_range,
    struct,
    u32,
    u32x2,
    u32x4,
)

from .rows import Row
from .sample_maths import add_atomically, goal, order, philox, weight, wide_add
from .sample_row import (
    AHEAD,
    COUNT,
    DRAW,
    FLOOR,
    FOUND,
    NONE,
    REACHING,
    TOKEN,
    TOP,
    TOP_P,
    Candidates,
    fraction,
    least,
    notes,
)

RING = 4096  # token ids kept for the host, per slot
PIECE = 4096  # logits one workgroup of Argmax looks at
COLDEST = 1.1754944e-38  # smallest temperature that is drawn at; a device may take smaller numbers for 0


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


def better(key, token, other_key, other_token):
    """Does the other candidate win? Larger key, then lower id."""
    return other_key > key or (other_key == key and other_token < token)


def reduce_best(keys, tokens, threads):
    """Leaves the best of `threads` candidates in keys[0], tokens[0]. All lanes call it."""
    step = u32(threads // 2)
    barrier()
    while step > 0:
        if local_index < step:
            if better(keys[local_index], tokens[local_index], keys[local_index + step], tokens[local_index + step]):
                keys[local_index] = keys[local_index + step]
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
    """best[t * pieces + p] = (key, id) of the largest logit of piece p of row t. Grid (pieces, T)."""

    THREADS: Param[int] = 256
    workgroup_size = "THREADS"
    logits: In[f32]
    best: Out[u32x2]
    vocab: Push[u32]

    def main(self):
        keys, tokens = shared(u32, self.THREADS), shared(u32, self.THREADS)
        start = group_id.x * PIECE
        end = min(start + PIECE, self.vocab)
        key, token = u32(0), u32(NONE)
        for i in range(start + local_index, end, self.THREADS):
            other = order(self.logits[group_id.y * self.vocab + i])
            if better(key, token, other, i):
                key = other
                token = i
        keys[local_index] = key
        tokens[local_index] = token
        reduce_best(keys, tokens, self.THREADS)
        if local_index == 0:
            pieces = (self.vocab + PIECE - 1) // PIECE
            self.best[group_id.y * pieces + group_id.x] = u32x2(keys[0], tokens[0])


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
        keys, tokens = shared(u32, self.THREADS), shared(u32, self.THREADS)
        key, token = u32(0), u32(NONE)
        for i in range(local_index, self.pieces, self.THREADS):
            candidate = self.best[group_id.x * self.pieces + i]
            if better(key, token, candidate.x, candidate.y):
                key = candidate.x
                token = candidate.y
        keys[local_index] = key
        tokens[local_index] = token
        reduce_best(keys, tokens, self.THREADS)
        if local_index == 0:
            advance(self.rows_of, self.state, self.ring, self.source + group_id.x, self.target + group_id.x, tokens[0])


class Sample(Candidates):
    """The token drawn from row t of the logits follows rows[source + t]; rows[target + t] gets it. Grid (T).

    logits: [T, vocab], vocab <= 262144. The parameters are those of the row's slot: top_k 0 or >= vocab, top_p >= 1 and min_p <= 0
    switch a filter off; temperature <= 0 (or below the smallest normal f32, or NaN) takes the best token. Candidates are in the
    order (logit descending, id ascending); the draw is the first whose cumulative probability exceeds Philox(seed, position of
    the token drawn) / 2^32. Two passes over the row where at most THREADS / 2 candidates decide, else see sample_row.py.
    """

    rows_of: InOut[Row]
    state: InOut[SlotState]
    ring: Out[u32]
    source: Push[u32]
    target: Push[u32]

    def main(self):
        row = self.rows_of[self.source + group_id.x]
        want = self.state[row.slot]
        if not want.temperature >= COLDEST:
            want = SlotState(1.0, 1.0, 0.0, 1, 0, 0, 0, 0)
        note = notes()
        cut = want.top_k > 0 and want.top_k < self.vocab
        self.find_floor(min(want.top_k, self.THREADS // 2) if cut else u32(self.THREADS // 2))
        top = note[TOP]
        if top > 0:
            word = philox(row.position + 1, want.seed_low, want.seed_high)
            self.draw_from_list(want, cut, top, word)
            if note[TOKEN] == NONE:
                self.draw_from_row(want, cut, top, word)
        barrier()
        if local_index == 0:
            advance(self.rows_of, self.state, self.ring, self.source + group_id.x, self.target + group_id.x, note[TOKEN])

    def find_floor(self, need):
        """note[TOP] = the largest key; note[FLOOR] = the need-th largest of the lanes' largest keys, or 1: need tokens at least are
        not below it, if so many are valid, and rarely many more. note[TOKEN] = 0 if none is valid, else NONE."""
        note, best = notes(), [u32(0)]
        self.walk(self.keep_best, best)
        mine = best[0]
        maxima = shared(u32x4, self.THREADS // 4)
        maxima[local_index // 4][local_index % 4] = mine
        if local_index == 0:
            note[FLOOR] = 1
        barrier()
        rank = u32(0)
        for j in range((min(self.vocab, self.THREADS) + 3) // 4):
            four = maxima[j]
            for c in static_range(4):
                rank += select(four[c] > mine or (four[c] == mine and j * 4 + c < local_index), u32(1), u32(0))
        if rank == need - 1:
            note[FLOOR] = max(mine, 1)
        if rank == 0:
            note[TOP] = mine
            note[TOKEN] = select(mine > 0, u32(NONE), u32(0))
            note[COUNT] = 0
            note[FOUND] = NONE
        barrier()

    def keep_best(self, best, largest, first):
        best[0] = max(best[0], largest)

    def pairs(self):
        """The candidates in workgroup memory, (key, id)."""
        return shared(u32x2, self.THREADS)

    def draw_from_list(self, want, cut, top, word):
        """note[TOKEN] = the draw, unless that depends on more tokens than the list has."""
        floor = notes()[FLOOR]
        count = self.gather(floor)
        complete = floor == 1  # no valid token is missing in the list
        if count <= self.THREADS and (complete or not cut or want.top_k <= self.THREADS // 2):
            closed, unfiltered, whole = cut or complete, not (want.top_p < 1.0 or want.min_p > 0.0), u32x2(0)
            if not closed and (want.top_p < 1.0 or unfiltered):
                whole = self.total(top, want.temperature if unfiltered else f32(1.0))
            self.sort(count)
            self.draw_from_sorted(want, top, word, min(count, want.top_k) if cut else count, closed, unfiltered, whole)
        barrier()

    def gather(self, floor):
        """Lists the tokens not below floor, in any order; note[COUNT] may pass the length of the list."""
        self.walk(self.take, floor)
        barrier()
        return notes()[COUNT]

    def take(self, floor, largest, first):
        if largest >= floor:  # rarely
            for i in range(AHEAD * self.VEC):
                token = self.part_token(first, i)
                if token < self.vocab:
                    key = self.key_of(token)
                    if key >= floor:
                        at = atomic_add(notes()[COUNT], 1)
                        if at < self.THREADS:
                            self.pairs()[at] = u32x2(key, token)

    def total(self, top, temperature):
        """The sum of all weights of the row."""
        mine = u32x2(0)
        for token in range(local_index, self.vocab, self.THREADS):
            mine = wide_add(mine, weight(self.key_of(token), top, temperature))
        self.put_sum(u32x2(0))
        barrier()
        add_atomically(self.lows(), self.highs(), 0, mine)
        barrier()
        return self.sum_at(0)

    def sort(self, count):
        """Candidates in order: each moves to the number of those before it."""
        own, rank = u32x2(0), u32(0)
        if local_index < count:
            own = self.pairs()[local_index]
            for j in range(count):
                other = self.pairs()[j]
                rank += select(better(own.x, own.y, other.x, other.y), u32(1), u32(0))
        barrier()
        if local_index < count:
            self.pairs()[rank] = own
        barrier()

    def draw_from_sorted(self, want, top, word, n, closed, unfiltered, whole):
        """closed: the n candidates of the list are all that there are, else the row goes on and `whole` is its sum."""
        note = notes()
        kept = self.count_reaching(least(top, want.min_p), n)
        inside = closed or kept < n  # what is kept ends inside the list
        for stage in range(TOP_P, DRAW + 1):
            draws = stage == DRAW
            if (draws and (inside or unfiltered)) or (not draws and want.top_p < 1.0):
                last = select(draws, kept, n)
                self.weigh(last, top, select(draws, want.temperature, f32(1.0)))
                total = whole
                if (draws and inside) or closed:
                    total = self.sum_at(last - 1)
                self.locate(last, goal(total, select(draws, word, fraction(want.top_p)), draws))
                found = note[FOUND]
                barrier()
                if local_index == 0:
                    note[FOUND] = NONE
                    if draws and found != NONE:
                        note[TOKEN] = self.pairs()[found].y
                barrier()
                if found != NONE:
                    kept = min(kept, found + 1)
                    inside = True

    def weigh(self, n, top, temperature):
        """Running sums of the weights of the first n candidates."""
        if local_index < n:
            self.put_sum(weight(self.pairs()[local_index].x, top, temperature))
        barrier()
        self.accumulate(n)

    def count_reaching(self, key, n):
        """How many of the first n candidates are not below key, which the first never is."""
        note = notes()
        if local_index < n:
            following = u32(0)
            if local_index + 1 < n:
                following = self.pairs()[local_index + 1].x
            if self.pairs()[local_index].x >= key and following < key:
                note[REACHING] = local_index + 1
        barrier()
        return note[REACHING]
