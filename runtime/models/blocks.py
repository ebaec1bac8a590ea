"""Building blocks that several Qwen architectures share, as lists of operations."""

from __future__ import annotations

from .config import Config
from .graph import Op

Shapes = dict[str, tuple[int, ...]]  # tensor name -> shape (numpy order: rows, columns)


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


def attention_tensors(c: Config, i: int, bias: bool, head_norm: bool) -> Shapes:
    """The tensors of `attention`."""
    p, rows = f"blk.{i}.attn_", {"q": c.n_head * c.head_dim, "k": c.n_head_kv * c.head_dim, "v": c.n_head_kv * c.head_dim}
    need: Shapes = {p + "norm.weight": (c.n_embd,), p + "output.weight": (c.n_embd, rows["q"])}
    need |= {f"{p}{n}.weight": (count, c.n_embd) for n, count in rows.items()}
    if bias:
        need |= {f"{p}{n}.bias": (count,) for n, count in rows.items()}
    if head_norm:
        need |= {f"{p}{n}_norm.weight": (c.head_dim,) for n in ("q", "k")}
    return need


def swiglu(i: int) -> list[Op]:
    """x += Wdown (silu(Wgate f) * Wup f) with f = rms_norm(x)."""
    p = f"blk.{i}."
    return [Op("rms_norm", "h", ("x",), p + "ffn_norm.weight", layer=i),
            Op("linear", "g", ("h",), p + "ffn_gate.weight", layer=i), Op("linear", "u", ("h",), p + "ffn_up.weight", layer=i),
            Op("swiglu", "m", ("g", "u"), layer=i), Op("linear", "o", ("m",), p + "ffn_down.weight", layer=i), Op("add", "x", ("x", "o"), layer=i)]


def swiglu_tensors(c: Config, i: int) -> Shapes:
    """The tensors of `swiglu`."""
    p = f"blk.{i}.ffn_"
    return {p + "norm.weight": (c.n_embd,), p + "gate.weight": (c.n_ff, c.n_embd), p + "up.weight": (c.n_ff, c.n_embd), p + "down.weight": (c.n_embd, c.n_ff)}


def experts(i: int, norm: bool) -> list[Op]:
    """x += sum over the chosen experts of weight * Wdown_e (silu(Wgate_e f) * Wup_e f), f = rms_norm(x). norm: the weights add to 1."""
    p = f"blk.{i}.ffn_"
    return [Op("rms_norm", "h", ("x",), p + "norm.weight", layer=i), Op("linear", "r", ("h",), p + "gate_inp.weight", layer=i),
            Op("route_norm" if norm else "route", "p", ("r",), layer=i),
            Op("expert_linear", "eg", ("h", "p"), p + "gate_exps.weight", layer=i), Op("expert_linear", "eu", ("h", "p"), p + "up_exps.weight", layer=i),
            Op("swiglu", "em", ("eg", "eu"), layer=i), Op("expert_linear", "eo", ("em", "p"), p + "down_exps.weight", layer=i),
            Op("expert_sum", "o", ("eo", "p"), layer=i), Op("add", "x", ("x", "o"), layer=i)]


def experts_tensors(c: Config, i: int) -> Shapes:
    """The tensors of `experts`."""
    p, e = f"blk.{i}.ffn_", c.n_expert
    return {p + "norm.weight": (c.n_embd,), p + "gate_inp.weight": (e, c.n_embd), p + "gate_exps.weight": (e, c.n_ff_exp, c.n_embd),
            p + "up_exps.weight": (e, c.n_ff_exp, c.n_embd), p + "down_exps.weight": (e, c.n_embd, c.n_ff_exp)}


def shared_expert(i: int) -> list[Op]:
    """x += sigmoid(w . f) * Wdown (silu(Wgate f) * Wup f) with the f of `experts`, after which it stands."""
    p = f"blk.{i}.ffn_"
    return [Op("linear", "g", ("h",), p + "gate_shexp.weight", layer=i), Op("linear", "u", ("h",), p + "up_shexp.weight", layer=i),
            Op("swiglu", "m", ("g", "u"), layer=i), Op("gate_scale", "m", ("m", "h"), p + "gate_inp_shexp.weight", layer=i),
            Op("linear", "o", ("m",), p + "down_shexp.weight", layer=i), Op("add", "x", ("x", "o"), layer=i)]


def shared_expert_tensors(c: Config, i: int) -> Shapes:
    """The tensors of `shared_expert`."""
    p = f"blk.{i}.ffn_"
    return {p + "gate_inp_shexp.weight": (c.n_embd,), p + "gate_shexp.weight": (c.n_ff, c.n_embd), p + "up_shexp.weight": (c.n_ff, c.n_embd),
            p + "down_shexp.weight": (c.n_embd, c.n_ff)}


def head(tied: bool) -> list[Op]:
    """logits <- Wout rms_norm(x); a tied model reads its embedding once more."""
    return [Op("rms_norm", "h", ("x",), "output_norm.weight"), Op("linear", "logits", ("h",), "token_embd.weight" if tied else "output.weight")]
