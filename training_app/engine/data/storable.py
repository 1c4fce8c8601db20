"""What text and JSON may be stored: the one rule of every door, for files, forms, API bodies and answers of other services.

Anything that gets past this module fits SQLite, PostgreSQL, UTF-8 and JSON alike, so that it can always be exported, backed up
and restored into the other database. What cannot be stored:

- text with a NUL (PostgreSQL has none) or with half of a surrogate pair (UTF-8 has none), in a value or in a key;
- numbers that are not finite (`1e999`, `NaN`), and whole numbers of 309 digits and more, which no double holds;
- lists and objects nested more than `MAX_DEPTH` deep;
- keys that are not text, and values that JSON does not know.

Standard library only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 64  # lists and objects inside one another
MAX_DIGITS = 308  # of a whole number; more does not fit a double

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_LARGEST = 10**MAX_DIGITS
_PATH_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that cannot be stored. `path` names it like `meta.notes[2]`, "" for the whole value; `reason` says why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason

    @property
    def key(self) -> str:
        """The outermost key on the path, "" where there is none."""
        return re.split(r"[.\[]", self.path, maxsplit=1)[0]


class Unstorable(ValueError):
    """A value that cannot be stored; `fault` says where and why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def text_fault(text: str) -> str:
    """Why this text cannot be stored, "" where it can."""
    if text.isascii():
        return "holds a NUL character" if "\0" in text else ""
    match = _UNSTORABLE.search(text)
    if match is None:
        return ""
    return "holds a NUL character" if match[0] == "\0" else f"holds half of a surrogate pair (\\u{ord(match[0]):04x})"


def printable(text: str) -> str:
    """The text with each character that cannot be stored or sent written as its escape, `\\u0000` or `\\ud800`."""
    return _UNSTORABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def fault(value: object) -> Fault | None:
    """The first thing in a JSON value that cannot be stored, None where all of it can."""
    return next(_faults(value, "", 0), None)


def faults(value: object) -> list[Fault]:
    """Everything in a JSON value that cannot be stored."""
    return list(_faults(value, "", 0))


def check(value: object) -> None:
    """Raises Unstorable for a JSON value that cannot be stored."""
    problem = fault(value)
    if problem is not None:
        raise Unstorable(problem)


def loads(text: str) -> Any:
    """Parse a JSON text and check it. Raises Unstorable, or ValueError for what is not JSON (`NaN`, too deep, too long a number)."""
    try:
        value = json.loads(text, parse_constant=_constant)
    except RecursionError:
        raise Unstorable(Fault("", f"is nested more than {MAX_DEPTH} deep")) from None
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError | Unstorable):
            raise
        # Python refuses to read whole numbers of more than 4,300 digits, with advice on its own settings.
        raise Unstorable(Fault("", f"holds a whole number of more than {MAX_DIGITS} digits")) from None
    check(value)
    return value


def mended(value: object) -> tuple[Any, list[Fault]]:
    """A JSON value as it can be stored, and what had to change for that.

    A character that cannot be stored becomes U+FFFD, a number that cannot be stored its text, what is nested too deep its JSON
    as a text. Two keys that become the same are told apart by a number behind the later one. A value without a fault comes back
    as it is.
    """
    problems = faults(value)
    return (_mended(value, 0), problems) if problems else (value, problems)


def mended_text(text: str) -> str:
    """The text with U+FFFD in place of each character that cannot be stored."""
    return _UNSTORABLE.sub("�", text)


# ------------------------------------------------------------------------------------------------------------ the walk


def _constant(name: str) -> Any:
    raise Unstorable(Fault("", f"holds {name}, which is not JSON"))


def _number_fault(value: int | float) -> str:
    if isinstance(value, float):
        return "" if math.isfinite(value) else "is a number that JSON cannot hold"
    return "" if -_LARGEST < value < _LARGEST else f"is a whole number of more than {MAX_DIGITS} digits"


def _faults(value: object, path: str, depth: int) -> Iterator[Fault]:
    # `bool` is an `int`, and has no fault either.
    if value is None:
        return
    if isinstance(value, str):
        reason = text_fault(value)
    elif isinstance(value, int | float):
        reason = _number_fault(value)
    elif isinstance(value, dict | list | tuple):
        if depth < MAX_DEPTH:
            yield from _inside(value, path, depth + 1)
            return
        reason = f"is nested more than {MAX_DEPTH} deep"
    else:
        reason = f"is a {type(value).__name__}, which JSON does not know"
    if reason:
        yield Fault(_cut(path), reason)


def _inside(value: dict[Any, Any] | list[Any] | tuple[Any, ...], path: str, depth: int) -> Iterator[Fault]:
    if not isinstance(value, dict):
        for place, item in enumerate(value):
            yield from _faults(item, f"{path}[{place}]", depth)
        return
    for key, item in value.items():
        if not isinstance(key, str):
            yield Fault(_cut(path), f"has a key that is not text: {key!r}")
            continue
        inner = f"{path}.{printable(key)}" if path else printable(key)
        reason = text_fault(key)
        if reason:
            yield Fault(_cut(inner), f"the key {reason}")
        yield from _faults(item, inner, depth)


def _cut(path: str) -> str:
    return path if len(path) <= _PATH_CHARACTERS else path[: _PATH_CHARACTERS - 1] + "…"


def _mended(value: object, depth: int) -> Any:
    if isinstance(value, str):
        return mended_text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return _number_text(value) if _number_fault(value) else value
    if not isinstance(value, dict | list | tuple):
        return mended_text(str(value))
    if depth >= MAX_DEPTH:
        return json.dumps(value)  # in ASCII, so whatever it holds is storable text
    if not isinstance(value, dict):
        return [_mended(item, depth + 1) for item in value]
    whole: dict[str, Any] = {}
    for key, item in value.items():
        name = mended_text(key if isinstance(key, str) else str(key))
        free, number = name, 2
        while free in whole or (free != key and free in value):
            free, number = f"{name} {number}", number + 1
        whole[free] = _mended(item, depth + 1)
    return whole


def _number_text(value: int | float) -> str:
    if isinstance(value, float):
        return str(value)
    # `str` refuses to write out whole numbers of more than 4,300 digits.
    return f"{'-' if value < 0 else ''}a whole number of about {int(value.bit_length() * math.log10(2)) + 1} digits"
