"""Sums, differences, products, comparisons and sorting of whole numbers.

Answers repeat the operands first: the digits then stand close to the result, in a fixed form, whatever the question's
wording. Products are written as two partial products, which keeps every step within what a few layers can do.
"""

from __future__ import annotations

from .base import Draw, Item, ask, family

_ADD = ("What is {a} + {b}?", "{a} + {b}", "{a}+{b}", "{a} + {b} = ?", "{a}+{b}=", "Add {a} and {b}.",
        "What is the sum of {a} and {b}?", "Compute {a} plus {b}.", "How much is {a} plus {b}?", "Calculate {a} + {b}.",
        "Please add {a} to {b}.", "What do you get when you add {a} and {b}?", "Can you tell me what {a} + {b} is?",
        "I have {a} coins and get {b} more. How many coins do I have?")
_SUBTRACT = ("What is {a} - {b}?", "{a} - {b}", "{a}-{b}", "{a} - {b} = ?", "{a}-{b}=", "Subtract {b} from {a}.",
             "What is the difference of {a} and {b}?", "Compute {a} minus {b}.", "How much is {a} minus {b}?",
             "Calculate {a} - {b}.", "Take {b} away from {a}.", "Can you tell me what {a} - {b} is?")
_MULTIPLY = ("What is {a} * {b}?", "{a} * {b}", "{a}*{b}", "{a} * {b} = ?", "{a}*{b}=", "Multiply {a} by {b}.",
             "What is the product of {a} and {b}?", "Compute {a} times {b}.", "How much is {a} times {b}?",
             "Calculate {a} * {b}.", "What is {a} x {b}?", "Can you tell me what {a} times {b} is?")


@family("add")
def add(draw: Draw) -> Item:
    a, b = draw.number(), draw.number()
    key = "add {} {}".format(*sorted((a, b)))
    return Item("add", key, ask(draw.pick(_ADD).format(a=a, b=b)), f"{a} + {b} = {a + b}.", (str(a), str(b)))


@family("subtract")
def subtract(draw: Draw) -> Item:
    a, b = draw.number(), draw.number()
    if a < b and draw.chance(0.85):
        a, b = b, a
    return Item("subtract", f"subtract {a} {b}", ask(draw.pick(_SUBTRACT).format(a=a, b=b)), f"{a} - {b} = {a - b}.",
                (str(a), str(b)))


def product_line(a: int, b: int) -> str:
    """`a * b = ...` with two partial products when neither factor is a plain one-digit step."""
    if a >= 100:
        high, low = a // 100 * 100, a % 100
        if low:
            return f"{a} * {b} = {high} * {b} + {low} * {b} = {high * b} + {low * b} = {a * b}."
    elif b >= 10:
        high, low = b // 10 * 10, b % 10
        if low:
            return f"{a} * {b} = {a} * {high} + {a} * {low} = {a * high} + {a * low} = {a * b}."
    return f"{a} * {b} = {a * b}."


@family("multiply")
def multiply(draw: Draw) -> Item:
    """Up to 99 * 99, and three digits by one."""
    if draw.want_held or draw.chance(0.35):
        a, b = draw.between(100, 999), draw.between(2, 9)
    else:
        a = draw.between(2, 99)
        b = draw.between(0, 12) if draw.chance(0.5) else draw.between(2, 99)
    key = "multiply {} {}".format(*sorted((a, b)))
    return Item("multiply", key, ask(draw.pick(_MULTIPLY).format(a=a, b=b)), product_line(a, b), (str(a), str(b)))


def _near(draw: Draw, a: int) -> int:
    """Another number; half of the time with as many digits as a, so that the first digit does not settle it."""
    if a >= 10 and draw.chance(0.5):
        low = 10 ** (len(str(a)) - 1)
        if a >= 100 and draw.chance(0.5):
            low = a // 100 * 100
            return draw.between(low, low + 99)
        return draw.between(low, low * 10 - 1)
    return draw.number()


_WHICH = {
    "larger": ("Which is larger, {a} or {b}?", "Which number is bigger: {a} or {b}?",
               "What is the larger of {a} and {b}?", "Tell me the greater number, {a} or {b}.", "max({a}, {b})",
               "Is {a} or {b} the larger number?"),
    "smaller": ("Which is smaller, {a} or {b}?", "Which number is less: {a} or {b}?",
                "What is the smaller of {a} and {b}?", "Tell me the lesser number, {a} or {b}.", "min({a}, {b})",
                "Is {a} or {b} the smaller number?"),
}
_IS = {
    "larger": ("Is {a} larger than {b}?", "Is {a} greater than {b}?", "Is {a} > {b}?", "Is {a} more than {b}?",
               "Is it true that {a} is bigger than {b}?"),
    "smaller": ("Is {a} smaller than {b}?", "Is {a} less than {b}?", "Is {a} < {b}?", "Is {a} below {b}?",
                "Is it true that {a} is smaller than {b}?"),
}


@family("compare")
def compare(draw: Draw) -> Item:
    a = draw.number()
    b = a if draw.chance(0.05) else _near(draw, a)
    kind = draw.pick(("larger", "smaller"))
    operands = (str(a), str(b))
    if draw.chance(0.5):
        question = draw.pick(_WHICH[kind]).format(a=a, b=b)
        first, second = (a, b) if (a > b) == (kind == "larger") else (b, a)
        answer = f"{a} and {b} are equal." if a == b else f"{first} is {kind} than {second}."
        return Item("compare", f"{kind} {min(a, b)} {max(a, b)}", ask(question), answer, operands)
    question = draw.pick(_IS[kind]).format(a=a, b=b)
    holds = a > b if kind == "larger" else a < b
    if a == b:
        answer = f"No, {a} and {b} are equal."
    elif holds:
        answer = f"Yes, {a} is {kind} than {b}."
    else:
        answer = f"No, {a} is {'smaller' if kind == 'larger' else 'larger'} than {b}."
    return Item("compare", f"is {kind} {a} {b}", ask(question), answer, operands)


_ASCENDING = ("Sort these numbers: {n}.", "Sort {n} in ascending order.", "Put {n} in order from small to large.",
              "Sort from smallest to largest: {n}", "Arrange these numbers in order: {n}.",
              "Order the numbers {n} from low to high.")
_DESCENDING = ("Sort {n} in descending order.", "Put {n} in order from large to small.",
               "Sort from largest to smallest: {n}", "Arrange these numbers from high to low: {n}.",
               "Sort these numbers in reverse: {n}.")


@family("sort_numbers")
def sort_numbers(draw: Draw) -> Item:
    count = draw.pick((3, 3, 4, 4, 5, 6))
    numbers: list[int] = []
    while len(numbers) < count:
        value = _near(draw, numbers[-1]) if numbers and draw.chance(0.4) else draw.number()
        if value not in numbers:
            numbers.append(value)
    down = draw.chance(0.35)
    text = ", ".join(map(str, numbers))
    question = draw.pick(_DESCENDING if down else _ASCENDING).format(n=text)
    ordered = sorted(numbers, reverse=down)
    key = f"sort {'down' if down else 'up'} " + " ".join(map(str, sorted(numbers)))
    return Item("sort_numbers", key, ask(question), "Sorted: " + ", ".join(map(str, ordered)) + ".",
                tuple(map(str, numbers)))
