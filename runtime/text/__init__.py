"""Text for models: tokenizer, incremental detokenisation, chat templates, all from the GGUF file's own metadata.

Names load on first use: asking for TextError alone loads neither `tokenizers` nor jinja2.
"""

from __future__ import annotations

from runtime.text.errors import TextError

__all__ = ["ChatTemplate", "Detokenizer", "TextError", "Tokenizer"]

_HOME = {
    "ChatTemplate": "runtime.text.template",
    "Detokenizer": "runtime.text.detokenizer",
    "Tokenizer": "runtime.text.tokenizer",
}


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'runtime.text' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)
