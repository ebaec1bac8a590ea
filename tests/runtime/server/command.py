"""python command.py serve|chat OPTIONS...: the real command over the fake engine, in a process of its own.

`open_model` alone is replaced. RUNTIME_TEST_MODE: empty, "slow", "refuse", "broken", "dies", "hangs" (see below).
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from runtime.server.launch import Loaded  # noqa: E402
from runtime.vk.errors import DeviceLost  # noqa: E402
from tests.runtime.server.fake import ByteTokenizer, ChatML, FakeEngine, echo  # noqa: E402


def open_model(args, path, progress) -> Loaded:
    mode = os.environ.get("RUNTIME_TEST_MODE", "")
    if progress is not None:
        progress(1, 2, "weights")
    if mode == "refuse":
        raise ValueError(f"{path}: general.architecture: 'llama' is not served;\nserved: qwen2, qwen3")
    if mode == "broken":
        raise DeviceLost("vkQueueSubmit2: VK_ERROR_DEVICE_LOST; restart the process")
    if mode == "hangs":
        time.sleep(60)
    tokenizer = ByteTokenizer()
    engine = FakeEngine(tokenizer, script=echo, n_ctx=args.ctx or 512, delay=0.02 if mode == "slow" else 0.0)
    engine.model_name = Path(path).stem
    if mode == "dies":
        engine.die_after = 3
    return Loaded(engine, tokenizer, ChatML())


if __name__ == "__main__":
    command = importlib.import_module(f"runtime.{sys.argv[1]}")
    command.open_model = open_model
    sys.exit(command.main(sys.argv[2:]))
