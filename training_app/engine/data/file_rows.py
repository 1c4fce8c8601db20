"""What one row of a file of queries holds, whatever its format: checked values on the way in. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from training_app.engine.data import conversations, storable
from training_app.engine.data.conversations import USER, Bounds
from training_app.engine.data.examples import Agent, Row, RowError, normalise

MAX_TEXT = 20_000  # characters in one query
MAX_ID = 200  # characters in a row's id
COLUMNS = ("id", "text", "required_agents", "asked_agents", "split")
#: Keys of a row that is a turn of a conversation; `group` is another name of `conversation_id` there.
TURN_COLUMNS = ("messages", "conversation_id", "group")
#: What a file may hold of one conversation: messages, of more the oldest go; characters together; characters in the last turn.
BOUNDS = Bounds(messages=500, characters=200_000, last=MAX_TEXT)

_SPLIT_NAMES = {
    "": "",
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}
_EXCERPT = 120
_FIELD = 60


class BadRow(Exception):
    """Why a row is left out; `field` is the key or column at fault, `excerpt` what stood there."""

    def __init__(self, reason: str, field: str = "", excerpt: str = "") -> None:
        self.reason, self.field, self.excerpt = reason, field, excerpt

    def at(self, line: int) -> RowError:
        """The error with its line, in characters that can be stored and shown."""
        field = storable.printable(self.field)
        shown = field if len(field) <= _FIELD else field[: _FIELD - 1] + "…"
        return RowError(line, storable.printable(self.reason), shown, storable.printable(self.excerpt))


def short(value: object) -> str:
    """A value as an error shows it: one line of at most 120 characters, all of them storable."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except RecursionError:
        text = "…"
    text = " ".join(text[: 10 * _EXCERPT].split())
    text = storable.printable(text)
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"


class Roster:
    """Finds agents by id, name, key or code."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self.ids = {agent.id for agent in agents}
        self.by_name: dict[str, int] = {}
        # The last one wins: a name is no other agent's key, and a key no other's code.
        for called in (lambda agent: agent.code, lambda agent: agent.key, lambda agent: agent.name):
            self.by_name |= {normalise(called(agent)): agent.id for agent in agents if called(agent)}

    def find(self, value: object, field: str) -> int:
        """The id of the agent that a file calls `value`. Raises BadRow."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise BadRow(f"{short(value)} is not an agent: give its id, name, key or code", field)
        if isinstance(value, int):
            if value in self.ids:
                return value
        else:
            named = self.by_name.get(normalise(value))
            if named is not None:
                return named
            if re.fullmatch(r"[0-9]{1,9}", value.strip()) and int(value) in self.ids:
                return int(value)
        raise BadRow(f"unknown agent {short(value)}: not an id, name, key or code of this pool", field)

    def set(self, value: object, field: str) -> frozenset[int] | None:
        """A list of agents; None and a blank string are "not said". Raises BadRow."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if not isinstance(value, list):
            raise BadRow(f"must be a list of agents, not {type(value).__name__}", field, short(value))
        return frozenset([self.find(item, field) for item in value])


def text_of(value: object) -> str:
    """A query's text as it may be stored. Raises BadRow."""
    if value is None:
        raise BadRow("the text is missing", "text")
    if not isinstance(value, str):
        raise BadRow(f"must be a string, not {type(value).__name__}", "text", short(value))
    if not value.strip():
        raise BadRow("the text is empty", "text")
    if len(value) > MAX_TEXT:
        raise BadRow(f"the text has {len(value):,} characters; at most {MAX_TEXT:,}", "text", short(value))
    fault = storable.text_fault(value)
    if fault:
        raise BadRow(f"the text {fault}", "text", short(value))
    return value


def row_of(line: int, values: Mapping[str, Any], roster: Roster) -> Row:
    """The row that the keys and values of one line make; every key is checked. Raises BadRow."""
    turn = values.get("messages") is not None
    text = _turn(values, roster) if turn else text_of(values.get("text"))
    identifier = _id(values.get("id"))
    required = roster.set(values.get("required_agents"), "required_agents")
    asked = roster.set(values.get("asked_agents"), "asked_agents")
    if required and asked is not None and not required <= asked:
        stray = ", ".join(map(str, sorted(required - asked)))
        raise BadRow(f"agent {stray} is required but not among asked_agents", "required_agents")
    split = _split(values.get("split"))
    extra = {k: v for k, v in values.items() if k not in COLUMNS and not (turn and k in TURN_COLUMNS)}
    if extra:
        fault = storable.fault(extra)
        if fault is not None:
            raise BadRow(fault.reason, fault.path, short(text))
    return Row(line, identifier, text, required, asked, split, extra, _conversation(values) if turn else "")


def _turn(values: Mapping[str, Any], roster: Roster) -> str:
    """The query in a row's `messages`; a `text` beside them must be their last turn."""
    messages = values["messages"]
    if isinstance(messages, list):
        # What answers the user's last message is said after the query, and no part of it.
        users = [place for place, said in enumerate(messages) if isinstance(said, dict) and said.get("role") == USER]
        messages = messages[: users[-1] + 1] if users else messages
    try:
        text = conversations.checked(messages, BOUNDS, roster.find)
    except conversations.BadConversation as bad:
        raise BadRow(bad.reason, bad.path) from None
    beside = values.get("text")
    if beside not in (None, "", str(text)):
        raise BadRow("is not the last turn of the messages: leave it out, or make it so", "text", short(beside))
    return text


def _conversation(values: Mapping[str, Any]) -> str:
    """The id of a row's conversation, "" where it has none."""
    for key in ("conversation_id", "group"):
        if values.get(key) is not None:
            try:
                return _id(values[key])
            except BadRow as bad:
                raise BadRow(bad.reason.replace("the id ", "the conversation's id "), key, bad.excerpt) from None
    return ""


def _id(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise BadRow("must be a string or a number", "id", short(value))
    identifier = str(value).strip()
    fault = storable.text_fault(identifier)
    if fault:
        raise BadRow(f"the id {fault}", "id", short(identifier))
    if len(identifier) > MAX_ID:
        raise BadRow(f"must have at most {MAX_ID} characters", "id", short(identifier))
    return identifier


def _split(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or value.strip().lower() not in _SPLIT_NAMES:
        raise BadRow("must be train, val, test or blank", "split", short(value))
    return _SPLIT_NAMES[value.strip().lower()]
