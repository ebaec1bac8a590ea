"""One line for a fault of the server's own; no traceback reaches a terminal."""

from __future__ import annotations

import logging
import traceback

from runtime.server.errors import ApiError
from runtime.text.errors import one_line

log = logging.getLogger("runtime.server")


def reason(error: BaseException) -> str:
    """What went wrong, on one line; an exception without a message is named by its type."""
    return one_line(error) or type(error).__name__


def report(error: Exception) -> ApiError:
    """Log an unexpected exception with the place it came from, and return the 500 that the client gets."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown place"
    log.error("internal error: %s: %s (%s)", type(error).__name__, reason(error), place)
    return ApiError(500, f"internal error: {type(error).__name__}: {reason(error)}")
