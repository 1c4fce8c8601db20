"""The queue of one question: queries that were labeled before an agent existed are asked about that agent alone.

Such labels say nothing of the agent, neither yes nor no: training leaves it out for them. The queue opens by itself when an agent is
added to a pool that has gold; answering adds to what was said and replaces nothing.
"""

from collections.abc import Sequence

from django.db.models import Exists, OuterRef

from agents_app.background_work import work
from agents_app.models import Agent, Pool
from datasets_app.labeling import queue
from datasets_app.models import Gold, Query, QueueItem

BATCH = 1_000
AT_ONCE = 2_000  # more gold labels than this are left to a worker


def of_adding(agent: Agent) -> None:
    """What adding an agent brings about; called in the transaction that adds it."""
    if Gold.objects.filter(query__dataset__pool=agent.pool_id)[: AT_ONCE + 1].count() <= AT_ONCE:
        fill(agent)
        return
    work.submit("fill_reask", agent=agent.pk)


def fill(agent: Agent) -> int:
    """Ask about this agent wherever gold exists that says nothing of it; returns how many questions came in."""
    if agent.state != Agent.State.ACTIVE:
        return 0
    asked_already = QueueItem.objects.filter(query=OuterRef("query"), agent=agent)
    golds = Gold.objects.of(agent.pool_id)
    golds = golds.exclude(Exists(asked_already)).order_by("pk")
    rows = golds.values_list("query_id", "query__text_hash", "asked", "pk")
    count = last = 0
    # Page by page: on SQLite a write beside an open read fails once another process has written.
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        last = batch[-1][-1]
        items = [_question(agent, query, text) for query, text, asked, _gold in batch if agent.number not in asked]
        QueueItem.objects.bulk_create(items, ignore_conflicts=True)
        count += len(items)
    return count


def ask_about_the_rest(pool: Pool, query_ids: Sequence[int]) -> int:
    """Ask, of these queries, about each active agent that their gold says nothing of; returns how many questions came in."""
    agents = list(pool.agents.active())
    golds = Gold.objects.filter(query__in=query_ids, query__state=Query.State.GOLD)
    rows = golds.values_list("query_id", "query__text_hash", "asked")
    items = [
        _question(agent, query, text) for query, text, asked in rows for agent in agents if agent.number not in asked
    ]
    QueueItem.objects.bulk_create(items, ignore_conflicts=True)
    return len(items)


def _question(agent: Agent, query_id: int, text_hash: str) -> QueueItem:
    place, _overlap, blind_lot, _evaluation = queue.lots(0, text_hash)
    return QueueItem(
        pool_id=agent.pool_id, query_id=query_id, agent=agent, rank=place, random_key=place, blind_lot=blind_lot
    )


def close(agent: Agent) -> int:
    """Ask no more about this agent; answers stay. Returns how many questions were open."""
    return QueueItem.objects.filter(queue.OPEN, agent=agent).update(needed=0, wanted=False)
