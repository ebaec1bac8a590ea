"""The families of questions. Importing this package fills FAMILIES: name -> maker of items."""

from . import calendar, dialogue, numbers, spelling, tools, units  # noqa: F401  (each registers its families)
from .base import FAMILIES, Draw, Item

__all__ = ["FAMILIES", "Draw", "Item"]
