"""The part of the sampler that never stores candidates: borders in the sorted order of a whole row of logits.

All filters keep a prefix of the candidates sorted by (logit descending, id ascending). A border is (key, ties): everything
above `key` is kept and, of the tokens at `key`, the `ties` with the lowest ids. `descend` finds where a running sum over that
order reaches a target, eight bits of the key a pass over the row; equal keys have equal weights, so ids matter at the end only.
"""

from __future__ import annotations

from spirvdsl import (
    In,
    Kernel,
    Param,
    Push,
    barrier,
    group_id,
    local_index,
    min,
    select,
    shared,
    static_range,
    u32,
    u32x2,
)

from .sample_maths import add_atomically, beyond, order, reach, times, weight, wide_add, wide_less, wide_sub

LIST = 1024  # candidates kept in workgroup memory, and entries of the running sums
NONE = 0xFFFFFFFF  # no token, no place
FOUND, REST_LOW, REST_HIGH, COUNT, KEPT, TOKEN, FLOOR = range(7)  # words that one lane tells the others


def notes():
    """Words by which lanes tell each other results: FOUND ... FLOOR."""
    return shared(u32, 8)


def lows():
    """Low words of the running sums."""
    return shared(u32, LIST)


def highs():
    """High words of the running sums."""
    return shared(u32, LIST)


def sum_at(i):
    """Running sum i, wide."""
    return u32x2(lows()[i], highs()[i])


def accumulate(count, threads):
    """Entries 0..count-1 become running sums. All lanes call it, between barriers."""
    step = u32(1)
    while step < count:
        sums = [u32x2(0) for _ in static_range(LIST // threads)]
        for e in static_range(LIST // threads):
            i = local_index + e * threads
            if i < count and i >= step:
                sums[e] = wide_add(sum_at(i), sum_at(i - step))
        barrier()
        for e in static_range(LIST // threads):
            i = local_index + e * threads
            if i < count and i >= step:
                lows()[i] = sums[e].x
                highs()[i] = sums[e].y
        barrier()
        step = step * 2


def locate(count, target, threads):
    """note[FOUND] = first of `count` running sums that reaches target, and note[REST_*] what of target was left before it;
    NONE when none does. All lanes call it, between barriers."""
    note = notes()
    if local_index == 0:
        note[FOUND] = NONE
    barrier()
    for e in static_range(LIST // threads):
        i = local_index + e * threads
        if i < count:
            before = u32x2(0)
            if i > 0:
                before = sum_at(i - 1)
            if wide_less(before, target) and not wide_less(sum_at(i), target):
                rest = wide_sub(target, before)
                note[FOUND] = i
                note[REST_LOW] = rest.x
                note[REST_HIGH] = rest.y
    barrier()


class Descent(Kernel):
    """A row of logits a workgroup, and borders in it. VEC 4 reads four logits at once: vocab % 4 == 0."""

    VEC: Param[int] = 1
    THREADS: Param[int] = 512
    workgroup_size = "THREADS"
    requires = ("VEC in (1, 4)", "THREADS in (256, 512, 1024)")

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

    def descend(self, mode, border, ties, top, temperature, goal):
        """The border (key, ties) at which the sum over the tokens inside the given border reaches its target.

        mode "count": each token weighs 1, goal is how many to keep; "reach" and "pass": they weigh by their probability at
        `temperature`, goal is a fraction in units of 2^-32 of the total which the sum must reach, or exceed.
        """
        found, mask, rest = u32(0), u32(0), u32x2(0)
        for step in range(4):
            shift = 24 - 8 * step
            for i in range(local_index, 256, self.THREADS):
                lows()[i] = 0
                highs()[i] = 0
            barrier()
            self.walk(self.add_to_bin, (mode, border, found, mask, shift, top, temperature))
            if local_index == 0 and ties > 0 and ((border ^ found) & mask) == 0:
                add_atomically(lows(), highs(), 255 - ((border >> shift) & 255), times(self.weigh(mode, border, top, temperature), ties))
            barrier()
            accumulate(u32(256), self.THREADS)
            if step == 0:
                rest = self.goal_sum(mode, sum_at(255), goal)
            locate(u32(256), rest, self.THREADS)
            found = found | ((255 - notes()[FOUND]) << shift)
            mask = mask | (u32(255) << shift)
            rest = u32x2(notes()[REST_LOW], notes()[REST_HIGH])
            barrier()
        return found, self.ties_for(rest, self.weigh(mode, found, top, temperature))

    def add_to_bin(self, state, key, token):
        """Weight of a token above the border whose key begins as found so far, by the next eight bits, largest first."""
        mode, border, found, mask, shift, top, temperature = state
        if key > border and ((key ^ found) & mask) == 0:
            add_atomically(lows(), highs(), 255 - ((key >> shift) & 255), self.weigh(mode, key, top, temperature))

    def weigh(self, mode, key, top, temperature):
        return u32x2(1, 0) if mode == "count" else weight(key, top, temperature)

    def goal_sum(self, mode, total, goal):
        """The sum to reach: at least 1, at most the total (a row may hold fewer valid logits than asked for)."""
        if mode == "count":
            wanted = u32x2(goal, u32(0))
            return select(wide_less(total, wanted), total, wanted)
        return reach(total, goal) if mode == "reach" else beyond(total, goal)

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

    def nth(self, key, n):
        """note[TOKEN] = the n-th token, by id and from 1, that has this key. All lanes call it, between barriers."""
        note = notes()
        chunk = (self.vocab + self.THREADS - 1) // self.THREADS
        start = min(local_index * chunk, self.vocab)
        end = min(start + chunk, self.vocab)
        count = u32(0)
        for i in range(start, end):
            count += select(self.key_of(i) == key, u32(1), u32(0))
        lows()[local_index] = count
        highs()[local_index] = 0
        barrier()
        accumulate(u32(self.THREADS), self.THREADS)
        locate(u32(self.THREADS), u32x2(n, u32(0)), self.THREADS)
        if local_index == note[FOUND]:
            left = note[REST_LOW]
            for i in range(start, end):
                if self.key_of(i) == key:
                    left -= 1
                    if left == 0:
                        note[TOKEN] = i
        barrier()
