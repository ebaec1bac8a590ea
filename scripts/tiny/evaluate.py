"""Exact-match score of the GGUF file on the 1,000 unseen questions, by the Hugging Face class (reference.py).

    python -m scripts.tiny.evaluate --model runtime/data/tiny-qwen3.gguf --questions tests/data/tiny_questions.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from .chat import render
from .generate import load_questions
from .reference import greedy, load

MOST_TOKENS = 80


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="JSON with the score and the wrong answers")
    options = parser.parse_args()
    reference = load(options.model)
    asked, right, wrong = Counter(), Counter(), []
    for record in load_questions(options.questions):
        prompt = reference.tokenizer.encode(render(record["m"], record["t"])).ids
        ids = [token for token in greedy(reference, prompt, MOST_TOKENS).ids if token not in reference.stop]
        text = reference.tokenizer.decode(ids, skip_special_tokens=False)
        asked[record["f"]] += 1
        right[record["f"]] += text == record["a"]
        if text != record["a"]:
            wrong.append({"family": record["f"], "messages": record["m"], "want": record["a"], "got": text})
    total = sum(right.values())
    print(f"| all | {total} / {sum(asked.values())} | {100 * total / sum(asked.values()):.1f} % |")
    for family in asked:
        print(f"| {family} | {right[family]} / {asked[family]} | {100 * right[family] / asked[family]:.1f} % |")
    for case in wrong:
        print(json.dumps({k: case[k] for k in ("family", "want", "got")}, ensure_ascii=False))
    if options.out:
        report = {"right": total, "asked": sum(asked.values()), "families": {f: [right[f], asked[f]] for f in asked},
                  "wrong": wrong}
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
