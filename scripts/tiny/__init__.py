"""The embedded model `runtime/data/tiny-qwen3.gguf`: generator, tokenizer, training, export, evaluation, oracle.

Run as `python -m scripts.tiny.<name>` from the root of the repository; README.md beside this file says in which order.
Nothing here is imported by the packages. The generator (`split`, `words`, `families`, `chat`, `generate`) needs only
the standard library; the rest needs the extra `train`.
"""
