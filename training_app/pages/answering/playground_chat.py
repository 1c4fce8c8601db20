"""The playground as a chat: what was said so far travels with the form, and each user turn shows its route. Nothing is kept."""

import json
from typing import Any

from datasets_app.pages import chat
from training_app.answering import answer, routable
from training_app.answering.loaded import LoadedPool
from training_app.engine.data.conversations import USER, BadConversation, Message, before, text_of
from training_app.engine.routing.routes import Route

Messages = list[dict[str, Any]]


def so_far(params: Any) -> Messages:
    """The messages that a form carries, oldest first; [] for none, or where they are no list."""
    try:
        messages = json.loads(params.get("messages") or "[]")
    except (ValueError, RecursionError):
        return []
    return messages if isinstance(messages, list) else []


def query_in(messages: Messages, query: str) -> str:
    """The query behind what was said so far. Raises Unroutable."""
    if not messages:
        routable.check_text(query)
        return query
    try:
        return routable.conversation([*messages, {"role": USER, "content": query}])
    except BadConversation as bad:
        raise routable.Unroutable(bad.code, bad.reason) from None


def gone_on(messages: Messages, query: str, route: Route, reply: str) -> Messages:
    """What has been said once the query was answered: by its route's agents, in these words."""
    answered: dict[str, Any] = {"role": "assistant", "content": reply}
    if route.agents:
        answered["agents"] = list(route.agents)
    return [*messages, {"role": USER, "content": query}, *([answered] if reply.strip() or route.agents else [])]


def drawn(pool: LoadedPool, messages: Messages) -> list[chat.ChatMessage]:
    """The chat so far, each user turn with the agents of its route. Raises BadConversation, NoModel."""
    if not messages:
        return []
    earlier = before(routable.conversation([*messages, {"role": USER, "content": "?"}]))
    places = [place for place, message in enumerate(earlier) if message.role == USER]
    turns = [text_of(earlier[place].content, earlier[:place]) for place in places]
    by_id = {agent.id: agent for agent in pool.roster}
    routes = answer.answers(pool, turns, sticky=turns[0] if turns else "", explore=False)
    sets = {
        place: [by_id[agent] for agent in answered.route.agents if agent in by_id]
        for place, answered in zip(places, routes, strict=True)
    }
    # Whom an answer came from stands beside the turn that it answers.
    shown_messages = [Message(message.role, message.content) for message in earlier if message.content.strip()]
    shown = [place for place, message in enumerate(earlier) if message.content.strip()]
    return chat.displayed(shown_messages, by_id, {new: sets[old] for new, old in enumerate(shown) if old in sets})
