"""Numbers of the sampler: logits as sortable keys, exact sums of probabilities, and random words.

Probabilities are added as integers (40 fractional bits in a 64-bit pair of words), so that a sum is the same in whatever
order lanes add: no draw depends on timing, on the subgroup size or on the number of threads.
"""

from __future__ import annotations

from spirvdsl import atomic_add, bitcast, exp, f32, max, min, select, u32, u32x2

LARGEST = 0x7F7FFFFF  # bits of the largest finite f32
ZERO_KEY = 0x80000000
LOWEST_KEY = ZERO_KEY - LARGEST  # of all that may be drawn
PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)


def order(logit):
    """A u32 that sorts as the logits do. NaN and -inf give 0, +inf counts as the largest finite number, -0 equals 0."""
    bits = bitcast(logit, u32)
    magnitude = bits & 0x7FFFFFFF
    near = min(magnitude, LARGEST)
    key = select(bits >= ZERO_KEY, ZERO_KEY - near, ZERO_KEY + near)
    return select(magnitude > 0x7F800000 or bits == 0xFF800000, u32(0), key)


def logit_of(key):
    """The logit of a key other than 0."""
    return bitcast(select(key >= ZERO_KEY, key - ZERO_KEY, ZERO_KEY | (ZERO_KEY - key)), f32)


# 64-bit unsigned numbers as (low, high) words: shaderInt64 is not needed
def wide_add(a, b):
    """a + b."""
    low = a.x + b.x
    return u32x2(low, a.y + b.y + select(low < a.x, u32(1), u32(0)))


def wide_sub(a, b):
    """a - b, for a >= b."""
    return u32x2(a.x - b.x, a.y - b.y - select(a.x < b.x, u32(1), u32(0)))


def wide_less(a, b):
    """a < b."""
    return a.y < b.y or (a.y == b.y and a.x < b.x)


def product(a, b):
    """a * b of two u32."""
    al, ah, bl, bh = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
    low, high = al * bl, ah * bh
    one, two = al * bh, ah * bl
    middle = (low >> 16) + (one & 0xFFFF) + (two & 0xFFFF)
    return u32x2((middle << 16) | (low & 0xFFFF), high + (one >> 16) + (two >> 16) + (middle >> 16))


def times(a, n):
    """a * n of a wide number and a u32; the product fits 64 bits."""
    low = product(a.x, n)
    return u32x2(low.x, low.y + a.y * n)


def goal(total, fraction, exceed):
    """The least sum above 0 that reaches total * fraction / 2^32 or, where the bool `exceed` says so, exceeds it."""
    low, high = product(total.x, fraction), product(total.y, fraction)
    floor = wide_add(high, u32x2(low.y, u32(0)))
    exact = low.x == 0 and (floor.x | floor.y) != 0
    return wide_add(floor, u32x2(select(exact and not exceed, u32(0), u32(1)), u32(0)))


def add_atomically(lows, highs, at, w):
    """(lows[at], highs[at]) += w in workgroup memory: the lane whose addition wraps the low word carries."""
    old = atomic_add(lows[at], w.x)
    high = w.y + select(old + w.x < old, u32(1), u32(0))
    if high > 0:
        atomic_add(highs[at], high)


def weight(key, top, temperature):
    """exp((logit - largest logit) / temperature) in units of 2^-40, wide; 0 for key 0. top: key of the largest logit."""
    # bounded: no infinity takes part, whose arithmetic a device may get wrong; exp of the bound is 0 unless T is huge
    gap = max(logit_of(max(key, u32(LOWEST_KEY))) - logit_of(top), -3.0e38)
    e = min(exp(gap / temperature), 1.0) * 16777216.0
    head = u32(e)
    rest = u32((e - f32(head)) * 65536.0)
    w = u32x2((head << 16) | rest, head >> 16)
    return select(key > 0, w, u32x2(0))


def philox(counter, key_low, key_high):
    """First word of Philox4x32-10 of counter (counter, 0, 0, 0): Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
    (SC 2011)."""
    a, b, c, d = counter, u32(0), u32(0), u32(0)
    for _ in range(10):
        first, second = product(a, u32(PHILOX_MULTIPLIERS[0])), product(c, u32(PHILOX_MULTIPLIERS[1]))
        a, b, c, d = second.y ^ b ^ key_low, second.x, first.y ^ d ^ key_high, first.x
        key_low, key_high = key_low + PHILOX_WEYL[0], key_high + PHILOX_WEYL[1]
    return a
