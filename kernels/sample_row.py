"""A row of logits as the sampler's candidates, and borders in it that are found without storing any.

All filters keep a prefix of the candidates sorted by (logit descending, id ascending). A border is (key, ties): everything
above `key` is kept and, of the tokens at `key`, the `ties` with the lowest ids. A border is found where a running sum over that
order reaches a goal, eight bits of the key a pass over the row; equal keys weigh the same, so ids matter at the end only.
"""

from __future__ import annotations

from spirvdsl import (
    In,
    Kernel,
    Param,
    Push,
    barrier,
    f32,
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
        """visit(state, key, token) for the whole row; a lane sees its tokens in ascending order."""
        count = self.vocab // self.VEC
        base = group_id.x * count
        for i in range(local_index, count, self.THREADS):
            if self.VEC == 4:
                four = self.logits[base + i]
                for c in static_range(4):
                    visit(state, order(four[c]), i * 4 + c)
            else:
                visit(state, order(self.logits[base + i]), i)

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
        """Entries 0..count-1 become running sums. All lanes call it, after a barrier; it ends in one if count > 1."""
        step = u32(1)
        while step < count:
            takes = local_index < count and local_index >= step
            value = u32x2(0)
            if takes:
                value = wide_add(self.sum_at(local_index), self.sum_at(local_index - step))
            barrier()
            if takes:
                self.put_sum(value)
            barrier()
            step = step * 2

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

    # borders
    def draw_from_row(self, want, cut, top, word):
        """note[TOKEN] = the draw. want: SlotState; cut: top_k counts; top: key of the largest logit; word: the random word."""
        border, ties, lowest = u32(0), u32(0), least(top, want.min_p)
        for stage in range(3):
            if stage == DRAW or (stage == TOP_K and cut) or (stage == TOP_P and want.top_p < 1.0):
                if stage == DRAW and lowest > border:
                    border = lowest - 1
                    ties = u32(0)
                share = select(stage == DRAW, word, fraction(want.top_p))
                temperature = select(stage == DRAW, want.temperature, f32(1.0))
                border, ties = self.descend(stage, border, ties, top, temperature, share, want.top_k)
        self.find(border, ties)

    def descend(self, stage, border, ties, top, temperature, share, top_k):
        """The border at which the sum over the tokens within the given border reaches its goal: TOP_K, which counts tokens, top_k
        of them; TOP_P, which sums probabilities, `share` / 2^32 of their total; DRAW more than that."""
        found, mask, rest = u32(0), u32(0), u32x2(0)
        note = notes()
        for step in range(4):
            shift = 24 - 8 * step
            self.put_sum(u32x2(0))
            if local_index == 0:
                note[FOUND] = NONE
            barrier()
            self.walk(self.add_to_bin, (stage, border, found, mask, shift, top, temperature))
            if local_index == 0 and ties > 0 and ((border ^ found) & mask) == 0:
                add_atomically(self.lows(), self.highs(), 255 - ((border >> shift) & 255), times(weigh(stage, border, top, temperature), ties))
            barrier()
            self.accumulate(u32(256))
            if step == 0:
                total = self.sum_at(255)
                rest = goal(total, share, stage == DRAW)
                if stage == TOP_K:
                    rest = select(wide_less(total, u32x2(top_k, u32(0))), total, u32x2(top_k, u32(0)))
            self.locate(u32(256), rest)
            found = found | ((255 - note[FOUND]) << shift)
            mask = mask | (u32(255) << shift)
            rest = u32x2(note[REST_LOW], note[REST_HIGH])
            barrier()
        return found, self.ties_for(rest, weigh(stage, found, top, temperature))

    def add_to_bin(self, state, key, token):
        """Weight of a token above the border whose key begins as found so far, by the next eight bits, largest first."""
        stage, border, found, mask, shift, top, temperature = state
        if key > border and ((key ^ found) & mask) == 0:
            add_atomically(self.lows(), self.highs(), 255 - ((key >> shift) & 255), weigh(stage, key, top, temperature))

    def ties_for(self, rest, each):
        """Smallest number of tokens whose weights `each` together reach rest."""
        low, high = u32(1), self.vocab
        while low < high:
            middle = (low + high) // 2
            if wide_less(times(each, middle), rest):
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, key, n):
        """note[TOKEN] = the n-th token, by id and from 1, that has this key. All lanes call it, after a barrier."""
        note = notes()
        chunk = (self.vocab + self.THREADS - 1) // self.THREADS
        start = min(local_index * chunk, self.vocab)
        end = min(start + chunk, self.vocab)
        count = u32(0)
        for i in range(start, end):
            count += select(self.key_of(i) == key, u32(1), u32(0))
        self.put_sum(u32x2(count, u32(0)))
        if local_index == 0:
            note[FOUND] = NONE
        barrier()
        self.accumulate(u32(self.THREADS))
        self.locate(u32(self.THREADS), u32x2(n, u32(0)))
        if local_index == note[FOUND]:
            left = note[REST_LOW]
            for i in range(start, end):
                if self.key_of(i) == key:
                    left -= 1
                    if left == 0:
                        note[TOKEN] = i


def weigh(stage, key, top, temperature):
    """What a token adds to a sum: 1 in TOP_K, else its probability times some factor."""
    return select(stage == TOP_K, u32x2(1, 0), weight(key, top, temperature))
