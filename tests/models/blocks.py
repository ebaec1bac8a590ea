"""Random quantised weights for tests: real quantisers where PyPI gguf has them, else random blocks with sane scales.

Block layouts: ggml's block structs as the GGUF files hold them (d, dmin: f16 scales at the byte offsets of `SCALES`; those of
IQ1_M, MXFP4 and NVFP4 are no f16 in a row, see `put_scale`).
"""

from __future__ import annotations

import numpy as np
from gguf import GGMLQuantizationType, quants

from runtime.gguf import dequantize
from runtime.gguf.layout import TYPES_BY_NAME

FLOAT_TYPES = ("F32", "F16", "BF16")
QUANTISED_TYPES = ("Q8_0", "Q4_0", "Q5_0")  # PyPI gguf quantises these
# and of these only the dequantiser is used
RANDOM_TYPES = (
    "Q4_1", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS",
    "IQ1_S", "IQ1_M", "MXFP4", "NVFP4", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0",
)  # fmt: skip
TYPES = FLOAT_TYPES + QUANTISED_TYPES + RANDOM_TYPES
EXTREMES = ("subnormal", "zero", "max")
SCALES = {
    "Q8_0": (0,), "Q4_0": (0,), "Q5_0": (0,), "Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "IQ3_S": (0,), "IQ3_XXS": (0,), "IQ2_S": (0,),
    "IQ2_XS": (0,), "IQ2_XXS": (0,), "IQ1_S": (0,), "TQ1_0": (52,), "TQ2_0": (64,), "Q1_0": (0,), "Q2_0": (0,),
}  # fmt: skip
SPECIAL_SCALES = {"IQ1_M": 0x3FF, "MXFP4": 1, "NVFP4": 7}  # the largest number that stands for a subnormal scale
# second scale = this * d makes the mean zero; it is subtracted in K formats, added in the others
_MIDDLE_CODE = {"Q4_K": 7.5, "Q5_K": 15.5, "Q2_K": 1.5, "Q4_1": -7.5, "Q5_1": -15.5}
_SIGNED_SUB_SCALES = {"Q3_K": (96, 108), "IQ4_XS": (2, 8)}  # bytes; all zeros is the most negative, all ones the largest
_SUB_SCALES = {"IQ3_S": (106, 110), "IQ2_S": (74, 82), "IQ2_XS": (66, 74)}  # bytes; all ones is the largest
EXTREME_NIBBLES = {"MXFP4": (0x7, 0xF), "NVFP4": (0x7, 0xF)}  # largest and smallest, where they are not 15 and 0
_LOPSIDED = ("IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_S", "IQ1_M", "TQ2_0", "Q2_0")  # the extreme codes do not cancel out
_EXTREME_SHARE = 1 / 6  # of the blocks, for each kind of extreme


def block_size(type_name: str) -> tuple[int, int]:
    """(elements, bytes) of one block."""
    kind = TYPES_BY_NAME[type_name]
    return kind.elements, kind.size


def dequantize_blocks(type_name: str, raw: np.ndarray) -> np.ndarray:
    """u8 [n, bytes] -> f32 [n, elements], by PyPI gguf where it can."""
    elements, _ = block_size(type_name)
    return dequantize(type_name, np.ascontiguousarray(raw).reshape(-1), (len(raw), elements))


def _put_f16(raw: np.ndarray, offset: int, values) -> None:
    raw[:, offset : offset + 2] = np.asarray(values, "<f2").view(np.uint8).reshape(-1, 2)


def put_scale(type_name: str, raw: np.ndarray, bits: np.ndarray) -> None:
    """Write the scale of u8 [n, bytes] blocks in the number format of a type of SPECIAL_SCALES; bits: ints [n] or, NVFP4, [n, 4].

    IQ1_M: an f16 whose nibbles, lowest first, are the highest of the last four 16-bit words. MXFP4: an exponent of 2 with
    bias 127 in byte 0. NVFP4: E4M3 without a sign in bytes 0-3.
    """
    bits = np.asarray(bits).astype(np.int64)
    if type_name == "IQ1_M":
        for i in range(4):
            raw[:, 49 + 2 * i] = (raw[:, 49 + 2 * i] & 15) | (((bits >> (4 * i)) & 15) << 4).astype(np.uint8)
    elif type_name == "MXFP4":
        raw[:, 0] = bits
    else:
        raw[:, :4] = bits.reshape(len(raw), -1)


def _special_bits(type_name: str, d: np.ndarray) -> np.ndarray:
    """d in the number format of a type of SPECIAL_SCALES. A power of two is drawn by chance, so that the mean square is kept."""
    if type_name == "IQ1_M":
        return np.asarray(d, "<f2").view(np.uint16)
    size = np.abs(d)
    if type_name == "MXFP4":
        low = np.floor(np.log2(size))
        share = (size**2 / 4.0**low - 1) / 3  # of 2 ** (low + 1)
        return low + 128 + (np.modf(size * 2.0**40 / np.pi)[0] < share)
    return quants.NVFP4.fp32_to_ue4m3(2 * size)


def _set_scales(type_name: str, raw: np.ndarray, d: np.ndarray, min_ratio: np.ndarray | float = 1.0) -> None:
    if type_name in SPECIAL_SCALES:
        bits = _special_bits(type_name, d)
        put_scale(type_name, raw, np.repeat(bits[:, None], 4, 1) if type_name == "NVFP4" else bits)
        return
    _put_f16(raw, SCALES[type_name][0], d)
    if type_name in _MIDDLE_CODE:
        _put_f16(raw, SCALES[type_name][1], d * _MIDDLE_CODE[type_name] * min_ratio)


def _pack_k_scales(s: np.ndarray, m: np.ndarray) -> np.ndarray:
    """u8 [n, 12] of the Q4_K and Q5_K blocks from eight 6-bit scales and eight 6-bit minima, each [n, 8]."""
    low = np.concatenate([s[:, :4] | (s[:, 4:] >> 4) << 6, m[:, :4] | (m[:, 4:] >> 4) << 6], 1)
    return np.concatenate([low, (s[:, 4:] & 15) | (m[:, 4:] & 15) << 4], 1).astype(np.uint8)


def _sane_sub_scales(type_name: str, raw: np.ndarray, rng: np.random.Generator) -> None:
    """Sub-scales like a quantiser's, over most of their range; minima near the scales keep sub-blocks near zero mean."""
    n = len(raw)
    if type_name in ("Q4_K", "Q5_K"):
        s = rng.integers(16, 64, (n, 8))
        raw[:, 4:16] = _pack_k_scales(s, np.clip(s + rng.integers(-4, 5, (n, 8)), 0, 63))
    elif type_name == "Q6_K":
        s = rng.integers(32, 129, (n, 16)) * rng.choice([-1, 1], (n, 16))
        raw[:, 192:208] = s.clip(-128, 127).astype(np.int8).view(np.uint8)
    elif type_name == "Q2_K":
        s = rng.integers(4, 16, (n, 16))
        raw[:, :16] = s | np.clip(s + rng.integers(-1, 2, (n, 16)), 0, 15) << 4


def random_blocks(
    type_name: str, n: int, std: float, rng: np.random.Generator, gain: np.ndarray | float = 1.0
) -> np.ndarray:
    """n blocks of random codes, u8 [n, bytes]: near zero mean, standard deviation about `std` (times gain, for each block), scales
    of both signs where the type has them."""
    raw = rng.integers(0, 256, (n, block_size(type_name)[1]), np.uint8)
    _sane_sub_scales(type_name, raw, rng)
    factor = rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n)
    ratio = rng.uniform(0.9, 1.1, n)
    _set_scales(type_name, raw, np.float32(2.0**-8) * factor, ratio)
    unit = dequantize_blocks(type_name, raw[:4096]).std()
    _set_scales(type_name, raw, np.float32(2.0**-8) * factor * (std / unit) * gain, ratio)
    return raw


def _maximal(type_name: str, n: int, std: float, rng: np.random.Generator) -> np.ndarray:
    """Blocks of extreme codes under the largest sub-scales: all largest, all smallest, or mixed; rms about `std`."""
    size, way = block_size(type_name)[1], rng.integers(0, 3, (n, 1))
    low, high = EXTREME_NIBBLES.get(type_name, (0x0, 0xF))
    mixed = rng.choice(np.array([low * 17, low << 4 | high, high << 4 | low, high * 17], np.uint8), (n, size))
    raw = np.where(way == 2, mixed, np.where(way == 1, high * 17, low * 17)).astype(np.uint8)
    if type_name == "Q8_0":
        raw = np.where(raw >= 0x80, np.uint8(0x80), np.uint8(0x7F))  # -128 and 127
    elif type_name in ("Q4_K", "Q5_K"):
        raw[:, 4:16] = 0xFF
    elif type_name == "Q6_K":
        raw[:, 192:208] = rng.choice(np.array([0x7F, 0x80], np.uint8), (n, 16))
    elif type_name == "Q2_K":
        raw[:, :16] = 0xFF
    elif type_name in _SIGNED_SUB_SCALES:
        first, last = _SIGNED_SUB_SCALES[type_name]
        raw[:, first:last] = rng.choice(np.array([0x00, 0xFF], np.uint8), (n, last - first))
    elif type_name in _SUB_SCALES:
        raw[:, slice(*_SUB_SCALES[type_name])] = 0xFF
    factor = 2.0**-8 * rng.uniform(0.7, 1.3, n)
    if type_name in _LOPSIDED:
        factor *= rng.choice([-1.0, 1.0], n)
    _set_scales(type_name, raw, factor)
    unit = np.sqrt((dequantize_blocks(type_name, raw) ** 2).mean())
    _set_scales(type_name, raw, factor * std / unit)
    return raw


def add_extremes(
    type_name: str, raw: np.ndarray, std: float, kinds: tuple[str, ...], rng: np.random.Generator
) -> np.ndarray:
    """A copy of u8 [n, bytes] in which about a sixth of the blocks, for each kind, is extreme.

    "subnormal": f16 scales below 2^-14. "zero": every byte 0. "max": largest and smallest codes under the largest
    sub-scales. At least one block of each kind where n >= 3.
    """
    raw = raw.copy()
    order = rng.permutation(len(raw))
    share = max(1, int(len(raw) * _EXTREME_SHARE))
    for i, kind in enumerate(kinds):
        at = order[i * share : (i + 1) * share]
        if kind == "zero":
            raw[at] = 0
        elif kind == "max":
            raw[at] = _maximal(type_name, len(at), std, rng)
        elif kind == "subnormal":
            if type_name in SPECIAL_SCALES:
                shape = (len(at), 4) if type_name == "NVFP4" else len(at)
                tiny = raw[at]
                put_scale(type_name, tiny, rng.integers(type_name != "MXFP4", SPECIAL_SCALES[type_name] + 1, shape))
                raw[at] = tiny
            for offset in SCALES.get(type_name, ()):
                bits = rng.integers(1, 0x400, len(at)).astype("<u2")
                raw[at, offset : offset + 2] = bits.view(np.uint8).reshape(-1, 2)
        else:
            raise ValueError(f"extreme {kind!r}: choose among {EXTREMES}")
    return raw


def weight(
    type_name: str,
    shape: tuple[int, int],
    std: float,
    rng: np.random.Generator,
    extremes: tuple[str, ...] = (),
    row_gain: np.ndarray | None = None,
) -> np.ndarray:
    """A random weight matrix as GGUF stores it. shape = (rows, cols); row_gain: f64 [rows], a factor per row.

    Returns f32 or f16 [rows, cols] for F32 and F16, else u8 [rows, bytes of a row].
    Raises ValueError where cols is no multiple of the format's block.
    """
    rows, cols = shape
    elements, size = block_size(type_name)
    if type_name not in TYPES or cols % elements:
        raise ValueError(
            f"{type_name} rows of {cols}: the type must be one of {TYPES} and divide the row into blocks of {elements}"
        )
    gain = np.ones(rows) if row_gain is None else row_gain
    if type_name in RANDOM_TYPES:
        special = np.repeat(gain, cols // elements) if type_name in SPECIAL_SCALES else 1.0
        raw = random_blocks(type_name, rows * cols // elements, std, rng, special)
        for offset in SCALES.get(type_name, ()):
            d = raw[:, offset : offset + 2].copy().view("<f2").astype(np.float64).reshape(rows, -1)
            _put_f16(raw, offset, (d * gain[:, None]).reshape(-1))
    else:
        values = (rng.standard_normal(shape) * std * gain[:, None]).astype(np.float32)
        if type_name in ("F32", "F16"):
            if extremes and type_name == "F16":
                values[:, ::16] *= np.float32(2.0**-16)  # subnormal halves
            return quants.quantize(values, GGMLQuantizationType[type_name])
        raw = np.ascontiguousarray(quants.quantize(values, GGMLQuantizationType[type_name]))
        raw = raw.view(np.uint8).reshape(-1, size)
    if extremes and type_name not in FLOAT_TYPES:
        raw = add_extremes(type_name, raw, std, extremes, rng)
    return raw.reshape(rows, cols // elements * size)
