"""Routerweb inside other people's frameworks: a small file each, which alone needs that framework.

What they share: a conversation as the API takes it, and who an answer names, by key.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from routerweb_client.answers import Answer

Target = TypeVar("Target")

#: What frameworks call the four roles of a conversation.
ROLES = {"human": "user", "ai": "assistant", "developer": "system", "function": "tool"} | {
    role: role for role in ("user", "assistant", "system", "tool")
}


def text_of(content: Any) -> str:
    """What a message says: its text, or the texts among its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def conversation(messages: Iterable[tuple[str, Any]]) -> list[dict[str, str]]:
    """(role, content) pairs as the API takes them, up to the user's last. Raises ValueError where the user said nothing."""
    turns = [(ROLES.get(role, "tool"), text_of(content).strip()) for role, content in messages]
    last = max((place for place, (role, text) in enumerate(turns) if role == "user" and text), default=-1)
    if last < 0:
        raise ValueError("There is no message of the user's to route.")
    return [{"role": role, "content": text} for role, text in turns[: last + 1] if text]


def chosen(answer: Answer, targets: Mapping[str, Target]) -> list[Target]:
    """The targets that an answer names, in its order; `targets` are by the agents' keys, those without one are left out."""
    return [targets[key] for key in answer.agent_keys if key in targets]
