"""The labeled queries nearest to a text, for pages that explain a route."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from agents_app.models import Agent, Pool
from datasets_app.models import Gold
from training_app.engine.reading.neighbours import Neighbours

#: Newest gold queries that a text is compared with.
MOST = 5_000
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Near:
    """One labeled query: its key, its text, the agents that it needs, and how like the text it is, 0 to 1."""

    query: int
    text: str
    agents: Sequence[Agent]
    likeness: float


def to(pool: Pool, text: str) -> list[Near]:
    """The SHOWN labeled queries of the pool most like the text, nearest first; empty where none has anything in common."""
    gold = Gold.objects.of(pool).filter(query__erased_at=None)
    newest = gold.order_by("-composed_at").values_list("composed_at", "pk").first()
    if newest is None:
        return []
    keys, compared = _compared(pool.pk, newest)
    likeness_of = {keys[place]: likeness for place, likeness in compared.nearest(text, SHOWN)}
    rows = {row.query_id: row for row in gold.filter(query__in=likeness_of).select_related("query")}
    agents = {agent.number: agent for agent in pool.agents.all()}
    return [
        Near(key, rows[key].query.text, [agents[n] for n in rows[key].required if n in agents], likeness)
        for key, likeness in likeness_of.items()
        if key in rows
    ]


@lru_cache(maxsize=4)
def _compared(pool: int, _newest: tuple[datetime, int]) -> tuple[list[int], Neighbours]:
    """Kept in memory until the pool has newer gold."""
    gold = Gold.objects.of(pool).filter(query__erased_at=None)
    rows = list(gold.order_by("-composed_at", "-pk").values_list("query_id", "query__text")[:MOST])
    return [key for key, _text in rows], Neighbours([text for _key, text in rows])
