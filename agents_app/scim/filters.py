"""Filters (RFC 7644, 3.4.2.2): read into a tree, and from there into a query of the database or a look at one value.

A tree is ("and", left, right), ("or", left, right), ("not", inner) or (operator, attribute, value). Attributes are in small letters,
without the schema's name before them and with the one in brackets joined: `emails[type eq "work"].value` names `emails.value`.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import Q
from django.utils.dateparse import parse_datetime

from agents_app.accounts.people import plain
from agents_app.scim.errors import ScimError, invalid
from training_app.engine.data import storable

Tree = tuple[Any, ...]
OPERATORS = ("eq", "ne", "co", "sw", "ew", "gt", "ge", "lt", "le")
#: What a filter may have of words, and how deep it may be nested.
MOST_WORDS, DEEPEST = 200, 20
#: Times between these years are compared.
FIRST_YEAR, LAST_YEAR = 1, 9999
_WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[()\[\]]|[^\s()\[\]"]+)')
_LOOKUPS = {
    "eq": "iexact",
    "co": "icontains",
    "sw": "istartswith",
    "ew": "iendswith",
    "gt": "gt",
    "ge": "gte",
    "lt": "lt",
    "le": "lte",
}


def parse(text: str) -> Tree:
    """The tree of a filter. Raises ScimError (invalidFilter)."""
    words: list[str] = []
    text, place = text.strip(), 0
    while place < len(text):
        match = _WORD.match(text, place)
        if match is None or len(words) == MOST_WORDS:
            raise _bad(f"it cannot be read from character {place + 1} on" if match is None else "it is too long")
        words.append(match[1])
        place = match.end()
    tree, rest = _either(words, 0)
    if rest:
        raise _bad(f"{rest[0]!r} stands where its end should be")
    return tree


def attribute_of(name: str) -> str:
    """An attribute's name without its schema's, in small letters."""
    return name.rsplit(":", 1)[-1].lower() if name.lower().startswith("urn:") else name.lower()


def _bad(why: str) -> ScimError:
    return invalid(f"The filter does not hold: {why}.", "invalidFilter")


def _either(words: list[str], depth: int, prefix: str = "") -> tuple[Tree, list[str]]:
    tree, words = _both(words, depth, prefix)
    while words and words[0].lower() == "or":
        right, words = _both(words[1:], depth, prefix)
        tree = ("or", tree, right)
    return tree, words


def _both(words: list[str], depth: int, prefix: str) -> tuple[Tree, list[str]]:
    tree, words = _one(words, depth, prefix)
    while words and words[0].lower() == "and":
        right, words = _one(words[1:], depth, prefix)
        tree = ("and", tree, right)
    return tree, words


def _one(words: list[str], depth: int, prefix: str) -> tuple[Tree, list[str]]:
    if not words or depth > DEEPEST:
        raise _bad("something is missing at its end" if not words else "it is nested too deep")
    if words[0].lower() == "not" and words[1:2] == ["("]:
        tree, rest = _one(words[1:], depth + 1, prefix)
        return ("not", tree), rest
    if words[0] == "(":
        tree, rest = _either(words[1:], depth + 1, prefix)
        return tree, _closed(rest, ")")
    name = prefix + attribute_of(words[0])
    if words[1:2] == ["["]:
        inner, rest = _either(words[2:], depth + 1, f"{name}.")
        rest = _closed(rest, "]")
        if rest and rest[0].startswith("."):  # emails[type eq "work"].value eq "…"
            outer, rest = _one([name + rest[0], *rest[1:]], depth + 1, "")
            return ("and", inner, outer), rest
        return inner, rest
    operator = words[1].lower() if len(words) > 1 else ""
    if operator == "pr":
        return ("pr", name, None), words[2:]
    if operator not in OPERATORS or len(words) < 3:
        raise _bad(f"{words[0]!r} is followed by no operator and value")
    try:
        value = json.loads(words[2] if words[2][0] == '"' else words[2].lower())
    except (ValueError, RecursionError):
        raise _bad(f"{words[2]!r} is no value; texts stand in double quotes") from None
    if fault := storable.fault(value):
        raise _bad(f"a value {fault}")
    return (operator, name, value), words[3:]


def _closed(words: list[str], bracket: str) -> list[str]:
    if words[:1] != [bracket]:
        raise _bad(f"{bracket!r} is missing")
    return words[1:]


# --- As a query ---------------------------------------------------------------------------------------------------


def query(tree: Tree, columns: Mapping[str, str]) -> Q:
    """The condition on rows; `columns` are the fields that attributes stand for, "" where any value of it holds. Raises ScimError."""
    if tree[0] in ("and", "or"):
        left, right = query(tree[1], columns), query(tree[2], columns)
        return left & right if tree[0] == "and" else left | right
    if tree[0] == "not":
        return ~query(tree[1], columns)
    operator, name, value = tree
    column = columns.get(name)
    if column is None:
        raise invalid(f"The filter does not hold: {name!r} cannot be asked for.", "invalidFilter")
    if not column:
        return Q()
    if operator == "pr" or value is None:
        empty = Q(**{f"{column}__isnull": True})
        if not column.endswith(("_at", "uid", "is_active")):
            empty |= Q(**{column: ""})
        return empty if operator == "eq" else ~empty
    condition = _condition(column, operator, value)
    return ~_condition(column, "eq", value) if operator == "ne" else condition


def _condition(column: str, operator: str, value: Any) -> Q:
    nobody = Q(pk__in=[])
    lookup = _LOOKUPS.get(operator, "iexact")
    if column.endswith("is_active"):
        flag = {"true": True, "false": False}.get(str(value).lower())
        return nobody if flag is None else Q(**{column: flag})
    if column.endswith("_at"):
        at = _moment(value)
        return Q(**{f"{column}__{'exact' if lookup == 'iexact' else lookup}": at})
    if column.endswith("uid"):
        try:
            return Q(**{column: UUID(str(value))})
        except ValueError:
            return nobody
    if column.endswith("external_id") and operator == "eq":
        lookup = "exact"
    text = plain(str(value)) if column in ("user__username", "user__email") else str(value)
    return Q(**{f"{column}__{lookup}": text})


def _moment(value: Any) -> datetime:
    try:
        moment = parse_datetime(str(value))
        # Near the first and the last year that there is, another time zone leaves them.
        moment = (
            moment.astimezone(UTC)
            if moment is not None and FIRST_YEAR < moment.year < LAST_YEAR and moment.tzinfo
            else None
        )
    except (ValueError, OverflowError, ValidationError):
        moment = None
    if moment is None:
        raise invalid(f"The filter does not hold: {value!r} is no time such as 2026-03-01T10:00:00Z.", "invalidFilter")
    return moment


# --- As a look at one value ---------------------------------------------------------------------------------------


def matches(tree: Tree, value: Any) -> bool:
    """Whether one value of a list, such as a member, is what the tree says."""
    if tree[0] == "and":
        return matches(tree[1], value) and matches(tree[2], value)
    if tree[0] == "or":
        return matches(tree[1], value) or matches(tree[2], value)
    if tree[0] == "not":
        return not matches(tree[1], value)
    operator, name, wanted = tree
    sub = name.rsplit(".", 1)[-1]
    results = (
        next((item for key, item in value.items() if key.lower() == sub), None) if isinstance(value, dict) else value
    )
    if operator == "pr":
        return results not in (None, "", [])
    if operator == "ne":
        return not _same(results, wanted)
    if operator == "eq":
        return _same(results, wanted)
    compared = _COMPARED.get(operator)
    return compared is not None and results is not None and compared(str(results).lower(), str(wanted).lower())


def _same(value: Any, wanted: Any) -> bool:
    return str(value).lower() == str(wanted).lower()


_COMPARED: dict[str, Callable[[str, str], bool]] = {
    "co": lambda value, wanted: wanted in value,
    "sw": str.startswith,
    "ew": str.endswith,
    "gt": lambda value, wanted: value > wanted,
    "ge": lambda value, wanted: value >= wanted,
    "lt": lambda value, wanted: value < wanted,
    "le": lambda value, wanted: value <= wanted,
}
