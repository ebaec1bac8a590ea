"""Prometheus metrics: requests by route and status, tokens, seconds, queue, and the engine's own numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from runtime.server.run import Run
    from runtime.server.service import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


class Metrics:
    """A registry of its own, so that several servers can live in one process."""

    def __init__(self, service: Service):
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("runtime_requests", "HTTP requests", ["route", "status"], registry=registry)
        self.finishes = Counter("runtime_answers", "Answers by how they ended", ["finish"], registry=registry)
        self.prompt = Counter("runtime_prompt_tokens", "Tokens read", registry=registry)
        self.cached = Counter("runtime_cached_tokens", "Prompt tokens found in the cache", registry=registry)
        self.made = Counter("runtime_completion_tokens", "Tokens made", registry=registry)
        self.prompt_s = Counter("runtime_prompt_seconds", "Seconds spent reading prompts", registry=registry)
        self.made_s = Counter("runtime_completion_seconds", "Seconds spent making tokens", registry=registry)
        self.first = Histogram(
            "runtime_prompt_duration_seconds", "Reading one prompt", buckets=SECONDS, registry=registry
        )
        registry.register(_EngineCollector(service))

    def count(self, run: Run) -> None:
        """One answer has ended."""
        stream = run.stream
        self.finishes.labels(run.finish or stream.finish or "cancelled").inc()
        if not stream.prompt_ms:  # it never left the queue
            return
        self.prompt.inc(stream.prompt_tokens - stream.cached_tokens)
        self.cached.inc(stream.cached_tokens)
        self.made.inc(run.completion_tokens)
        self.prompt_s.inc(stream.prompt_ms / 1e3)
        self.made_s.inc(stream.predicted_ms / 1e3)
        self.first.observe(stream.prompt_ms / 1e3)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _EngineCollector(Collector):
    """Read at every scrape: up, running requests, and each number of Engine.stats()."""

    def __init__(self, service: Service):
        self._service = service

    def collect(self):
        service = self._service
        yield GaugeMetricFamily("runtime_up", "1 when requests are served", value=float(service.problem is None))
        yield GaugeMetricFamily("runtime_requests_running", "Queued or running answers", value=float(service.live))
        stats = service.engine.stats() if service.engine is not None and service.engine.alive else {}
        for name, value in stats.items():
            if isinstance(value, (int, float)):
                yield GaugeMetricFamily("runtime_engine_" + re.sub(r"\W", "_", name), name, value=float(value))
