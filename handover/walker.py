"""The whole front end of one kernel: statements, control flow, expressions, calls, builtins."""

from __future__ import annotations

from typing import Any

from .builtins import BuiltinCalls
from .flow import Flow
from .frame import Context


class Walker(Flow, BuiltinCalls):
    """Walks the entry of a kernel and everything that it calls. self_object: `self` of a class kernel."""

    def __init__(self, ctx: Context, self_object: Any = None):
        self.ctx, self.self_object, self.pinned, self.frame = ctx, self_object, {}, None
