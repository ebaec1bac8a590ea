"""A row of logits as the sampler's candidates, and borders in it that are found without storing any.

All filters keep a prefix of the candidates sorted by (logit descending, id ascending), so that the last candidate, its key and
its id, says what is kept; for the draw it is the token itself. It lies where a running sum over that order reaches a goal, and
is found eight bits of the key a pass over the row, and by one more pass among equal keys, which weigh the same.
"""

from __future__ import annotations

from spirvdsl import (
    In,
    Kernel,
    Param,
    Push,
    barrier,
    f32,
    f32x4,  # noqa: F401 named in an annotation
    group_id,
    local_index,
    log,
    max,
    min,
    select,
    shared,
    static_range,
    u32,
    u32x2,
)

from .sample_maths import add_atomically, goal, logit_of, order, times, weight, wide_add, wide_less, wide_sub

NONE = 0xFFFFFFFF  # no token, no place
AHEAD = 4  # loads a lane has under way
GROUP = 16  # sums that are added in a row
TOP, FLOOR, COUNT, FOUND, REST_LOW, REST_HIGH, REACHING, TOKEN = range(8)  # words that one lane tells the others
TOP_K, TOP_P, DRAW = range(3)  # stages of the chain; min_p is a mere comparison


def notes():
    """Words by which lanes tell each other results: TOP ... TOKEN."""
    return shared(u32, 8)


def fraction(p):
    """p in units of 2^-32, for 0 <= p < 1; others count as the nearest of those."""
    return u32(max(min(p, 0.99999994), 0.0) * 4294967296.0)


def least(top, min_p):
    """The smallest key that min_p keeps: 1 when it is off, never above the largest key."""
    key = u32(1)
    if min_p > 0.0:
        key = max(min(order(logit_of(top) + log(min(min_p, 1.0))), top), 1)
    return key


class Candidates(Kernel):
    """One workgroup a row of logits [T, vocab]. VEC 4 reads four logits at once: vocab % 4 == 0."""

    VEC: Param[int] = 1
    THREADS: Param[int] = 512
    workgroup_size = "THREADS"
    requires = ("VEC in (1, 4)", "THREADS in (256, 512)")  # at least a lane for each of the 256 bins

    logits: In["f32x4 if VEC == 4 else f32"]
    vocab: Push[u32]

    def walk(self, visit, state):
        """visit(state, largest key, first) for every part of the row: its tokens are those of `part_token`, AHEAD * VEC of them."""
        count = self.vocab // self.VEC
        base = group_id.x * count
        for first in range(local_index, count, self.THREADS * AHEAD):
            # all loads first: one workgroup has a row to itself, and what it waits for is memory
            read = [self.logits[base + min(first + e * self.THREADS, count - 1)] for e in static_range(AHEAD)]
            largest = u32(0)
            for e in static_range(AHEAD):
                if first + e * self.THREADS < count:  # else it is the last one again, which belongs to another lane
                    for c in static_range(self.VEC):
                        largest = max(largest, order(read[e][c] if self.VEC == 4 else read[e]))
            visit(state, largest, first)

    def part_token(self, first, i):
        """Token i of the part beginning at `first`; it may lie past the end of the row."""
        return (first + i // self.VEC * self.THREADS) * self.VEC + i % self.VEC

    def key_of(self, token):
        """The key of one token of the row."""
        at = group_id.x * self.vocab + token
        return order(self.logits[at // 4][at % 4] if self.VEC == 4 else self.logits[at])

    # sums over the lanes, (low, high) words in workgroup memory
    def lows(self):
        return shared(u32, self.THREADS)

    def highs(self):
        return shared(u32, self.THREADS)

    def sum_at(self, i):
        return u32x2(self.lows()[i], self.highs()[i])

    def put_sum(self, value):
        self.lows()[local_index] = value.x
        self.highs()[local_index] = value.y

    def accumulate(self, count):
        """Entries 0..count-1 become running sums: within groups of 16, then over the groups; a few reads cost less than the
        barriers of a scan by doubling. All lanes call it, after a barrier; it ends in one."""
        start, value = local_index // GROUP * GROUP, u32x2(0)
        if local_index < count:
            for i in range(start, local_index + 1):
                value = wide_add(value, self.sum_at(i))
        barrier()
        if local_index < count:
            self.put_sum(value)
        barrier()
        if count > GROUP:
            if local_index < count:
                for end in range(GROUP - 1, start, GROUP):
                    value = wide_add(value, self.sum_at(end))
            barrier()
            if local_index < count:
                self.put_sum(value)
            barrier()

    def locate(self, count, wanted):
        """note[FOUND] = the first of `count` running sums that reaches `wanted`, note[REST_*] = what was wanting before it;
        FOUND stays NONE when none does. Lane 0 has set FOUND to NONE; all lanes call it, between barriers."""
        note = notes()
        if local_index < count:
            before = u32x2(0)
            if local_index > 0:
                before = self.sum_at(local_index - 1)
            if wide_less(before, wanted) and not wide_less(self.sum_at(local_index), wanted):
                rest = wide_sub(wanted, before)
                note[FOUND] = local_index
                note[REST_LOW] = rest.x
                note[REST_HIGH] = rest.y
        barrier()

    # the chain on the whole row
    def draw_from_row(self, want, cut, top, word):
        """note[TOKEN] = the draw. want: SlotState; cut: top_k counts; top: key of the largest logit; word: the random word."""
        last_key, last_id, lowest = u32(1), u32(NONE), least(top, want.min_p)
        for stage in range(3):
            if stage == DRAW or (stage == TOP_K and cut) or (stage == TOP_P and want.top_p < 1.0):
                if stage == DRAW and lowest > last_key:
                    last_key = lowest
                    last_id = u32(NONE)
                share = select(stage == DRAW, word, fraction(want.top_p))
                temperature = select(stage == DRAW, want.temperature, f32(1.0))
                last_key = self.descend(stage, last_key, last_id, top, temperature, share, want.top_k)
                last_id = notes()[TOKEN]

    def descend(self, stage, last_key, last_id, top, temperature, share, top_k):
        """Key of the candidate, its id in note[TOKEN], at which the sum over those up to the given one reaches its goal. TOP_K
        counts top_k candidates (or all); TOP_P sums probabilities up to share / 2^32 of their total; DRAW to more than that."""
        found, mask, rest, note = u32(0), u32(0), u32x2(0), notes()
        for step in range(5):
            self.put_sum(u32x2(0))
            if local_index == 0:
                note[FOUND] = NONE
            barrier()
            shift, each = 24 - 8 * min(step, 3), u32x2(0)
            if step < 4:
                for token in range(local_index, self.vocab, self.THREADS):
                    key = self.key_of(token)
                    inside = key > last_key or (key == last_key and token <= last_id)
                    if inside and ((key ^ found) & mask) == 0:
                        add_atomically(self.lows(), self.highs(), 255 - ((key >> shift) & 255), weigh(stage, key, top, temperature))
            else:
                each = weigh(stage, found, top, temperature)
                self.put_sum(times(each, self.count_in_chunk(found)))
            barrier()
            self.accumulate(u32(self.THREADS))
            if step == 0:
                total, counted = self.sum_at(self.THREADS - 1), u32x2(top_k, u32(0))
                rest = goal(total, share, stage == DRAW)
                if stage == TOP_K:
                    rest = select(wide_less(total, counted), total, counted)
            self.locate(u32(self.THREADS), rest)
            rest = u32x2(note[REST_LOW], note[REST_HIGH])
            if step < 4:
                found = found | ((255 - note[FOUND]) << shift)
                mask = mask | (u32(255) << shift)
            elif local_index == note[FOUND]:
                self.find_in_chunk(found, rest, each)
            barrier()
        return found

    def chunk(self):
        """Tokens of this lane when each lane takes a contiguous part: (first, one past the last)."""
        size = (self.vocab + self.THREADS - 1) // self.THREADS
        start = min(local_index * size, self.vocab)
        return start, min(start + size, self.vocab)

    def count_in_chunk(self, key):
        """How many tokens of this lane's chunk have this key."""
        start, end = self.chunk()
        count = u32(0)
        for token in range(start, end):
            count += select(self.key_of(token) == key, u32(1), u32(0))
        return count

    def find_in_chunk(self, key, rest, each):
        """note[TOKEN] = the token of this key at which a sum of `each` over them reaches rest."""
        start, end = self.chunk()
        wanting = True
        for token in range(start, end):
            if wanting and self.key_of(token) == key:
                if wide_less(each, rest):
                    rest = wide_sub(rest, each)
                else:
                    notes()[TOKEN] = token
                    wanting = False


def weigh(stage, key, top, temperature):
    """What a token adds to a sum: 1 in TOP_K, else its probability times some factor."""
    return select(stage == TOP_K, u32x2(1, 0), weight(key, top, temperature))
