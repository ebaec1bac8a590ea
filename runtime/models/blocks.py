"""Building blocks that several Qwen architectures share, as lists of operations."""

from __future__ import annotations

from .graph import Op


def embedding() -> list[Op]:
    """x <- embedding rows."""
    return [Op("embed", "x", (), "token_embd.weight")]


def attention(i: int, bias: bool, head_norm: bool) -> list[Op]:
    """x += Wo attention(rope(norm(Wq h)), rope(norm(Wk h)), Wv h) with h = rms_norm(x)."""
    p = f"blk.{i}."

    def linear(out: str) -> Op:
        return Op("linear", out, ("h",), f"{p}attn_{out}.weight", f"{p}attn_{out}.bias" if bias else "", i)

    ops = [Op("rms_norm", "h", ("x",), p + "attn_norm.weight", layer=i), linear("q"), linear("k"), linear("v")]
    if head_norm:
        ops += [Op("head_norm", n, (n,), f"{p}attn_{n}_norm.weight", layer=i) for n in ("q", "k")]
    ops += [Op("rope", "q", ("q",), layer=i), Op("rope", "k", ("k",), layer=i), Op("kv_store", "", ("k", "v"), layer=i),
            Op("attention", "a", ("q",), layer=i), Op("linear", "o", ("a",), p + "attn_output.weight", layer=i), Op("add", "x", ("x", "o"), layer=i)]
    return ops


def swiglu(i: int) -> list[Op]:
    """x += Wdown (silu(Wgate f) * Wup f) with f = rms_norm(x)."""
    p = f"blk.{i}."
    return [Op("rms_norm", "h", ("x",), p + "ffn_norm.weight", layer=i),
            Op("linear", "g", ("h",), p + "ffn_gate.weight", layer=i), Op("linear", "u", ("h",), p + "ffn_up.weight", layer=i),
            Op("swiglu", "m", ("g", "u"), layer=i), Op("linear", "o", ("m",), p + "ffn_down.weight", layer=i), Op("add", "x", ("x", "o"), layer=i)]


def head(tied: bool) -> list[Op]:
    """logits <- Wout rms_norm(x); a tied model reads its embedding once more."""
    return [Op("rms_norm", "h", ("x",), "output_norm.weight"), Op("linear", "logits", ("h",), "token_embd.weight" if tied else "output.weight")]
