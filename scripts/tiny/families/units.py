"""Unit conversions by a whole factor."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Draw, Item, ask, family
from .numbers import product_line


@dataclass(frozen=True)
class Unit:
    large: str      # plural name
    small: str
    factor: int
    most: int       # largest count of the large unit that is asked


UNITS = (
    Unit("kilometres", "metres", 1000, 999), Unit("metres", "centimetres", 100, 999),
    Unit("centimetres", "millimetres", 10, 999), Unit("kilograms", "grams", 1000, 999),
    Unit("litres", "millilitres", 1000, 999), Unit("metres", "millimetres", 1000, 999),
    Unit("tonnes", "kilograms", 1000, 999),
    Unit("euros", "cents", 100, 999), Unit("hours", "minutes", 60, 99), Unit("minutes", "seconds", 60, 99),
    Unit("days", "hours", 24, 60), Unit("weeks", "days", 7, 60), Unit("years", "months", 12, 60),
    Unit("dozens", "pieces", 12, 60), Unit("feet", "inches", 12, 60), Unit("pounds", "ounces", 16, 60),
)

_FORMS = ("Convert {n} to {b}.", "How many {b} are {n}?", "What is {n} in {b}?", "{n} in {b}", "Express {n} in {b}.",
          "How many {b} are there in {n}?", "Change {n} into {b}.")
_SINGULAR = {"feet": "foot", "inches": "inch"}


def _named(count: int, plural: str) -> str:
    return f"{count} {plural if count != 1 else _SINGULAR.get(plural, plural[:-1])}"


def _count(draw: Draw, unit: Unit) -> int:
    if draw.want_held:
        return draw.between(100, unit.most)
    return draw.between(1, unit.most if unit.most < 100 or draw.chance(0.4) else 99)


@family("units")
def units(draw: Draw) -> Item:
    """Large to small for every unit; small to large only where the factor is a power of ten or 60."""
    unit = draw.pick([u for u in UNITS if u.most >= 100] if draw.want_held else UNITS)
    count = _count(draw, unit)
    product = count * unit.factor
    large, small = _named(count, unit.large), _named(product, unit.small)
    if unit.factor % 10 == 0 and draw.chance(0.35):
        question = draw.pick(_FORMS).format(n=small, b=unit.large)
        key = f"units up {count} {unit.large} {unit.small}"
        return Item("units", key, ask(question), f"{small} is {large}.", (str(product),))
    question = draw.pick(_FORMS).format(n=large, b=unit.small)
    if unit.factor in (10, 100, 1000):
        answer = f"{large} is {small}."
    else:
        line = product_line(count, unit.factor).removesuffix(f"{product}.")
        answer = f"{large} is {line}{small}."
    return Item("units", f"units down {count} {unit.large} {unit.small}", ask(question), answer, (str(count),))
