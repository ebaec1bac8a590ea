"""Greedy answers of the training model, many questions at once, and their score by family."""

from __future__ import annotations

from collections import Counter

import torch
from tokenizers import Tokenizer

from .chat import END_OF_TEXT, IM_END, render
from .generate import Item
from .model import Tiny, rope_table

MOST_TOKENS = 72


@torch.no_grad()
def greedy(model: Tiny, prompts: list[list[int]], stop: set[int], pad: int, batch: int = 128) -> list[list[int]]:
    """Argmax continuations without the stop token. No cache: a GPU does not mind running the whole row each step."""
    device = model.embedding.device
    answers: list[list[int]] = [[] for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for begin in range(0, len(order), batch):
        chosen = order[begin:begin + batch]
        longest = len(prompts[chosen[-1]]) + MOST_TOKENS
        rows = torch.full((len(chosen), longest), pad, device=device)
        for row, index in enumerate(chosen):
            rows[row, :len(prompts[index])] = torch.tensor(prompts[index], device=device)
        lengths = torch.tensor([len(prompts[i]) for i in chosen], device=device)
        done = torch.zeros(len(chosen), dtype=torch.bool, device=device)
        stops = torch.tensor(sorted(stop), device=device)
        everyone = torch.arange(len(chosen), device=device)
        cos, sin = rope_table(model.config, torch.arange(longest, device=device))
        for _ in range(MOST_TOKENS):
            width = int(lengths.max())
            tables = (cos[:width].repeat(len(chosen), 1), sin[:width].repeat(len(chosen), 1))
            hidden = model(rows[:, :width].reshape(-1), *tables, [(len(chosen), width)], torch.float32)
            last = hidden.view(len(chosen), width, -1)[everyone, lengths - 1]
            token = model.logits(last).argmax(-1)
            done |= torch.isin(token, stops)
            if bool(done.all()):
                break
            rows[everyone[~done], lengths[~done]] = token[~done]
            lengths += (~done).long()
        for row, index in enumerate(chosen):
            answers[index] = rows[row, len(prompts[index]):int(lengths[row])].tolist()
    return answers


def score(model: Tiny, tokenizer: Tokenizer, items: list[Item], keep_wrong: int = 40) -> dict:
    """Exact matches by family: {"all": [right, asked], "families": {name: [right, asked]}, "wrong": examples}."""
    prompts = [tokenizer.encode(render(item.messages, item.tools)).ids for item in items]
    stop = {tokenizer.token_to_id(name) for name in (IM_END, END_OF_TEXT)}
    answers = greedy(model, prompts, stop, tokenizer.token_to_id(END_OF_TEXT))
    asked, right, wrong = Counter(), Counter(), []
    for item, ids in zip(items, answers, strict=True):
        text = tokenizer.decode(ids, skip_special_tokens=False)
        asked[item.family] += 1
        right[item.family] += text == item.answer
        if text != item.answer and len(wrong) < keep_wrong:
            wrong.append({"family": item.family, "question": item.question, "want": item.answer, "got": text})
    return {"all": [sum(right.values()), len(items)], "families": {f: [right[f], asked[f]] for f in asked},
            "wrong": wrong}
