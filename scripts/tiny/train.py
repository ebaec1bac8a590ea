"""Trains the model on one GPU.

    python -m scripts.tiny.train --tokenizer build/tiny/tokenizer.json --out build/tiny --steps 12000

Worker processes make the shards while the GPU trains; which shard is used at which step is fixed by --steps, --fresh
and the seed alone. Writes weights.safetensors (float16, Hugging Face names), config.json, eval.json and train.log.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from . import pack
from .answer import score
from .chat import END_OF_TEXT
from .generate import SEED, test_items
from .model import Config, Tiny, rope_table
from .optim import optimisers
from .quant import round_trip

OTHER_WEIGHT = 0.05         # loss weight of tokens that are no answer
DECAY_SHARE = 0.6           # the last share of the steps, over which the learning rate falls to 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds after which the schedule must have ended")
    parser.add_argument("--fresh", type=float, default=0.5, help="share of the shards' uses that take a new shard")
    parser.add_argument("--optimiser", choices=("muon", "adamw"), default="muon")
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--eval-every", type=int, default=2000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--eager", action="store_true", help="no torch.compile")
    parser.add_argument("--name", default="", help="suffix of the written files")
    parser.add_argument("--shard-steps", type=int, default=pack.STEPS_PER_SHARD, help="steps in a shard (small: tests)")
    parser.add_argument("--shards", type=Path, help="folder of the shards; kept, and reused when it has them")
    return parser.parse_args()


def plan(steps: int, fresh: float, per_shard: int) -> list[tuple[int, list[int]]]:
    """For each block of per_shard steps: the shard, and the order of the steps inside it."""
    rng = random.Random(f"{SEED} plan")
    blocks, made = [], 0
    for block in range(-(-steps // per_shard)):
        if made < 1 + int(block * fresh):
            index, made = made, made + 1
        else:
            index = rng.randrange(made)
        order = list(range(per_shard))
        rng.shuffle(order)
        blocks.append((index, order))
    return blocks


class Shards:
    """Starts the workers; gives the tensors of a shard, waiting for it when it is not made yet."""

    def __init__(self, count: int, tokenizer: Path, folder: Path, device: str, per_shard: int):
        self.folder, self.device = folder, device
        self.loaded: dict[int, list[Tensor]] = {}
        self.waited = 0.0
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        workers = max(1, (os.cpu_count() or 2) - 1)
        self.pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
        self.jobs = {
            i: self.pool.submit(pack.write_shard, i, tokenizer, folder, per_shard)
            for i in range(count) if not (folder / f"shard{i:05d}.npz").exists()
        }

    def get(self, index: int) -> list[Tensor]:
        if index not in self.loaded:
            begin = time.time()
            if index in self.jobs:
                self.jobs[index].result()
            self.waited += time.time() - begin
            with np.load(self.folder / f"shard{index:05d}.npz") as data:
                arrays = [data[f"r{length}"].astype(np.int32) for length in pack.SHAPES]
            self.loaded[index] = [torch.from_numpy(a).to(self.device) for a in arrays]
        return self.loaded[index]

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


def targets(parts: list[Tensor], pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows [count, length] of marked tokens -> flat ids, next ids, loss weights (0 at the end of a row)."""
    ids, following, weights = [], [], []
    for part in parts:
        tokens, marked = part & (pack.ANSWER_BIT - 1), part >= pack.ANSWER_BIT
        shifted = torch.roll(tokens, -1, 1)
        weight = torch.where(torch.roll(marked, -1, 1), 1.0, torch.where(shifted == pad, 0.0, OTHER_WEIGHT))
        weight[:, -1] = 0.0
        ids.append(tokens.flatten())
        following.append(shifted.flatten())
        weights.append(weight.flatten())
    return torch.cat(ids), torch.cat(following).long(), torch.cat(weights)


def weighted_loss(hidden: Tensor, embedding: Tensor, following: Tensor, weights: Tensor) -> Tensor:
    logits = F.linear(hidden, embedding.to(hidden.dtype)).float()
    return (F.cross_entropy(logits, following, reduction="none") * weights).sum() / weights.sum()


def learning_rate(progress: float, step: int, warmup: int) -> float:
    """Factor of the peak rate: linear warm-up, a plateau, a linear fall to 0."""
    return min(1.0, (step + 1) / warmup, max(0.0, (1 - progress) / DECAY_SHARE))


def as_stored(model: Tiny) -> Tiny:
    """A copy whose matrices went through float16 and Q8_0, and whose norms went through float16."""
    copy = Tiny(model.config).to(model.embedding.device)
    with torch.no_grad():
        for mine, other in zip(copy.parameters(), model.parameters(), strict=True):
            half = other.half().float()
            mine.copy_(round_trip(half) if other.dim() == 3 or other is model.embedding else half)
    return copy


def train(options: argparse.Namespace, model: Tiny, shards: Shards, tokenizer: Tokenizer, say) -> None:
    device, kind = options.device, torch.bfloat16 if options.device == "cuda" else torch.float32
    shapes = [(rows, length) for length, rows in pack.SHAPES.items()]
    positions = torch.cat([torch.arange(length, device=device).repeat(rows) for rows, length in shapes])
    cos, sin = rope_table(model.config, positions)
    optims = optimisers(model, options.optimiser, options.muon_lr, options.adam_lr)
    peaks = [[group["lr"] for group in optim.param_groups] for optim in optims]
    loss_of = weighted_loss if options.eager else torch.compile(weighted_loss, dynamic=False)
    pad, items = tokenizer.token_to_id(END_OF_TEXT), test_items()
    blocks = plan(options.steps, options.fresh, options.shard_steps)
    begin, step, running = time.time(), 0, torch.zeros((), device=device)
    while step < options.steps:
        index, order = blocks[step // options.shard_steps]
        arrays = shards.get(index)
        for inner in order[:options.steps - step]:
            progress = max(step / options.steps, (time.time() - begin) / options.deadline)
            if progress >= 1:
                say(f"stopped by the deadline at step {step}")
                return
            factor = learning_rate(progress, step, options.warmup)
            ids, following, weights = targets([a[inner] for a in arrays], pad)
            loss = loss_of(model(ids, cos, sin, shapes, kind), model.embedding, following, weights)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            for optim, rates in zip(optims, peaks, strict=True):
                for group, rate in zip(optim.param_groups, rates, strict=True):
                    group["lr"] = rate * factor
                optim.step()
                optim.zero_grad(set_to_none=True)
            running = running.lerp(loss.detach(), 0.05)
            step += 1
            if step % 200 == 0 or step in (1, 10, 50):
                say(f"step {step} loss {running.item():.4f} rate {factor:.3f} {time.time() - begin:.1f} s, "
                    f"waited {shards.waited:.1f} s")
            if step % options.eval_every == 0 and step < options.steps:
                result = score(as_stored(model), tokenizer, items[:330], 0)
                say(f"step {step} exact {result['all']} "
                    + " ".join(f"{k}={v[0]}" for k, v in result["families"].items()))


def main() -> None:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    begin = time.time()
    log = (options.out / f"train{options.name}.log").open("w")

    def say(text: str) -> None:
        print(text, flush=True)
        log.write(text + "\n")
        log.flush()

    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("highest")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.shards or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        count = 1 + max(index for index, _ in plan(options.steps, options.fresh, options.shard_steps))
        shards = Shards(count, options.tokenizer, folder, options.device, options.shard_steps)
        tokenizer = Tokenizer.from_file(str(options.tokenizer))
        model = Tiny(Config(vocab=tokenizer.get_vocab_size()), not options.eager).to(options.device)
        say(f"{sum(p.numel() for p in model.parameters())} parameters, {count} shards, {options.steps} steps")
        try:
            train(options, model, shards, tokenizer, say)
        finally:
            shards.close()
        say(f"trained after {time.time() - begin:.1f} s")
        save_file({name: weight.half().contiguous().cpu() for name, weight in model.named_weights().items()},
                  options.out / f"weights{options.name}.safetensors")
        (options.out / f"config{options.name}.json").write_text(json.dumps(model.config.as_dict()) + "\n")
        result = score(as_stored(model), tokenizer, test_items())
        result["options"] = {key: str(value) for key, value in vars(options).items()}
        result["device"] = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
        (options.out / f"eval{options.name}.json").write_text(json.dumps(result, indent=1) + "\n")
        say(f"exact, Q8_0: {result['all']} {result['families']}")
        for case in result["wrong"]:
            say(f"  {case}")
        say(f"done after {time.time() - begin:.1f} s")


if __name__ == "__main__":
    main()
