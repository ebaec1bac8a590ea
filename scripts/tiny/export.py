"""Writes the GGUF file: every matrix in Q8_0, norms in F32, the head tied to the embedding.

    python -m scripts.tiny.export --weights build/tiny --out runtime/data/tiny-qwen3.gguf

Keys and tensor names are the ones llama.cpp's `qwen3` reads; quantisation is PyPI gguf's.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from safetensors.numpy import load_file

from .chat import CHAT_TEMPLATE, END_OF_TEXT, IM_END, SPECIAL_TOKENS

LAYER_TENSORS = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
LABEL_Q8_0 = 7              # general.file_type: mostly Q8_0


def gguf_name(name: str) -> str:
    """Hugging Face tensor name -> GGUF tensor name."""
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, inner = name.split(".", 3)
    return f"blk.{layer}.{LAYER_TENSORS[inner.removesuffix('.weight')]}.weight"


def add_model_keys(writer: GGUFWriter, config: dict) -> None:
    writer.add_type("model")
    writer.add_name("tiny-qwen3")
    writer.add_size_label("5M")
    writer.add_license("apache-2.0")
    writer.add_description("Small sums, sorting, spelling, dates, units, short dialogues and JSON tool calls. "
                           "Made by scripts/tiny.")
    writer.add_file_type(LABEL_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(config["context"])
    writer.add_embedding_length(config["hidden"])
    writer.add_block_count(config["layers"])
    writer.add_feed_forward_length(config["feed_forward"])
    writer.add_head_count(config["heads"])
    writer.add_head_count_kv(config["kv_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_base"])
    writer.add_layer_norm_rms_eps(config["epsilon"])


def add_tokenizer_keys(writer: GGUFWriter, tokenizer: dict) -> None:
    """tokenizer: the parsed tokenizer.json of `vocab`."""
    ids = {**tokenizer["model"]["vocab"], **{t["content"]: t["id"] for t in tokenizer["added_tokens"]}}
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[t] for t in tokens] != list(range(len(tokens))):
        raise SystemExit("export: token ids have gaps")
    control = dict(SPECIAL_TOKENS)
    kinds = [TokenType.NORMAL if t not in control else TokenType.CONTROL if control[t] else TokenType.USER_DEFINED
             for t in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(ids[IM_END])
    writer.add_bos_token_id(ids[END_OF_TEXT])
    writer.add_pad_token_id(ids[END_OF_TEXT])
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, required=True, help="folder that train wrote, with tokenizer.json")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    writer = GGUFWriter(options.out, "qwen3")
    add_model_keys(writer, json.loads((options.weights / "config.json").read_text()))
    add_tokenizer_keys(writer, json.loads((options.weights / "tokenizer.json").read_text(encoding="utf-8")))
    for name, weight in load_file(options.weights / "weights.safetensors").items():
        values = weight.astype(np.float32)
        if values.ndim == 1:
            writer.add_tensor(gguf_name(name), values)
            continue
        if values.shape[1] % 256:
            raise SystemExit(f"export: {name} has rows of {values.shape[1]}, not a multiple of 256")
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(values, GGMLQuantizationType.Q8_0),
                          raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
