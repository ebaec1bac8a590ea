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
    f32x4,  # noqa: F401 named in the annotation of Descent.logits
    group_id,
    local_index,
    log,
    max,
    min,
    select,
    shared,
    static_range,
    struct,
    u32,
    u32x2,
    workgroup_max,
)

from .rows import Row
from .sample_descent import (
    COUNT,
    FLOOR,
    FOUND,
    KEPT,
    LIST,
    NONE,
    TOKEN,
    Descent,
    accumulate,
    highs,
    locate,
    lows,
    notes,
    sum_at,
)
from .sample_maths import add_atomically, beyond, logit_of, order, philox, reach, weight, wide_add

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


def pairs():
    """The candidates in workgroup memory, (key, id)."""
    return shared(u32x2, LIST)


class Sample(Descent):
    """The token drawn from row t of the logits follows rows[source + t]; rows[target + t] gets it. Grid (T).

    logits: [T, vocab], vocab <= 262144. The parameters are those of the row's slot: top_k 0 or >= vocab, top_p >= 1 and min_p <= 0
    switch a filter off, temperature <= 0 (or below the smallest normal f32) takes the best token. Candidates are in the order
    (logit descending, id ascending); the draw is the first whose cumulative probability exceeds Philox(seed, position of the
    token drawn) / 2^32. Two passes over the row suffice when at least THREADS / 2 candidates decide, else see Descent.
    """

    rows_of: InOut[Row]
    state: InOut[SlotState]
    ring: Out[u32]
    source: Push[u32]
    target: Push[u32]

    def main(self):
        row = self.rows_of[self.source + group_id.x]
        want = self.state[row.slot]
        best = [u32(0), u32(NONE)]
        self.walk(self.keep_best, best)
        top = workgroup_max(best[0])
        note = notes()
        if want.temperature >= COLDEST and top > 0:
            self.draw(want, best[0], top, philox(row.position + 1, want.seed_low, want.seed_high))
        else:
            first = NONE - workgroup_max(select(best[0] == top, NONE - best[1], u32(0)))
            if local_index == 0:
                note[TOKEN] = select(top > 0, first, u32(0))
        barrier()
        if local_index == 0:
            advance(self.rows_of, self.state, self.ring, self.source + group_id.x, self.target + group_id.x, note[TOKEN])

    def keep_best(self, best, key, token):
        if key > best[0]:
            best[0] = key
            best[1] = token

    def draw(self, want, mine, top, word):
        """note[TOKEN] = the draw. mine: largest key of this lane, top: of the row; word: the random word."""
        note, half = notes(), self.THREADS // 2
        cut = want.top_k > 0 and want.top_k < self.vocab
        floor = self.floor(mine, min(want.top_k, half) if cut else u32(half))
        plain, hot = self.gather(want, cut, floor, top)
        count = note[COUNT]
        everything = floor == 1  # no valid token is missing in the list
        if count <= LIST and (everything or not cut or want.top_k <= half):
            self.sort(count)
            n = min(count, want.top_k) if cut else count
            self.draw_from_list(want, top, word, n, not cut and not everything, plain, hot)
        if note[TOKEN] == NONE:
            self.draw_from_row(want, cut, top, word)

    def floor(self, mine, need):
        """The need-th largest of the lanes' largest keys: so many tokens at least are not below it, and rarely many more."""
        note = notes()
        lows()[local_index] = mine
        if local_index == 0:
            note[COUNT] = 0
            note[TOKEN] = NONE
        barrier()
        rank = u32(0)
        for j in range(self.THREADS):
            other = lows()[j]
            rank += select(other > mine or (other == mine and j < local_index), u32(1), u32(0))
        if rank == need - 1:
            note[FLOOR] = max(mine, 1)
        barrier()
        return note[FLOOR]

    def gather(self, want, cut, floor, top):
        """Lists the tokens not below floor, in any order; note[COUNT] may pass LIST. Returns the sums of all weights at
        temperature 1 and at the slot's temperature; they mean nothing when top_k cuts."""
        plain, hot = [u32x2(0)], [u32x2(0)]
        if local_index < 2:
            lows()[local_index] = 0
            highs()[local_index] = 0
        if cut:
            self.walk(self.list_one, (floor,))
        else:
            self.walk(self.list_and_weigh, (floor, top, want.temperature, plain, hot))
        barrier()
        if not cut:
            add_atomically(lows(), highs(), 0, plain[0])
            add_atomically(lows(), highs(), 1, hot[0])
        barrier()
        totals = sum_at(0), sum_at(1)
        barrier()
        return totals

    def list_one(self, state, key, token):
        if key >= state[0]:
            at = atomic_add(notes()[COUNT], 1)
            if at < LIST:
                pairs()[at] = u32x2(key, token)

    def list_and_weigh(self, state, key, token):
        _, top, temperature, plain, hot = state
        self.list_one(state, key, token)
        plain[0] = wide_add(plain[0], weight(key, top, f32(1.0)))
        hot[0] = wide_add(hot[0], weight(key, top, temperature))

    def sort(self, count):
        """Candidates in order: each moves to the number of those before it."""
        slots = self.slots()
        own = [u32x2(0) for _ in slots]
        rank = [u32(0) for _ in slots]
        for e in slots:
            i = local_index + e * self.THREADS
            if i < count:
                own[e] = pairs()[i]
                for j in range(count):
                    other = pairs()[j]
                    rank[e] += select(better(own[e].x, own[e].y, other.x, other.y), u32(1), u32(0))
        barrier()
        for e in slots:
            if local_index + e * self.THREADS < count:
                pairs()[rank[e]] = own[e]
        barrier()

    def slots(self):
        """A lane's share of the list: entries local_index + e * THREADS."""
        return static_range(LIST // self.THREADS)

    def draw_from_list(self, want, top, word, n, open_end, plain, hot):
        """Sets note[TOKEN] unless what is kept ends beyond the n candidates of the list. open_end: the row goes on after them,
        and plain, hot are its sums."""
        note, kept, inside = notes(), n, not open_end
        if want.top_p < 1.0:
            self.weigh_list(n, top, f32(1.0))
            total = plain if open_end else sum_at(n - 1)
            locate(n, reach(total, fraction(want.top_p)), self.THREADS)
            if note[FOUND] != NONE:
                kept = note[FOUND] + 1
                inside = True
            barrier()
        if want.min_p > 0.0:
            reaching = self.count_reaching(least(top, want.min_p), kept)
            if reaching < kept:
                kept = reaching
                inside = True
        if inside or not (want.top_p < 1.0 or want.min_p > 0.0):
            self.weigh_list(kept, top, want.temperature)
            total = sum_at(kept - 1) if inside else hot
            locate(kept, beyond(total, word), self.THREADS)
            if local_index == 0 and note[FOUND] != NONE:
                note[TOKEN] = pairs()[note[FOUND]].y
        barrier()

    def weigh_list(self, n, top, temperature):
        """Running sums of the weights of the first n candidates."""
        for e in self.slots():
            i = local_index + e * self.THREADS
            if i < n:
                w = weight(pairs()[i].x, top, temperature)
                lows()[i] = w.x
                highs()[i] = w.y
        barrier()
        accumulate(n, self.THREADS)

    def count_reaching(self, key, n):
        """How many of the first n candidates are not below key; the first one never is."""
        note = notes()
        for e in self.slots():
            i = local_index + e * self.THREADS
            if i < n:
                following = u32(0)
                if i + 1 < n:
                    following = pairs()[i + 1].x
                if pairs()[i].x >= key and following < key:
                    note[KEPT] = i + 1
        barrier()
        count = note[KEPT]
        barrier()
        return count

    def draw_from_row(self, want, cut, top, word):
        """The same without a list: three borders, each four passes over the row."""
        border, ties = u32(0), u32(0)
        if cut:
            border, ties = self.descend("count", border, ties, top, want.temperature, want.top_k)
        if want.top_p < 1.0:
            border, ties = self.descend("reach", border, ties, top, f32(1.0), fraction(want.top_p))
        if want.min_p > 0.0:
            below = least(top, want.min_p) - 1
            if below >= border:
                border = below
                ties = u32(0)
        key, n = self.descend("pass", border, ties, top, want.temperature, word)
        self.nth(key, n)


def fraction(p):
    """p < 1 in units of 2^-32; 0 for negative p."""
    return u32(max(p, 0.0) * 4294967296.0)


def least(top, min_p):
    """The smallest key that min_p keeps, never 0 and never above the largest."""
    return max(min(order(logit_of(top) + log(min(min_p, 1.0))), top), 1)
