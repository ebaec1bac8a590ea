"""The whole front end of one kernel: statements, control flow, expressions, calls and builtins in one walker."""

from __future__ import annotations

from .builtins import BuiltinCalls
from .flow import Flow
from .frame import Context
from .static import SelfObject


class Walker(Flow, BuiltinCalls):
    """Walks the body of a kernel, and of what it calls, into the context's module."""

    def __init__(self, ctx: Context, self_object: SelfObject | None = None):
        self.ctx, self.self_object, self.pinned = ctx, self_object, {}
