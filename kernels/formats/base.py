"""What all block formats share.

Every format presents its rows as blocks of 32 weights. `q` and `s` below are elements of the quant and the scale plane
(`elements` weights each, 32 or 256), g is the block inside the element, w the word (4 weights) inside the block.

    quad(q, s, g, w) -> f32x4      weights 4w..4w+3 of block g, dequantised (the scalar arm, embedding rows)
    packed(q, s, g, w) -> u32      the same four as int8, before scales (the integer arm)
    fold(s, g, lo, hi, d, sum_lo, sum_hi) -> f32
                                   value of the block's dot product: lo and hi are the integer dots of its halves with the
                                   activations, d the activations' scale, sum_* the activations' integer sums
    repack(raw, at, i, n, q, s)    writes block i of a plane element from the GGUF bytes at byte `at`: the disk block that holds
                                   the weights (block formats), or the first weight (float formats; n are left in the row)

quad and packed of a format with a CODEBOOK take it as a last argument: a buffer of u16, of which every plane of that format
uses the same. It is no part of a plane, since planes are cut into shards of rows and several tensors may share one.
"""

from __future__ import annotations

from spirvdsl import Format, bitcast, f16, f16x2, f32, i32, select, spirv_decode, u16, u32


class BlockFormat(Format):
    """A Format with the interface above. INTEGER: it has packed() and fold(). HALVES: fold() needs lo and hi apart, because
    the scale changes inside a block; otherwise only their sum matters. CODEBOOK: the 16-bit words of its codebook, if it has one."""

    INTEGER = False
    HALVES = False
    CODEBOOK: tuple[int, ...] = ()

    @spirv_decode
    def weight(self, q, s, i, *book):
        """Weight i of a plane element, any i."""
        return self.quad(q, s, i // 32, (i // 4) % 8, *book)[i % 4]


def halves(word):
    """The two f16 of a u32 as f32: (low, high)."""
    v = bitcast(word, f16x2)
    return f32(v.x), f32(v.y)


def half(bits):
    """The f16 whose bits are the low half of a u32, as f32."""
    return f32(bitcast(u16(bits & 0xFFFF), f16))


def byte_of(words, i):
    """Unsigned byte i of an array of u32."""
    return (words[i // 4] >> ((i % 4) * 8)) & 0xFF


def signed_byte(word, i):
    """Signed byte i (0..3) of a u32 as i32."""
    return bitcast(word << (24 - (i % 4) * 8), i32) >> 24


def word_at(vectors, i):
    """u32 number i of an array of u32x4."""
    return vectors[i // 4][i % 4]


def byte_at(vectors, i):
    """Unsigned byte i of an array of u32x4."""
    return (word_at(vectors, i // 4) >> ((i % 4) * 8)) & 0xFF


def bit_bytes(bits):
    """Bits 0-3 of a u32, one in each byte."""
    return ((bits & 0xF) * 0x00204081) & 0x01010101


def negated(values, bits):
    """Four bytes, of which those whose bit (0-3) is set change their sign. No byte that changes is 0: it would carry."""
    ones = bit_bytes(bits)
    return (values ^ (ones * 0xFF)) + ones


def crumb_bytes(byte):
    """Four codes of two bits, one in each byte."""
    pairs = (byte | (byte << 12)) & 0x000F000F
    return (pairs | (pairs << 6)) & 0x03030303


def spread_bits(bits, w):
    """Bits 4w..4w+3 of a u32, one in bit 4 of each byte: the fifth bit of four weights."""
    return bit_bytes(bits >> (4 * w)) << 4


def raw_half(raw, at):
    """The f16 at byte offset `at` (even) of GGUF bytes seen as u16."""
    return bitcast(raw[at // 2], f16)


def raw_word(raw, at):
    """u32 at byte offset `at` (even) of GGUF bytes seen as u16."""
    return u32(raw[at // 2]) | (u32(raw[at // 2 + 1]) << 16)


def raw_byte(raw, at):
    """Byte `at` of GGUF bytes seen as u16, as u32."""
    return (u32(raw[at // 2]) >> ((at % 2) * 8)) & 0xFF


def raw_word_anywhere(raw, at):
    """u32 at byte offset `at`, odd or even; no byte past its end is read but the other one of a u16."""
    word = raw_word(raw, at)
    return select(at % 2 == 0, word, (word >> 8) | (u32(raw[(at + 3) // 2]) << 24))


def signed_floats(word):
    """Four signed bytes as f32 values."""
    return f32(signed_byte(word, 0)), f32(signed_byte(word, 1)), f32(signed_byte(word, 2)), f32(signed_byte(word, 3))


def unsigned_floats(word):
    """Four unsigned bytes as f32 values."""
    return f32(word & 0xFF), f32((word >> 8) & 0xFF), f32((word >> 16) & 0xFF), f32(word >> 24)
