"""How an address of the API is written: its parts, and that its last slash may be left out."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.urls import URLPattern, path, register_converter


class Number:
    """A whole number, in any number of digits; what no database has room for names nothing."""

    regex = "[0-9]+"
    to_url = str

    def to_python(self, value: str) -> int:
        """The number, cut to what every look-up takes."""
        return int(value) if len(value) < 19 else 10**18


class Id:
    """A UUID, in either case."""

    regex = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    to_python = UUID
    to_url = str


class Name:
    """A model's name."""

    regex = "[a-zA-Z0-9_-]+"
    to_python = str
    to_url = str


register_converter(Number, "number")
register_converter(Id, "id")
register_converter(Name, "name")


def address(route: str, view: Any, name: str | None = None) -> list[URLPattern]:
    """An address, with or without its last slash: a redirect would lose what was sent."""
    answer: Callable[..., Any] = view.as_view()
    return [path(route, answer, name=name), path(route.removesuffix("/"), answer)]
