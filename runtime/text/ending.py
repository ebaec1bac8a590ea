"""Which tokens end a generation: the ids a GGUF file names, and tokens known by their text.

A converter names one eos id, but a chat model may end on several tokens (Qwen: <|im_end|> and <|endoftext|>), so
the texts are looked at too. The texts are those that llama.cpp v0.5.0 treats so.
"""

from __future__ import annotations

# tokenizer.ggml.<name>_token_id of tokens that end a generation
KEYS = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")

END_TEXTS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "</s>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "[e~[",
)
# Fill-in-the-middle tokens: those that end a generation, then those that are only control tokens. One token plays
# each part: the file's own id, else the first text found.
FIM_TEXTS = {
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|repo_name|>", "<|fim_repo|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
    "fim_pre": (
        "<|fim_prefix|>",
        "<fim-prefix>",
        "<fim_prefix>",
        "<PRE>",
        "\u2581<PRE>",
        "<\uff5cfim\u2581begin\uff5c>",
        "<|code_prefix|>",
        "<|prefix|>",
    ),
    "fim_suf": (
        "<|fim_suffix|>",
        "<fim-suffix>",
        "<fim_suffix>",
        "<SUF>",
        "\u2581<SUF>",
        "<\uff5cfim\u2581hole\uff5c>",
        "<|code_suffix|>",
        "<|suffix|>",
    ),
    "fim_mid": (
        "<|fim_middle|>",
        "<fim-middle>",
        "<fim_middle>",
        "<MID>",
        "\u2581<MID>",
        "<\uff5cfim\u2581end\uff5c>",
        "<|code_middle|>",
        "<|middle|>",
    ),
}


def end_of_generation(ids: dict[str, int], named: dict[str, int | None]) -> tuple[frozenset[int], frozenset[int]]:
    """(ids that end a generation, ids that are control tokens whatever their type says).

    ids: text -> id. named: the ids the file gives, by the names in KEYS.
    """
    by_text = {ids[text] for text in END_TEXTS if text in ids}
    ends, control = set(by_text), set(by_text)
    for part, texts in FIM_TEXTS.items():
        token = named.get(part)
        if token is None:
            token = next((ids[text] for text in texts if text in ids), None)
            if token is not None:
                control.add(token)
        if token is not None and part in KEYS:
            ends.add(token)
    if {"<|return|>", "<|call|>"} <= ids.keys() or {"<|flush|>", "<|calls|>"} <= ids.keys():
        ends.discard(ids.get("<|end|>"))  # in these families <|end|> closes a part of a message only
    ends.update(token for name in ("eos", "eot", "eom") if (token := named.get(name)) is not None)
    return frozenset(ends), frozenset(control)
