"""What a user's file, device or option can be wrong in. Every message is one line: thing, reason, remedy."""

from __future__ import annotations


class ModelError(ValueError):
    """A model file that cannot be served: unknown architecture, missing or misshapen tensor, unsupported type."""


class PlanError(ValueError):
    """A model that does not fit this device, or an arm it cannot run; the message has the numbers and what would fit."""
