"""A launch of any catalogued kernel on small random inputs: (grid, arguments). Outputs are poisoned."""

from __future__ import annotations

import zlib

import numpy as np

from kernels.rows import padded
from spirvdsl import f16, f16x4
from tests.kernels import attention_rig, rig, weights
from tests.kernels.feeds import feed
from tests.kernels.matmul_rig import grid_of
from tests.kernels.oracles.rows import PAGE, angles, round_up

PIECE, RING = 4096, 4096  # logits a workgroup of Argmax looks at; tokens of a ring
VOCAB = 3 * PIECE + 700


def words(*shape: int) -> np.ndarray:
    return rig.poisoned(*shape, dtype=np.uint32)


def arguments(kernel) -> tuple[tuple[int, ...], dict]:
    """Grid and arguments for a stamp, the same at every call. KeyError for a kernel that has no launch here."""
    rng = np.random.default_rng(zlib.crc32(kernel.name.encode()))
    return BUILDERS[kernel.template.__name__](kernel, kernel.values, rng)


def rows_of(positions, tokens, tables, slots=None) -> np.ndarray:
    made = np.stack([np.asarray(a, np.uint32) for a in (tokens, positions, tables, slots or np.zeros(len(positions)))], 1)
    return made.reshape(-1).view(np.uint8)


def repack(kernel, v, rng):
    k = weights.widths(v["fmt"].name)[1]
    raw = weights.raw_rows(v["fmt"].name, 9, k)
    q, s = weights.planes(v["fmt"].name, 12, k)
    blocks = padded(k) // 32
    given = {"raw": weights.half_words(raw), "q": q, "s": s, "row0": 2, "rows": 9, "k": k, "blocks": blocks, "row_bytes": raw.shape[1]}
    return (rig.groups(9 * blocks, 64),), given


def embed(kernel, v, rng):
    w = weights.weights(v["fmt"].name, 9, weights.widths(v["fmt"].name)[1])
    x = rig.poisoned(4, w.blocks * 32)
    given = {**w.planes(), "rows_of": rows_of([0, 1, 2], [7, 2, 10], [0, 0, 0]), "x": x.reshape(-1), "row0": 2, "rows": 9, "blocks": w.blocks}
    return (rig.groups(w.blocks * 8, 64), 3), given


def matrix(kernel, v, rng):
    """Gemv, GateUp and Tile."""
    k, tokens = weights.widths(v["fmt"].name)[1], v.get("COLS", 4) + 1
    w, up = (weights.weights(v["fmt"].name, 37, k, seed) for seed in (6, 7))
    y = rig.poisoned(tokens, 40)
    if v.get("RESIDUAL"):
        y[:, 2:39] = rng.standard_normal((tokens, 37))
    given = {**w.planes(), "y": y.reshape(-1), **feed(tokens, k, 8).arguments(v["INT"])}
    if v.get("BIAS"):
        given["bias"] = rng.standard_normal(37).astype(np.float32)
    if kernel.template.__name__ == "GateUp":
        given |= {"q2": up.q, "s2": up.s}
    return grid_of(kernel, 37, tokens), {**given, "rows": 37, "blocks": w.blocks, "tokens": tokens, "y_stride": 40, "y_col": 2}


def quantize(kernel, v, rng):
    given = {"x": rng.standard_normal(11 * 32).astype(np.float32), "xq": words(11 * 8), "xs": words(11 * 2), "blocks": 11}
    return (rig.groups(11 * v["QL"], 64),), given


def swiglu(kernel, v, rng):
    gate, up = rng.standard_normal((2, 11 * 32)).astype(np.float32)
    out = {"y": words(11 * 8), "ys": words(11 * 2)} if v["INT"] else {"y": rig.poisoned(11 * 32)}
    return (rig.groups(11 * v["QL"], 64),), {"gate": gate, "up": up, **out, "blocks": 11}


def rms_norm(kernel, v, rng):
    x, weight = np.zeros((5, 320), np.float32), np.zeros(320, np.float32)
    x[:, :300], weight[:300] = rng.standard_normal((5, 300)), rng.standard_normal(300)
    out = ({"y": rig.poisoned(3 * 320)} if v["F32"] else {}) | ({"yq": words(3 * 80), "ys": words(3 * 20)} if v["Q8"] else {})
    return (3,), {"x": x.reshape(-1), "weight": weight, **out, "dim": 300, "blocks": 10, "row0": 1, "eps": 1e-6}


def rope_store(kernel, v, rng):
    hd, heads, kv_heads = v["HD"], 3, 2
    dtype = np.float16 if v["CT"] == f16 else np.float32
    stride = (heads + 2 * kv_heads) * hd
    k, vv = (rig.poisoned(5 * kv_heads * PAGE * round_up(hd, 8), dtype=dtype) for _ in range(2))
    given = {
        "qkv": rng.standard_normal(3 * stride).astype(np.float32), "q_norm": rng.standard_normal(hd).astype(np.float32),
        "k_norm": rng.standard_normal(hd).astype(np.float32), "rope": angles(130, v["NROT"], 1e4).reshape(-1),
        "rows_of": rows_of([0, 64, 129], [0, 0, 0], [1, 1, 1]), "table": np.array([9, 4, 0, 2], np.uint32),
        "q": rig.poisoned(3 * heads * round_up(hd, 8)), "k": k, "v": vv, "heads": heads, "kv_heads": kv_heads, "qkv_stride": stride, "eps": 1e-6,
        "scale": 0.25,
    }  # fmt: skip
    return (heads + 2 * kv_heads, 3), given


def attention(kernel, v, rng):
    shape = attention_rig.Shape(v["HD"], v["GROUP"], 2, "f16" if v["CT4"] == f16x4 else "f32")
    s = attention_rig.scene(shape, [1, 64, 150], 9)
    splits = 3 if v["SPLIT"] else 1
    out = rig.poisoned(3 * shape.heads * splits * shape.width) if v["SPLIT"] else rig.poisoned(3 * shape.stride)
    given = {"q": s.q.reshape(-1), "k": s.k.reshape(-1), "v": s.v.reshape(-1), "rows_of": s.rows, "table": s.table, "out": out, "kv_heads": 2,
             "splits": splits, "out_stride": shape.stride}
    return (2, 3, splits), given | ({"stats": rig.poisoned(3 * shape.heads * splits * 2)} if v["SPLIT"] else {})


def window_attention(kernel, v, rng):
    shape = attention_rig.Shape(v["HD"], v["GROUP"], 2, "f16" if v["CT4"] == f16x4 else "f32")
    s = attention_rig.window(shape, 60, 5, 9)
    return (2, -(-5 // v["TOKENS"]), 1), {
        "q": s.q.reshape(-1), "k": s.k.reshape(-1), "v": s.v.reshape(-1), "rows_of": s.rows, "table": s.table, "out": rig.poisoned(5 * shape.stride),
        "kv_heads": 2, "splits": 1, "out_stride": shape.stride, "tokens": 5}


def combine(kernel, v, rng):
    shape, blocks = attention_rig.Shape(v["HD"], 3, 1), round_up(3 * v["HD"], 32) // 32
    stats = np.stack([rng.uniform(-5, 5, (2, 3, 4)), rng.uniform(1, 9, (2, 3, 4))], -1).astype(np.float32)
    stats[:, :, 3] = -1e30, 0
    out = {"yq": words(2 * blocks * 8), "ys": words(2 * blocks * 2)} if v["Q8"] else {"y": rig.poisoned(2 * blocks * 32)}
    given = {"partial": rng.standard_normal(2 * 3 * 4 * shape.width).astype(np.float32), "stats": stats.reshape(-1), **out, "heads": 3, "splits": 4,
             "blocks": blocks}
    return (rig.groups(blocks, 64 // v["QL"]), 2), given


def argmax(kernel, v, rng):
    return (4, 2), {"logits": rng.standard_normal(2 * VOCAB).astype(np.float32), "best": words(2 * 4 * 2), "vocab": VOCAB}


def _sequences() -> dict:
    """Rows 0, 1 of slots 1, 0 whose tokens go to rows 2, 3; states of drawn tokens 5 and 4095, at temperature 0.7."""
    rows = words(4, 4)
    rows[:2] = [[11, 40, 3, 1], [12, 7, 8, 0]]
    state = np.zeros((2, 8), np.uint32)
    state[:, :3] = np.array([0.7, 0.9, 0.02], np.float32).view(np.uint32)
    state[:, 3], state[:, 4], state[:, 6] = 40, 1234, [4095, 5]
    return {"rows_of": rows.reshape(-1).view(np.uint8), "state": state.reshape(-1).view(np.uint8), "ring": words(2 * RING), "source": 0, "target": 2}


def greedy(kernel, v, rng):
    best = rng.integers(0, 2**31, (2, 70, 2), np.uint32)
    best[:, 50:] = best[:, :20]  # equal pieces
    return (2,), {"best": best.reshape(-1), "pieces": 70, **_sequences()}


def sample(kernel, v, rng):
    return (2,), {"logits": (rng.standard_normal(2 * 3000) * 3).astype(np.float32), "vocab": 3000, **_sequences()}


def experts(kernel, v, rng):
    """ExpertGateUp and ExpertDown: 3 tokens, 2 of 5 experts, of which this shard holds 1 to 3."""
    k, rows, used = weights.widths(v["fmt"].name)[1], 11, 2
    w, up = (weights.weights(v["fmt"].name, 3 * rows, k, seed) for seed in (6, 7))
    route = np.zeros((3, used, 2), np.uint32)
    route[..., 0] = [[3, 1], [0, 2], [4, 0]]
    route[..., 1] = rng.uniform(0.1, 1, (3, used)).astype(np.float32).view(np.uint32)
    down = kernel.template.__name__ == "ExpertDown"
    tokens = 3 * used if down else 3
    y = rng.standard_normal((3, 16)).astype(np.float32) if down else rig.poisoned(3 * used, 16)
    given = {**w.planes(), "route": route.reshape(-1), "y": y.reshape(-1), **feed(tokens, k, 8).arguments(v["INT"])}
    if not down:
        given |= {"q2": up.q, "s2": up.s}
    return (rig.groups(rows, v["THREADS"] // v["LANES"]), 3 if down else 3 * used), {
        **given, "rows": rows, "blocks": w.blocks, "tokens": tokens, "used": used, "expert0": 1, "experts": 3, "y_stride": 16}


def route(kernel, v, rng):
    return (3,), {"logits": rng.standard_normal(3 * 64).astype(np.float32), "route": words(3 * 4 * 2), "experts": 60, "used": 4, "stride": 64}


def gate_scale(kernel, v, rng):
    h, weight, m = (rng.standard_normal(n * 32).astype(np.float32) for n in (3 * 4, 4, 3 * 5))
    return (3,), {"h": h, "weight": weight, "m": m, "blocks": 4, "m_blocks": 5}


BUILDERS = {
    "Repack": repack, "Embed": embed, "Gemv": matrix, "GateUp": matrix, "Tile": matrix, "Quantize": quantize, "SwiGLU": swiglu, "RmsNorm": rms_norm,
    "RopeStore": rope_store, "Attention": attention, "Combine": combine, "Argmax": argmax, "Greedy": greedy, "Sample": sample,
    "ExpertGateUp": experts, "WindowAttention": window_attention, "ExpertDown": experts, "Route": route, "GateScale": gate_scale,
}  # fmt: skip
