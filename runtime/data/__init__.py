"""The embedded model: a Qwen3 of 5.4 million parameters in Q8_0, made by scripts/tiny (its README has the figures)."""

from __future__ import annotations

from pathlib import Path

TINY_QWEN3 = Path(__file__).with_name("tiny-qwen3.gguf")
