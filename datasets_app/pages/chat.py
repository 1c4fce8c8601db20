"""A conversation as pages draw it: who said what, and which agents each turn needed or got."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent
from training_app.engine.data.conversations import Message, before

WHO = {"user": _("user"), "assistant": _("assistant"), "system": _("system"), "tool": _("tool")}


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message: `who` in words; `agents` that answered with it, or that a user's turn needs, None where that is not known. `note`
    says what the agents are, for those who hear the page."""

    role: str
    who: Any
    text: str
    agents: Sequence[Any] | None = None
    note: Any = ""


def displayed(
    messages: Sequence[Message], agents: Mapping[int, Any], sets: Mapping[int, Sequence[Any]] | None = None
) -> list[ChatMessage]:
    """The messages to draw. `sets`: by the place of a user's turn, from 0, the agents that it needs."""
    drawn = []
    for place, message in enumerate(messages):
        answered: Sequence[Any] | None = (sets or {}).get(place)
        note = _("needs") if answered is not None else ""
        if message.agents:
            answered, note = [agents[n] for n in message.agents if n in agents], _("answered by")
        drawn.append(ChatMessage(message.role, WHO[message.role], message.content, answered, note))
    return drawn


def earlier(query: str, agents: Sequence[Agent], sets: Mapping[int, Sequence[Any]] | None = None) -> list[ChatMessage]:
    """What was said before a query, to draw; [] for a plain text."""
    return displayed(before(query), {agent.number: agent for agent in agents}, sets) if before(query) else []
