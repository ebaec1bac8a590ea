"""Hyper-parameters of a model from its GGUF metadata, and the check of its tensors against the architecture.

Keys: `<arch>.block_count`, `.embedding_length`, `.feed_forward_length`, `.attention.head_count[_kv]`, `.attention.key_length`,
`.attention.layer_norm_rms_epsilon`, `.rope.*`, `.context_length`.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.formats import FORMATS
from kernels.moe import MOST_EXPERTS, MOST_USED

from ..errors import ModelError
from ..gguf import GGUFFile
from .graph import Op

# architecture -> module of this package; adding one is a file and a row
ARCHITECTURES = {"qwen2": "qwen2", "qwen3": "qwen3", "qwen2moe": "qwen2moe", "qwen3moe": "qwen3moe"}
EXPERTS = {"qwen2moe": True, "qwen3moe": False}  # whether there is a shared expert
_FLOATS = ("F32", "F16", "BF16")
_MOST_TOKENS = 262144  # what kernels/sample.py counts with


@dataclass(frozen=True)
class Config:
    """Sizes of a model. rope_* as llama.cpp names them; rope_factor 0: no scaling. n_expert 0: dense. n_ff: with experts, of the shared one."""

    arch: str
    n_layer: int
    n_embd: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_rot: int
    eps: float
    n_ctx_train: int
    n_vocab: int
    tied: bool
    rope_base: float
    rope_type: str = "none"
    rope_factor: float = 0.0
    rope_orig_ctx: int = 0
    rope_attn_factor: float = 1.0
    rope_beta_fast: float = 32.0
    rope_beta_slow: float = 1.0
    rope_ext_factor: float = -1.0
    n_expert: int = 0
    n_used: int = 0
    n_ff_exp: int = 0


@dataclass(frozen=True)
class Model:
    """A checked model: its file, sizes and operations."""

    file: GGUFFile
    config: Config
    ops: tuple[Op, ...]

    @property
    def name(self) -> str:
        """general.name, else the file's name."""
        name = self.file.get("general.name")
        return name if isinstance(name, str) and name else Path(self.file.path).stem

    def rows(self, tensor: str) -> int:
        """Rows of a matrix; those of stacked experts one below the other."""
        return math.prod(self.shape(tensor)[:-1])

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Shape in numpy order."""
        return tuple(self.file.tensors[tensor].shape)


def read_model(file: GGUFFile) -> Model:
    """Everything about a model that its header says.

    Raises ModelError for an architecture that is not served, tensors that are missing, misshapen, of an unsupported type, or
    unknown to the architecture; GGUFError for metadata of the wrong type.
    """
    arch = file.arch
    if arch not in ARCHITECTURES:
        raise ModelError(f"{file.path}: architecture {arch!r} is not served; served are {', '.join(ARCHITECTURES)}")
    config = _config(file, arch)
    module = importlib.import_module(f"{__package__}.{ARCHITECTURES[arch]}")
    need = module.tensors(config) | {"token_embd.weight": (config.n_vocab, config.n_embd), "output_norm.weight": (config.n_embd,)}
    if not config.tied:
        need["output.weight"] = (config.n_vocab, config.n_embd)
    _check_tensors(file, need)
    return Model(file, config, tuple(module.graph(config)))


def _config(file: GGUFFile, arch: str) -> Config:
    def key(name: str, kind: Any, default: Any = None, least: float = 1) -> Any:
        value = file.require(f"{arch}.{name}", kind) if default is None else file.get(f"{arch}.{name}", default, kind)
        if isinstance(value, int | float) and not isinstance(value, bool) and not least <= value < 2**31:
            raise ModelError(f"{file.path}: {arch}.{name} is {value}, which no model has; convert the file again")
        return value

    n_embd, n_head = key("embedding_length", int), key("attention.head_count", int)
    head_dim = key("attention.key_length", int, max(1, n_embd // n_head))
    n_layer, ctx = key("block_count", int), key("context_length", int)
    if n_layer > len(file.tensors):  # before anything is made for every layer
        raise ModelError(f"{file.path}: {arch}.block_count is {n_layer} and the file has {len(file.tensors)} tensors; convert the model again")
    embedding = file.tensor("token_embd.weight")
    if len(embedding.shape) != 2:
        raise ModelError(f"{file.path}: token_embd.weight has shape {tuple(embedding.shape)}, a matrix is needed")
    if f"{arch}.nextn_predict_layers" in file.metadata and key("nextn_predict_layers", int, 0, 0):
        raise ModelError(f"{file.path}: next-token-prediction layers are not served for {arch}; use a file without them")
    moe = _experts(file, arch, key) if arch in EXPERTS else {"n_ff": key("feed_forward_length", int)}
    factor = key("rope.scaling.factor", float, float(key("rope.scale_linear", float, 0.0, 0)), 0)  # scale_linear: files of 2023
    config = Config(
        arch, n_layer, n_embd, moe.pop("n_ff"), n_head, key("attention.head_count_kv", int, n_head), head_dim,
        key("rope.dimension_count", int, head_dim), float(key("attention.layer_norm_rms_epsilon", float, None, 0)), ctx, embedding.shape[0],
        "output.weight" not in file.tensors, float(key("rope.freq_base", float, 10000.0, 1.001)),
        key("rope.scaling.type", str, "linear" if factor else "none"), float(factor),
        key("rope.scaling.original_context_length", int, ctx), float(key("rope.scaling.attn_factor", float, 1.0, 0)),
        float(key("rope.scaling.yarn_beta_fast", float, 32.0, 1e-3)), float(key("rope.scaling.yarn_beta_slow", float, 1.0, 1e-3)),
        float(key("rope.scaling.yarn_ext_factor", float, -1.0, -1)), **moe)
    _check_config(file, config)
    return config


def _experts(file: GGUFFile, arch: str, key: Any) -> dict[str, int]:
    """n_expert, n_used, n_ff_exp, and as n_ff the width of the shared expert (32 where there is none).

    Files of 2024 lack the expert_*_length keys: qwen2moe then has n_ff / n_used and n_ff, as llama.cpp reads them.
    """
    count, used = key("expert_count", int), key("expert_used_count", int)
    if count > MOST_EXPERTS or used > MOST_USED or used > count:
        raise ModelError(f"{file.path}: {arch} uses {used} of {count} experts; at most {MOST_USED} of {MOST_EXPERTS} are served, and no more than there are")
    if file.get(f"{arch}.expert_weights_scale", 0.0, float) not in (0.0, 1.0):
        raise ModelError(f"{file.path}: {arch}.expert_weights_scale is not served; leaving it out would change the answers")
    if not EXPERTS[arch]:
        return {"n_expert": count, "n_used": used, "n_ff_exp": key("expert_feed_forward_length", int), "n_ff": 32}
    whole = key("feed_forward_length", int, 0, 0) or key("expert_shared_feed_forward_length", int)
    wide = key("expert_feed_forward_length", int, max(1, whole // used))
    return {"n_expert": count, "n_used": used, "n_ff_exp": wide, "n_ff": key("expert_shared_feed_forward_length", int, whole)}


def _check_config(file: GGUFFile, c: Config) -> None:
    where = f"{file.path}: {c.arch}"
    if c.n_vocab > _MOST_TOKENS:
        raise ModelError(f"{where} has a vocabulary of {c.n_vocab}; at most {_MOST_TOKENS} tokens are served")
    if c.n_head % c.n_head_kv:
        raise ModelError(f"{where} has {c.n_head} heads over {c.n_head_kv} key/value heads, which does not divide; convert the file again")
    if c.head_dim % 2 or c.n_rot % 2 or c.n_rot > c.head_dim:
        raise ModelError(f"{where} rotates {c.n_rot} of {c.head_dim} channels a head; both must be even and the first no larger")
    if c.n_rot != c.head_dim:
        raise ModelError(f"{where} rotates {c.n_rot} of {c.head_dim} channels; this architecture rotates all of them")
    value_length = file.get(f"{c.arch}.attention.value_length", c.head_dim, int)
    if value_length != c.head_dim:
        raise ModelError(f"{where} has value heads of {value_length} and key heads of {c.head_dim} channels; they must be equal")
    if file.get(f"{c.arch}.rope.scaling.yarn_log_multiplier", 0.0, float):
        raise ModelError(f"{where}.rope.scaling.yarn_log_multiplier is not served; leaving it out would change the answers")
    if c.rope_type not in ("none", "linear", "yarn"):
        raise ModelError(f"{where}.rope.scaling.type is {c.rope_type!r}; none, linear and yarn are served")


def _check_tensors(file: GGUFFile, need: dict[str, tuple[int, ...]]) -> None:
    for name, shape in need.items():
        if name not in file.tensors:
            raise ModelError(f"{file.path}: tensor {name} is missing; convert the model again")
        info = file.tensors[name]
        if tuple(info.shape) != shape:
            raise ModelError(f"{file.path}: tensor {name} has shape {tuple(info.shape)}, {shape} is needed; convert the model again")
        allowed = FORMATS if len(shape) > 1 else _FLOATS
        if info.type_name not in allowed:
            raise ModelError(f"{file.path}: tensor {name} has type {info.type_name}, which is not served; served are {', '.join(allowed)}")
    unknown = [n for n in file.tensors if n not in need]
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise ModelError(f"{file.path}: tensor {unknown[0]}{more} is unknown to this architecture; leaving it out would change the answers")
