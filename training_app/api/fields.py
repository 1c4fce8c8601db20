"""What a field of a JSON body or of a query string may hold: strict types, text and numbers that every database takes, named errors.

Django REST framework's own fields read "yes" as true and 3 as "3"; an application that sends those has a mistake that should be told.
"""

import math
from datetime import datetime
from typing import Any, NoReturn

from rest_framework import serializers

from training_app.api.errors import Refused
from training_app.engine.data import storable

LARGEST_ID = 2**63 - 1
LARGEST_NUMBER = 2**31 - 1


class _Named:
    """Refuses with the field's name, in the API's own codes."""

    must_be = "be something else"
    field_name: str | None
    required: bool
    parent: Any

    def refuse(self, code: str, reason: str) -> NoReturn:
        """Raises Refused; `reason` goes on after the field's name."""
        raise Refused(400, code, f"{self.field_name} {reason}.", field=self.field_name or "")

    def fail(self, key: str, **_more: Any) -> NoReturn:
        """What Django REST framework found wrong, by its own word for it."""
        if key == "required" or (key == "null" and self.required):
            self.refuse("missing", "is missing")
        self.refuse("invalid", f"must {self.must_be}")

    def _in_address(self) -> bool:
        return bool(getattr(self.parent, "in_address", False))


class Text(_Named, serializers.CharField):
    """A text that databases and files can hold, without space around it. `codes` are those of a required one that is blank, and of one
    that is too long; `missing` goes on after "is missing"."""

    must_be = "be a text"

    def __init__(
        self, max_length: int, *, missing: str = "", codes: tuple[str, str] = ("missing", "too_long"), **options: Any
    ) -> None:
        self.limit, self.missing = max_length, missing
        self.blank, self.long = codes
        super().__init__(max_length=max_length, allow_blank=not options.get("required", True), **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The text."""
        if self.required and not getattr(self.root, "partial", False) and data in (serializers.empty, None):
            self.refuse("missing", f"is missing{self.missing}")
        absent, value = self.validate_empty_values(data)
        if absent:
            return value
        if not isinstance(value, str):
            self.refuse("invalid", "must be a text")
        if fault := storable.text_fault(value):
            self.refuse("invalid", fault)
        text = value.strip()
        if self.required and not text:
            self.refuse(self.blank, f"is {'missing' if self.blank == 'missing' else 'blank'}{self.missing}")
        if len(text) > self.limit:
            self.refuse(self.long, f"has {len(text):,} characters; at most {self.limit:,} are taken")
        return text


class Whole(_Named, serializers.IntegerField):
    """A whole number between two bounds, both taken; in a query string its digits."""

    def __init__(self, low: int, high: int, must_be: str = "", **options: Any) -> None:
        self.low, self.high = low, high
        self.must_be = must_be or f"be a whole number from {low}" + (f" to {high:,}" if high < LARGEST_NUMBER else "")
        super().__init__(min_value=low, max_value=high, **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The number."""
        absent, value = self.validate_empty_values(data)
        if absent:
            return value
        # Longer ones are beyond every bound, and Python would refuse to read thousands of digits.
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20 and self._in_address():
            value = int(value)
        if type(value) is not int or not self.low <= value <= self.high:
            self.refuse("invalid", f"must {self.must_be}")
        return value


class Flag(_Named, serializers.BooleanField):
    """True or false."""

    must_be = "be true or false"

    def to_internal_value(self, data: Any) -> bool:
        """The flag."""
        if self._in_address() and data in ("true", "false"):
            return bool(data == "true")
        if not isinstance(data, bool):
            self.fail("invalid")
        return data


class Number(_Named, serializers.FloatField):
    """A number, within ±1e9 unless it has bounds of its own."""

    def __init__(self, must_be: str = "be a number", **options: Any) -> None:
        self.must_be = must_be
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> float:
        """The number."""
        low, high = (
            (-1e9 if self.min_value is None else self.min_value),
            (1e9 if self.max_value is None else self.max_value),
        )
        if type(data) not in (int, float) or not low <= data <= high:
            self.fail("invalid")
        return float(data)


class Choice(_Named, serializers.ChoiceField):
    """One of some words."""

    def to_internal_value(self, data: Any) -> str:
        """The word."""
        if not isinstance(data, str) or data not in self.choices:
            self.refuse("invalid", f"must be one of {', '.join(map(str, self.choices))}")
        return data


class Ids(_Named, serializers.ListField):
    """A list of ids."""

    must_be = "be a list of ids"

    def __init__(self, max_length: int, must_be: str = "", missing: str = "", **options: Any) -> None:
        self.limit, self.missing = max_length, missing
        self.must_be = must_be or self.must_be
        super().__init__(child=serializers.IntegerField(min_value=0), max_length=max_length, **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The ids, as they came."""
        if self.required and data in (serializers.empty, None):
            self.refuse("missing", f"is missing{self.missing}")
        absent, value = self.validate_empty_values(data)
        if absent:
            return value
        if not isinstance(value, list) or any(
            type(number) is not int or not 0 <= number <= LARGEST_ID for number in value
        ):
            self.refuse("invalid", f"must {self.must_be}")
        if len(value) > self.limit:
            self.refuse("too_many", f"has {len(value):,} ids; at most {self.limit:,} are taken")
        return value


class SettingsField(_Named, serializers.DictField):
    """An object of settings, whose values the engine checks; what cannot be stored is refused here, by its own name."""

    must_be = "be an object of settings"

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The object."""
        absent, value = self.validate_empty_values(data)
        if absent:
            return value
        if not isinstance(value, dict):
            self.refuse("invalid", f"must {self.must_be}")
        fault = storable.fault(value)
        if fault is not None:
            field = f"{self.field_name}.{fault.path}"
            raise Refused(400, "invalid", f"{field} {fault.reason}.", field=field)
        return value


class PoolSlug(serializers.CharField):
    """The pool's slug, as it came: `Access.pool` tells which pool is meant."""

    def __init__(self, **options: Any) -> None:
        words = "The pool's slug; may be left out where the key opens one pool."
        super().__init__(required=False, allow_null=True, help_text=words, **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """Whatever was sent; a None where nothing was."""
        return None if data is serializers.empty else data


class Moment(serializers.DateTimeField):
    """A time as an answer writes it: ISO 8601 with its offset."""

    def to_representation(self, value: datetime | None) -> str | None:  # type: ignore[override]
        """The text."""
        return value.isoformat() if value else None


class Rounded(serializers.FloatField):
    """A figure as an answer writes it, null where it is not a number."""

    def to_representation(self, value: float | None) -> float | None:  # type: ignore[override]
        """The figure."""
        return None if value is None or not math.isfinite(value) else float(value)
