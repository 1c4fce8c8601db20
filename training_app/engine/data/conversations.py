"""Conversations: what was said before the text that is to be routed. Standard library only.

What routes is the last turn, which is the user's. A `Turn` *is* that text, a `str`, and knows what was said before it: whatever reads
texts reads it as one, and what can make use of a conversation asks for `before`. A conversation of one turn is a plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from training_app.engine.data import storable

USER = "user"
ROLES = (USER, "assistant", "system", "tool")
MAX_MESSAGE_AGENTS = 100


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `agents` are the ids of the agents that answered with it, where the application tells; empty where it does not."""

    role: str
    content: str
    agents: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As files, the API and the database hold it."""
        fields: dict[str, Any] = {"role": self.role, "content": self.content}
        return {**fields, "agents": list(self.agents)} if self.agents else fields


class Turn(str):
    """The last user turn of a conversation, and what was said `before` it, oldest first.

    Two are equal where everything said is. Whatever `str` makes of it, stripped or cut, is a plain text again. Of a conversation
    that was longer than is taken, `left_out` says how many of its oldest messages are gone, and `opening` what its first user
    message was.
    """

    __slots__ = ("_hash", "before", "left_out", "opening")
    before: tuple[Message, ...]
    left_out: int
    opening: str
    _hash: int

    def __new__(cls, text: str, before: Iterable[Message], left_out: int = 0, opening: str = "") -> Turn:
        """A turn with something before it; `text_of` makes a plain text of one without."""
        turn = super().__new__(cls, text)
        turn.before, turn.left_out, turn.opening = tuple(before), left_out, opening
        turn._hash = hash((str(text), turn.before))
        return turn

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Turn):
            return str.__eq__(self, other) and self.before == other.before
        return False if isinstance(other, str) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return str.__str__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Turn, (str(self), self.before, self.left_out, self.opening)


def before(text: str) -> tuple[Message, ...]:
    """What was said before a text, oldest first; () for a plain one."""
    return text.before if isinstance(text, Turn) else ()


def text_of(last: str, earlier: Sequence[Message]) -> str:
    """The query that a last turn and what was said before it are: a `Turn`, or the plain text where nothing was."""
    return Turn(last, earlier) if earlier else str(last)


def transcript(text: str) -> str:
    """A query as people and language models read it: a plain text as it is, a conversation with each speaker's name before a line."""
    earlier = before(text)
    if not earlier:
        return str(text)
    return "\n".join([*(f"{m.role}: {m.content}" for m in earlier), f"{USER}: {text!s}"])


def opening(text: str) -> str:
    """The first user message: what the turns of one conversation have in common while its beginning is sent along."""
    if isinstance(text, Turn) and text.opening:
        return text.opening
    return next((m.content for m in before(text) if m.role == USER and m.content.strip()), str(text))


def said_before(earlier: Sequence[Any] | None) -> str:
    """What the user said in the turn before, of stored messages (`earlier_as_json`); "" for a first turn."""
    return next((m["content"] for m in reversed(earlier or ()) if m["role"] == USER), "")


def as_json(text: str) -> list[dict[str, Any]]:
    """All messages of a query, the last one the text itself."""
    return [*(m.as_json() for m in before(text)), {"role": USER, "content": str(text)}]


def earlier_as_json(text: str) -> list[dict[str, Any]] | None:
    """What was said before, as databases and snapshots hold it beside the text; None for a plain one."""
    return [m.as_json() for m in before(text)] or None


def from_json(last: str, earlier: Sequence[Any] | None) -> str:
    """The inverse: a stored text with its stored `earlier_as_json`."""
    if not earlier:
        return last
    return text_of(last, [Message(m["role"], m["content"], tuple(m.get("agents", ()))) for m in earlier])


# ------------------------------------------------------------------------------------------------------------ checked


class BadConversation(ValueError):
    """Messages that are no conversation. `path` names the one at fault like `messages[2].content`; `code` is a word for programs."""

    def __init__(self, path: str, reason: str, code: str = "invalid") -> None:
        super().__init__(f"{path} {reason}")
        self.path, self.reason, self.code = path, reason, code


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is taken of a conversation: of more than `messages` the oldest go; more `characters` than that are refused, in the last
    turn more than `last`."""

    messages: int
    characters: int
    last: int


def left_out(text: str) -> int:
    """How many of the oldest messages of a query are gone because there were too many."""
    return text.left_out if isinstance(text, Turn) else 0


def checked(
    value: object,
    bounds: Bounds,
    find_agent: Callable[[object, str], int] | None = None,
    path: str = "messages",
    named: Callable[[str], int | None] | None = None,
) -> str:
    """The query in a JSON value: a list of {"role", "content"}, the last of them the user's. Raises BadConversation.

    `find_agent(value, path)` gives the id of an agent that an answer names; without it ids are taken, and what `named(name)` finds:
    the id of an agent, None for somebody else. It is also asked for the "name" of an answer without agents. Other keys of a message
    are not looked at.
    Messages beyond the bound are left out, the oldest first, before the rest is measured.
    """
    if not isinstance(value, list):
        raise BadConversation(path, f"must be a list of messages, not {_kind(value)}")
    if not value:
        raise BadConversation(path, "is empty: the user's last turn is what is routed", "blank")
    gone = max(0, len(value) - bounds.messages)
    first = next((m["content"] for m in value if _is_users(m)), "")
    messages = [_message(m, f"{path}[{i}]", find_agent, named) for i, m in enumerate(value[gone:], gone)]
    last = messages.pop()
    place = f"{path}[{len(value) - 1}]"
    if last.role != USER:
        raise BadConversation(f"{place}.role", f"is {last.role}; the last message must be the user's, which is routed")
    if not last.content.strip():
        raise BadConversation(f"{place}.content", "is blank", "blank")
    if len(last.content) > bounds.last:
        reason = f"has {len(last.content):,} characters; at most {bounds.last:,} are taken"
        raise BadConversation(f"{place}.content", reason, "too_long")
    total = len(last.content) + sum(len(m.content) for m in messages)
    if total > bounds.characters:
        reason = f"has {total:,} characters together; at most {bounds.characters:,} are taken: leave out the oldest"
        raise BadConversation(path, reason, "too_long")
    # What says nothing, as an answer that only called a tool, is no message.
    earlier = [m for m in messages if m.content.strip() or m.agents]
    return Turn(last.content, earlier, gone, first if gone else "") if earlier or gone else last.content


def read(messages: object) -> str:
    """The query in a list of messages of any length, for programs that embed a router. Raises BadConversation."""
    return checked(messages, Bounds(messages=1 << 31, characters=1 << 31, last=1 << 31))


def _is_users(message: object) -> bool:
    return (
        isinstance(message, dict)
        and message.get("role") == USER
        and isinstance(message.get("content"), str)
        and bool(message["content"].strip())
    )


def _message(
    value: object,
    path: str,
    find_agent: Callable[[object, str], int] | None,
    named: Callable[[str], int | None] | None,
) -> Message:
    if not isinstance(value, dict):
        raise BadConversation(path, f'must be an object with "role" and "content", not {_kind(value)}')
    role, content, agents = value.get("role"), value.get("content"), value.get("agents")
    if role not in ROLES:
        raise BadConversation(f"{path}.role", f"must be one of {', '.join(ROLES)}")
    if content is None and role != USER and "content" in value:
        content = ""  # an answer that only called a tool
    if not isinstance(content, str):
        missing = "is missing" if content is None else f"must be a text, not {_kind(content)}"
        raise BadConversation(f"{path}.content", missing, "missing" if content is None else "invalid")
    fault = storable.text_fault(content)
    if fault:
        raise BadConversation(f"{path}.content", fault)
    ids = _agents(agents, f"{path}.agents", str(role), find_agent, named)
    if not ids and named is not None and role not in (USER, "system") and isinstance(name := value.get("name"), str):
        agent = named(name)
        ids = () if agent is None else (agent,)
    return Message(str(role), content, ids)


def _agents(
    value: object,
    path: str,
    role: str,
    find_agent: Callable[[object, str], int] | None,
    named: Callable[[str], int | None] | None,
) -> tuple[int, ...]:
    if value is None or value == []:
        return ()
    if role == USER or role == "system":
        raise BadConversation(path, "are told of an answer only, not of what the user or the system said")
    if not isinstance(value, list) or len(value) > MAX_MESSAGE_AGENTS:
        raise BadConversation(path, f"must be a list of at most {MAX_MESSAGE_AGENTS} agents")
    ids = []
    for place, entry in enumerate(value):
        if find_agent is not None:
            ids.append(find_agent(entry, f"{path}[{place}]"))
        elif type(entry) is int and 0 <= entry < 1 << 31:
            ids.append(entry)
        elif named is not None and isinstance(entry, str):
            ids += [] if (agent := named(entry)) is None else [agent]
        else:
            either = "the id" if named is None else "the id, the key or the name"
            raise BadConversation(f"{path}[{place}]", f"must be {either} of an agent")
    return tuple(sorted(set(ids)))


def _kind(value: object) -> str:
    words = {
        type(None): "null",
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        dict: "an object",
    }
    return words.get(type(value), "a list")
