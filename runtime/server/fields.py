"""Typed reading of a JSON body: a wrong type is an ApiError 400 that names the field; null counts as absent."""

from __future__ import annotations

from collections.abc import Iterator

from runtime.server.errors import ApiError

EXACT_FLOAT = 1 << 53  # beyond it a JSON reader may have rounded an integer


def json_kind(value: object) -> str:
    """The JSON name of a Python value's type, for error messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    for kind, name in ((int, "an integer"), (float, "a number"), (str, "a string"), (list, "an array")):
        if isinstance(value, kind):
            return name
    return "an object"


def wrong(name: str, wanted: str, value: object) -> ApiError:
    return ApiError(400, f"'{name}' must be {wanted}, not {json_kind(value)}", name)


class Fields:
    """The members of one JSON object; `at` prefixes the names in messages, as in `messages[2].`"""

    def __init__(self, data: dict, at: str = ""):
        self.data = data
        self.at = at

    def __contains__(self, name: str) -> bool:
        return self.data.get(name) is not None

    def raw(self, name: str):
        return self.data.get(name)

    def name(self, name: str) -> str:
        return self.at + name

    def missing(self, name: str, wanted: str) -> ApiError:
        return ApiError(400, f"'{self.at}{name}' is missing: it must be {wanted}", self.at + name)

    def boolean(self, name: str, default: bool | None) -> bool | None:
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong(self.at + name, "a boolean", value)
        return value

    def integer(self, name: str, default: int | None) -> int | None:
        value = self.data.get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_FLOAT:
            return int(value)
        if isinstance(value, float) and value.is_integer():
            raise ApiError(400, f"'{self.at}{name}' is out of range: integers go up to 2^53", self.at + name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(self.at + name, "an integer", value)
        return value

    def number(self, name: str, default: float | None) -> float | None:
        value = self.data.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise wrong(self.at + name, "a number", value)
        return float(value)

    def string(self, name: str, default: str | None) -> str | None:
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise wrong(self.at + name, "a string", value)
        return value

    def array(self, name: str) -> list | None:
        value = self.data.get(name)
        if value is not None and not isinstance(value, list):
            raise wrong(self.at + name, "an array", value)
        return value

    def object(self, name: str) -> dict | None:
        value = self.data.get(name)
        if value is not None and not isinstance(value, dict):
            raise wrong(self.at + name, "an object", value)
        return value

    def one_of(self, name: str, classes: tuple[type, ...], wanted: str):
        value = self.data.get(name)
        if value is not None and not isinstance(value, classes):
            raise wrong(self.at + name, wanted, value)
        return value

    def objects(self, name: str) -> Iterator[Fields]:
        """The elements of an array of objects, each with its own prefix."""
        for i, value in enumerate(self.array(name) or ()):
            if not isinstance(value, dict):
                raise wrong(f"{self.at}{name}[{i}]", "an object", value)
            yield Fields(value, f"{self.at}{name}[{i}].")
