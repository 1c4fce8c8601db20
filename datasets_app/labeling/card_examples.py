"""Examples that an agent's card names: queries that nobody has confirmed yet, with the agent suggested."""

from collections.abc import Sequence

from agents_app.models import Agent
from datasets_app.labeling import queue
from datasets_app.labels import suggestions
from datasets_app.labels.suggestions import Scored
from datasets_app.queries import adding
from datasets_app.queries.adding import NewQuery

ORIGIN = "agent card"
#: p(needed) that a card's own word is taken for.
SURE = 0.9


def add(agent: Agent, texts: Sequence[str]) -> int:
    """Put the examples into the labeling queue; how many are new. A query that was there before keeps what is said of it."""
    pool = agent.pool
    dataset = adding.dataset_of(pool)
    _places, fresh = adding.find_or_add(dataset, [NewQuery(text) for text in texts], ORIGIN)
    queue.fill(pool)
    rows = [Scored(query, (agent.number,), {agent.number: SURE}) for query in sorted(fresh)]
    suggestions.push(pool, f"the card of {agent.name}"[:120], rows)
    return len(fresh)
