"""Which agents of a pool the names in traces mean, and which the pool lacks."""

import re
from collections.abc import Iterable, Sequence

from agents_app.background_work import work
from agents_app.models import Agent as AgentRow
from agents_app.models import BackgroundJob, Pool
from datasets_app.labels.voices import Merge, end_of
from datasets_app.models import LabelValue, TracedTurn
from datasets_app.traces.spans import AGENT, HANDOFF
from training_app.engine.data.examples import normalise

WORK = "read_names_again"
BATCH = 2_000
#: Words around an agent's name in code: `billing_agent`, `BillingAssistant`, `agent-billing`.
_AROUND = re.compile(r"^(?:agent|ask|call)(?=.)|(?<=.)(?:subagent|agent|assistant|bot|specialist|tool)$")


def letters(name: str) -> str:
    """A name's letters alone, in small."""
    return re.sub(r"[\W_]+", "", normalise(name))


def core(name: str) -> str:
    """A name's letters without the words that code puts around it."""
    return _AROUND.sub("", letters(name))


class Roster:
    """The agents of one pool by what traces may call them: key, name, name without “agent”, or a label that somebody explained in an
    import. A name that two agents could mean is nobody's. A merged agent's names mean the one that it counts as, a retired one's
    nobody. Two database queries."""

    def __init__(self, pool: Pool) -> None:
        columns = ("number", "name", "key", "state", "merged_into__number", "merged_at")
        agents = list(pool.agents.order_by("number").values_list(*columns))
        active = {number for number, _name, _key, state, *_ in agents if state == AgentRow.State.ACTIVE}
        steps = {number: Merge(into, since) for number, *_, into, since in agents if into is not None}
        counts_as = {number: end_of(number, steps) for number, *_ in agents}
        names: dict[str, set[int]] = {}
        names_of_gone: dict[str, set[int]] = {}
        for number, name, key, *_ in agents:
            for form in (letters(name), core(name), letters(key), core(key)):
                (names if number in active else names_of_gone).setdefault(form, set()).add(counts_as[number])
        by_name = {form: ids for form, ids in {**names_of_gone, **names}.items() if form}
        self._agents = {form: min(ids) for form, ids in by_name.items() if len(ids) == 1 and ids <= active}
        self._retired = {form for form, ids in by_name.items() if not ids & active}
        self._said: dict[str, list[int]] = {
            value: sorted({counts_as[agent] for agent in ids or [] if counts_as.get(agent) in active})
            for value, ids in LabelValue.objects.filter(pool=pool).values_list("value", "agents")
        }

    def agents(self, name: str) -> list[int]:
        """The ids that a name means, [] for an agent that the pool lacks."""
        if normalise(name) in self._said:
            return self._said[normalise(name)]
        agents = self._agents.get(letters(name)) or self._agents.get(core(name))
        return [] if agents is None else [agents]

    def lacks(self, name: str) -> bool:
        """Whether a name means no agent, no retired one either, and nobody has said that it means none."""
        gone = letters(name) in self._retired or core(name) in self._retired
        return normalise(name) not in self._said and not gone and not self.agents(name)

    def of(self, names: Iterable[Sequence[str]]) -> list[int]:
        """The sorted ids of all [role, name]."""
        return sorted({agent for _role, name in names for agent in self.agents(name)})


def read_again(pool: Pool) -> int:
    """Say again which agents of the pool the names in its traffic mean, after the agents changed; returns for how many turns."""
    roster, last, count = Roster(pool), 0, 0
    rows = TracedTurn.objects.filter(pool=pool).order_by("pk").only("names", "agents")
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        last, changed = batch[-1].pk, []
        for row in batch:
            agents = roster.of(row.names)
            if agents != row.agents:
                row.agents = agents
                changed.append(row)
        TracedTurn.objects.bulk_update(changed, ["agents"], batch_size=500)
        count += len(changed)
    return count


def of_adding(agent: AgentRow) -> None:
    """Called for each new agent, in the transaction that adds it: traffic may name it."""
    of_merging(agent.pool)


def of_merging(pool: Pool) -> None:
    """Called in the transaction that merges two agents, or takes a merge back: names in traffic mean another agent."""
    if TracedTurn.objects.filter(pool=pool).exists():
        waiting = BackgroundJob.objects.filter(work=WORK, status="queued", arguments__pool=pool.pk)
        if not waiting.exists():
            work.submit(WORK, pool=pool.pk)


def work_of(running: work.Running) -> int:
    """A worker's share: the names of one pool's traffic."""
    pool = Pool.objects.filter(pk=running.arguments["pool"]).first()
    return 0 if pool is None else read_again(pool)


def is_agent(role: str) -> bool:
    """Whether who acts in that role is an agent; a tool is one only where the pool knows it."""
    return role in (AGENT, HANDOFF)
