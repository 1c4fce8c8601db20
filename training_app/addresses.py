"""Addresses of the API that a table names: which function answers which method, and the scope that a key needs for it."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from django.db import connection

from training_app import serving
from training_app.calls import Call, identify
from training_app.replies import Refused, Reply

Respond = Callable[..., Reply]
#: Addresses as the OpenAPI document writes them → method → what answers it.
Table = dict[str, Mapping[str, Respond]]
PARTS = {
    "{run_id}": r"(?P<run_id>[0-9]+)",
    "{sweep_id}": r"(?P<sweep_id>[0-9]+)",
    "{query_id}": r"(?P<query_id>[0-9]+)",
    "{rule_id}": r"(?P<rule_id>[0-9]+)",
    "{number}": r"(?P<number>[0-9]+)",
    "{decision_id}": r"(?P<decision_id>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})",
    "{name}": r"(?P<name>[a-zA-Z0-9_-]+)",
}


class Address(NamedTuple):
    """One address, to match paths with; their last slash may be left out."""

    pattern: re.Pattern[str]
    methods: Mapping[str, Respond]
    scope: str


def compiled(table: Table, scope: str) -> list[Address]:
    """A table's addresses, all of one scope."""
    return [
        Address(re.compile(re.sub(r"\{\w+\}", lambda part: PARTS[part[0]], path) + "?"), methods, scope)
        for path, methods in table.items()
    ]


def answer(call: Call, known: list[Address]) -> Reply | None:
    """The reply to a call of one of the `known` addresses, None for any other. Raises Refused and django.db.Error."""
    for pattern, methods, scope in known:
        found = pattern.fullmatch(call.path)
        if not found:
            continue
        respond = methods.get("GET" if call.method == "HEAD" else call.method)
        if respond is None:
            allow = ", ".join(sorted(methods.keys() | ({"HEAD"} if "GET" in methods else set())))
            raise Refused(
                405, "method_not_allowed", f"{call.path} does not take {call.method}; use {', '.join(sorted(methods))}.",
                headers=(("Allow", allow),),
            )  # fmt: skip
        # A server's thread keeps its connection between calls, which the database may have ended meanwhile.
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        caller = identify(call, serving.served(), scope)
        return respond(call, caller, **found.groupdict())
    return None
