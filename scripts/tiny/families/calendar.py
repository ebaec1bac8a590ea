"""Weekdays, months, and dates of the Gregorian calendar."""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import date, timedelta

from .base import Draw, Item, ask, family

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")
YEARS = (1800, 2199)

_AFTER = ("What day is {n} {days} after {d}?", "Which weekday comes {n} {days} after {d}?",
          "If today is {d}, what day is it in {n} {days}?", "Today is {d}. Which day is it {n} {days} from now?")
_BEFORE = ("What day is {n} {days} before {d}?", "Which weekday comes {n} {days} before {d}?",
           "If today is {d}, what day was it {n} {days} ago?", "Today is {d}. Which day was it {n} {days} earlier?")
_NEXT = ("What is the day after {d}?", "Which date comes after {d}?", "What date follows {d}?",
         "If today is {d}, what is the date tomorrow?")
_PREVIOUS = ("What is the day before {d}?", "Which date comes before {d}?", "What date precedes {d}?",
             "If today is {d}, what was the date yesterday?")
_LENGTH = ("How many days are in {m} {y}?", "How many days does {m} {y} have?",
           "What is the length of {m} {y} in days?", "How long is {m} {y}?")
_LEAP = ("Is {y} a leap year?", "Was or will {y} be a leap year?", "Does {y} have a February 29?",
         "Tell me if {y} is a leap year.")
_WORDS = ("Write {iso} in words.", "Write the date {iso} with the name of the month.", "What date is {iso}?",
          "Spell out the date {iso}.")
_ISO = ("Write {d} in ISO format.", "Write {d} as YYYY-MM-DD.", "What is {d} in ISO form?",
        "Convert {d} to ISO format.")


def long_form(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def _date(draw: Draw) -> date:
    year, month = draw.between(*YEARS), draw.between(1, 12)
    length = monthrange(year, month)[1]
    # the ends of months are where the work is: half of the dates lie there
    day = draw.pick((1, length, length, length - 1)) if draw.chance(0.5) else draw.between(1, length)
    return date(year, month, day)


def _weekday(draw: Draw) -> Item:
    start, count, back = draw.between(0, 6), draw.between(1, 60), draw.chance(0.4)
    day = WEEKDAYS[start]
    unit = "day" if count == 1 else "days"
    question = draw.pick(_BEFORE if back else _AFTER).format(n=count, d=day, days=unit)
    where = "before" if back else "after"
    answer, rest = "", count
    if count >= 7:
        weeks, rest = divmod(count, 7)
        answer = f"{count} days is {weeks} week{'s' if weeks > 1 else ''} and {rest} day{'s' if rest != 1 else ''}. "
        unit = "day" if rest == 1 else "days"
    answer += f"{rest} {unit} {where} {day} is {WEEKDAYS[(start + (-rest if back else rest)) % 7]}."
    return Item("dates", f"weekday {where} {day} {count}", ask(question), answer, (str(count),))


def _neighbour(draw: Draw) -> Item:
    day, back = _date(draw), draw.chance(0.4)
    other = day + timedelta(days=-1 if back else 1)
    where = "before" if back else "after"
    question = draw.pick(_PREVIOUS if back else _NEXT).format(d=long_form(day))
    answer = f"The day {where} {long_form(day)} is {long_form(other)}."
    return Item("dates", f"day {where} {day}", ask(question), answer, (str(day.year), str(day.day)))


def _length(draw: Draw) -> Item:
    year = draw.between(*YEARS)
    month = 2 if draw.chance(0.4) else draw.between(1, 12)
    question = draw.pick(_LENGTH).format(m=MONTHS[month - 1], y=year)
    answer = f"{MONTHS[month - 1]} {year} has {monthrange(year, month)[1]} days."
    return Item("dates", f"length {year} {month}", ask(question), answer, (str(year),))


def _leap(draw: Draw) -> Item:
    year = draw.between(*YEARS)
    answer = f"Yes, {year} is a leap year." if isleap(year) else f"No, {year} is not a leap year."
    return Item("dates", f"leap {year}", ask(draw.pick(_LEAP).format(y=year)), answer, (str(year),))


def _format(draw: Draw) -> Item:
    day = _date(draw)
    operands = (str(day.year), str(day.day))
    if draw.chance(0.5):
        question = draw.pick(_WORDS).format(iso=day.isoformat())
        return Item("dates", f"words {day}", ask(question), f"{day.isoformat()} is {long_form(day)}.", operands)
    question = draw.pick(_ISO).format(d=long_form(day))
    return Item("dates", f"iso {day}", ask(question), f"{long_form(day)} is {day.isoformat()}.", operands)


@family("dates")
def dates(draw: Draw) -> Item:
    return draw.pick((_weekday, _weekday, _neighbour, _neighbour, _length, _leap, _format))(draw)
