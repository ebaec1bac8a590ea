"""What a server instance is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.engine.request import Sampling


@dataclass(frozen=True)
class Settings:
    """max_body in bytes; ping_s: an idle event stream gets a comment line that often; watch_s: how often the engine is
    looked at. An empty api_keys leaves every route open."""

    model_path: str = ""
    api_keys: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    max_body: int = 16 << 20
    ping_s: float = 15.0
    watch_s: float = 0.25
    parallel: int = 1
