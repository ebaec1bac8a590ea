"""Repack and Embed: the GGUF bytes of every format become planes, and planes become the very floats that gguf decodes."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import quants

from kernels.formats import FORMATS
from kernels.matmul import Embed
from tests.kernels import rig
from tests.kernels.oracles.formats import dequantise
from tests.kernels.weights import codebook, planes, raw_rows, repack, scale_offsets, widths
from tests.models.blocks import put_scale

HALF_SCALES = [t for t in FORMATS if scale_offsets(t)]
QUANTISED = [t for t, f in FORMATS.items() if f.disk_elements > 1]
EVERYWHERE = [*(f"interp{n}" for n in rig.SIZES), "device"]
ROWS = 67


def row_records(tokens) -> np.ndarray:
    """Row records as bytes; all but the token is poison."""
    rows = rig.poisoned(len(tokens), 4, dtype=np.uint32)
    rows[:, 0] = tokens
    return rows.reshape(-1).view(np.uint8)


def embed(run, type_name: str, q, s, k: int, tokens, row0: int, rows: int) -> np.ndarray:
    """f32 [T + 1, KP]; the last row is beyond the dispatch."""
    blocks = -(-k // 32)
    x = rig.poisoned(len(tokens) + 1, blocks * 32)
    run(Embed[FORMATS[type_name]], (rig.groups(blocks * 8, 64), len(tokens)), q=q, s=s, **codebook(type_name), rows_of=row_records(tokens),
        x=x.reshape(-1), row0=row0, rows=rows, blocks=blocks)
    return x


def same_bits(found: np.ndarray, true: np.ndarray) -> bool:
    return found.tobytes() == np.ascontiguousarray(true).tobytes()


def same_weights(type_name: str, found: np.ndarray, true: np.ndarray) -> bool:
    """Equal bits; an f32 scale of MXFP4 may be subnormal, and a device may take such numbers for 0."""
    if type_name == "MXFP4":
        gone = (np.abs(true) < 2.0**-123) & (found == 0)
        found, true = np.where(gone, 0, found), np.where(gone, 0, true)
    return same_bits(found, true)


@pytest.mark.parametrize("run", EVERYWHERE, indirect=True)
@pytest.mark.parametrize("type_name", FORMATS)
def test_every_weight_comes_back_bit_for_bit(run, type_name):
    for k in widths(type_name):
        raw = raw_rows(type_name, ROWS, k)
        q, s = planes(type_name, ROWS, k)
        repack(run, type_name, raw, k, q, s)
        true = dequantise(type_name, raw, k)
        tokens = [ROWS - 1, 0, 3, 3, *range(ROWS)]
        x = embed(run, type_name, q, s, k, tokens, 0, ROWS)
        assert same_weights(type_name, x[:-1, :k], true[tokens]), k
        assert not x[:-1, k:].any() and rig.untouched(x[-1]), k
        assert np.ptp(true) > 0


@pytest.mark.parametrize("run", ["interp8", "device"], indirect=True)
@pytest.mark.parametrize("type_name", FORMATS)
def test_shards_of_rows_and_pieces_of_a_file(run, type_name):
    """Planes written in three pieces equal those written at once, and every byte of them is written but what nothing reads."""
    k = widths(type_name)[1]
    raw = raw_rows(type_name, ROWS, k, seed=1)
    whole = planes(type_name, ROWS, k)
    repack(run, type_name, raw, k, *whole)
    pieces = [np.full_like(p, 0x55) for p in whole]
    for first, last in ((5, 6), (6, ROWS), (0, 5)):
        repack(run, type_name, raw[first:last], k, *pieces, row0=first)
    assert same_bits(pieces[0], whole[0])
    assert same_bits(pieces[1], whole[1]) or type_name not in QUANTISED
    true = dequantise(type_name, raw, k)
    # a shard holds rows 20..44 of the table: it answers for its own tokens and leaves those of other shards alone
    q, s = planes(type_name, 24, k)
    repack(run, type_name, raw[20:44], k, q, s)
    x = embed(run, type_name, q, s, k, [19, 20, 43, 44, 0, 2**32 - 1], 20, 24)
    assert same_weights(type_name, x[1:3, :k], true[[20, 43]])
    assert rig.untouched(x[[0, 3, 4, 5, 6]])


@pytest.mark.parametrize("type_name", FORMATS)
def test_pieces_leave_their_neighbours_alone(type_name):
    k = widths(type_name)[0]
    raw = raw_rows(type_name, 3, k)
    pieces, fresh = planes(type_name, 9, k), planes(type_name, 9, k)
    repack(rig.interpreter(32), type_name, raw, k, *pieces, row0=4)
    for plane, before in zip(pieces, fresh, strict=True):
        plane, before = plane.reshape(9, -1), before.reshape(9, -1)
        assert same_bits(plane[:4], before[:4]) and same_bits(plane[7:], before[7:])
    assert not same_bits(pieces[0], fresh[0])


@pytest.mark.parametrize("run", ["interp32", "device"], indirect=True)
@pytest.mark.parametrize("type_name", ["F32", "F16", "BF16"])
def test_floats_of_every_kind(run, type_name):
    """All half and brain floats, f32 of every exponent, subnormals and infinities; NaN stays NaN."""
    if type_name == "F32":
        bits = (np.arange(65536, dtype=np.uint32) << 16) | np.uint32(0x1234)
        raw = bits.view(np.uint8).reshape(64, -1)
    else:
        raw = np.arange(65536, dtype=np.uint16).view(np.uint8).reshape(64, -1)
    q, s = planes(type_name, 64, 1024)
    repack(run, type_name, raw, 1024, q, s)
    x = embed(run, type_name, q, s, 1024, range(64), 0, 64)[:-1]
    true = dequantise(type_name, raw, 1024)
    number = ~np.isnan(true)
    assert same_bits(x[number], true[number]) and np.isnan(x[~number]).all()


@pytest.mark.parametrize("run", ["interp32", "device"], indirect=True)
@pytest.mark.parametrize("type_name", HALF_SCALES)
def test_every_scale_in_every_block(run, type_name):
    """Every finite f16 as the block's scale, under random codes."""
    scales = np.arange(65536, dtype=np.uint16)
    scales = scales[np.isfinite(scales.view(np.float16))]
    elements = FORMATS[type_name].disk_elements
    scales = np.concatenate([scales, scales])[: len(scales) // 128 * 128] if elements < 256 else scales[::13][:4096]
    raw = np.random.default_rng(5).integers(0, 256, (len(scales), FORMATS[type_name].disk.size), np.uint8)
    for i, offset in enumerate(scale_offsets(type_name)):
        raw[:, offset : offset + 2] = scales[:: 1 - 2 * i].copy().view(np.uint8).reshape(-1, 2)
    per_row = 16
    raw, k = raw.reshape(len(scales) // per_row, -1), per_row * elements
    q, s = planes(type_name, len(raw), k)
    repack(run, type_name, raw, k, q, s)
    x = embed(run, type_name, q, s, k, range(len(raw)), 0, len(raw))[:-1]
    assert same_bits(x, dequantise(type_name, raw, k))


@pytest.mark.parametrize("run", ["interp32", "device"], indirect=True)
@pytest.mark.parametrize("type_name,numbers", [("IQ1_M", 65536), ("MXFP4", 252), ("NVFP4", 256)])
def test_every_scale_that_is_no_half(run, type_name, numbers):
    """IQ1_M: every finite f16 in four nibbles. MXFP4: every exponent under which 12 is finite. NVFP4: every byte, in all places."""
    bits = np.arange(numbers)
    if type_name == "IQ1_M":
        bits = bits[np.isfinite(bits.astype(np.uint16).view(np.float16))][::13][:4096]
    fmt, per_row = FORMATS[type_name], 4
    raw = np.random.default_rng(5).integers(0, 256, (len(bits), fmt.disk.size), np.uint8)
    put_scale(type_name, raw, np.stack([bits, bits[::-1], np.roll(bits, 9), bits], 1) if type_name == "NVFP4" else bits)
    raw, k = raw.reshape(len(bits) // per_row, -1), per_row * fmt.disk_elements
    q, s = planes(type_name, len(raw), k)
    repack(run, type_name, raw, k, q, s)
    x = embed(run, type_name, q, s, k, range(len(raw)), 0, len(raw))[:-1]
    true = dequantise(type_name, raw, k)
    assert same_weights(type_name, x, true) and np.ptp(true) > 0


@pytest.mark.parametrize("type_name,table", [("IQ3_S", "IQ3_S"), ("IQ3_XXS", "IQ3_XXS"), ("IQ2_S", "IQ2_S"), ("IQ2_XS", "IQ2_XS"), ("IQ2_XXS", "IQ2_XXS"), ("IQ1_S", "IQ1_S"), ("IQ1_M", "IQ1_S")])
def test_codebooks_are_those_of_gguf(type_name, table):
    cls = getattr(quants, table)
    cls.init_grid()
    entries, each = cls.grid_shape
    codes = np.array(FORMATS[type_name].CODEBOOK)[:, None] >> (16 // each * np.arange(each)) & (2 ** (16 // each) - 1)
    assert codes.shape == cls.grid_shape and max(FORMATS[type_name].CODEBOOK) < 65536
    assert np.array_equal(np.array(cls.grid_map)[codes], cls.grid.reshape(cls.grid_shape))
