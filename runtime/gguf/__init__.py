"""GGUF files: mapped, checked before anything is allocated, read in one pass.

    f = open_gguf("model.gguf")
    f.require("qwen3.block_count", "u32"); f.tensors["output.weight"].shape; f.data("output.weight")

Only numpy and PyPI `gguf` (types and dequantisers) are imported.
"""

from runtime.gguf.errors import GGUFError
from runtime.gguf.file import GGUFFile, TensorInfo, open_gguf
from runtime.gguf.quant import dequantize
from runtime.gguf.strings import StringArray

__all__ = ["GGUFError", "GGUFFile", "StringArray", "TensorInfo", "dequantize", "open_gguf"]
