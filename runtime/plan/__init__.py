"""Planning: capabilities to arms, model and device to a residency plan, operations to kernels."""

from __future__ import annotations

from .residency import Plan, make_plan

__all__ = ["Plan", "make_plan"]
