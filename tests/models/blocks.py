"""Random quantised weights for tests: real quantisers where PyPI gguf has them, else random blocks with sane scales.

Block layouts: ggml's block structs as the GGUF files hold them (d, dmin: f16 scales at the byte offsets of `SCALES`).
"""

from __future__ import annotations

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

FLOAT_TYPES = ("F32", "F16", "BF16")
QUANTISED_TYPES = ("Q8_0", "Q4_0", "Q5_0")  # PyPI gguf quantises these
# and of these only the dequantiser is used
RANDOM_TYPES = ("Q4_1", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")
TYPES = FLOAT_TYPES + QUANTISED_TYPES + RANDOM_TYPES
EXTREMES = ("subnormal", "zero", "max")
SCALES = {
    "Q8_0": (0,), "Q4_0": (0,), "Q5_0": (0,), "Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,),
}  # fmt: skip
# second scale = this * d makes the mean zero; it is subtracted in K formats, added in the others
_MIDDLE_CODE = {"Q4_K": 7.5, "Q5_K": 15.5, "Q2_K": 1.5, "Q4_1": -7.5, "Q5_1": -15.5}
_SIGNED_SUB_SCALES = {"Q3_K": (96, 108), "IQ4_XS": (2, 8)}  # bytes; all zeros is the most negative, all ones the largest
_EXTREME_SHARE = 1 / 6  # of the blocks, for each kind of extreme


def block_size(type_name: str) -> tuple[int, int]:
    """(elements, bytes) of one block."""
    return GGML_QUANT_SIZES[GGMLQuantizationType[type_name]]


def dequantize_blocks(type_name: str, raw: np.ndarray) -> np.ndarray:
    """u8 [n, bytes] -> f32 [n, elements], by PyPI gguf."""
    return quants.dequantize(np.ascontiguousarray(raw), GGMLQuantizationType[type_name])


def _put_f16(raw: np.ndarray, offset: int, values) -> None:
    raw[:, offset : offset + 2] = np.asarray(values, "<f2").view(np.uint8).reshape(-1, 2)


def _set_scales(type_name: str, raw: np.ndarray, d: np.ndarray, min_ratio: np.ndarray | float = 1.0) -> None:
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


def random_blocks(type_name: str, n: int, std: float, rng: np.random.Generator) -> np.ndarray:
    """n blocks of random codes, u8 [n, bytes]: near zero mean, standard deviation about `std`, scales of both signs."""
    raw = rng.integers(0, 256, (n, block_size(type_name)[1]), np.uint8)
    _sane_sub_scales(type_name, raw, rng)
    factor = rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n)
    ratio = rng.uniform(0.9, 1.1, n)
    _set_scales(type_name, raw, np.float32(2.0**-8) * factor, ratio)
    unit = dequantize_blocks(type_name, raw[:4096]).std()
    _set_scales(type_name, raw, np.float32(2.0**-8) * factor * (std / unit), ratio)
    return raw


def _maximal(type_name: str, n: int, std: float, rng: np.random.Generator) -> np.ndarray:
    """Blocks of extreme codes under the largest sub-scales: all largest, all smallest, or mixed; rms about `std`."""
    size, way = block_size(type_name)[1], rng.integers(0, 3, (n, 1))
    mixed = rng.choice(np.array([0x00, 0x0F, 0xF0, 0xFF], np.uint8), (n, size))
    raw = np.where(way == 2, mixed, np.where(way == 1, 0xFF, 0x00)).astype(np.uint8)
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
    factor = 2.0**-8 * rng.uniform(0.7, 1.3, n)
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
            for offset in SCALES[type_name]:
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
        raw = random_blocks(type_name, rows * cols // elements, std, rng)
        for offset in SCALES[type_name]:
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
    if extremes and type_name in SCALES:
        raw = add_extremes(type_name, raw, std, extremes, rng)
    return raw.reshape(rows, cols // elements * size)
