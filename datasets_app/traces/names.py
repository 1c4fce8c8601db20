"""Which agents of a pool the names in traces mean, and which the pool lacks."""

import re
from collections.abc import Iterable, Sequence

from agents_app import pools
from agents_app.background_work import work
from agents_app.models import Agent as AgentRow
from agents_app.models import BackgroundJob, Pool
from datasets_app.models import LabelValue, TracedTurn
from datasets_app.traces.spans import AGENT, HANDOFF
from training_app.engine.data.examples import Agent, normalise

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
    import. A name that two agents could mean is nobody's."""

    def __init__(self, pool: Pool, agents: Sequence[Agent]) -> None:
        identifiers = {agent.id for agent in agents}
        by_name: dict[str, set[int]] = {}
        for agent in agents:
            for name in (agent.name, agent.key):
                for form in (letters(name), core(name)):
                    by_name.setdefault(form, set()).add(agent.id)
        self._agents = {form: min(ids) for form, ids in by_name.items() if form and len(ids) == 1}
        self._said: dict[str, list[int]] = {
            value: [agent for agent in ids or [] if agent in identifiers]
            for value, ids in LabelValue.objects.filter(pool=pool).values_list("value", "agents")
        }

    def agents(self, name: str) -> list[int]:
        """The ids that a name means, [] for an agent that the pool lacks."""
        if normalise(name) in self._said:
            return self._said[normalise(name)]
        agents = self._agents.get(letters(name)) or self._agents.get(core(name))
        return [] if agents is None else [agents]

    def lacks(self, name: str) -> bool:
        """Whether a name means no agent, and nobody has said that it means none."""
        return normalise(name) not in self._said and not self.agents(name)

    def of(self, names: Iterable[Sequence[str]]) -> list[int]:
        """The sorted ids of all [role, name]."""
        return sorted({agent for _role, name in names for agent in self.agents(name)})


def read_again(pool: Pool) -> int:
    """Say again which agents of the pool the names in its traffic mean, after the agents changed; returns for how many turns."""
    roster, last, count = Roster(pool, pools.roster(pool)), 0, 0
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
    if TracedTurn.objects.filter(pool=agent.pool_id).exists():
        waiting = BackgroundJob.objects.filter(work=WORK, status="queued", arguments__pool=agent.pool_id)
        if not waiting.exists():
            work.submit(WORK, pool=agent.pool_id)


def work_of(running: work.Running) -> int:
    """A worker's share: the names of one pool's traffic."""
    pool = Pool.objects.filter(pk=running.arguments["pool"]).first()
    return 0 if pool is None else read_again(pool)


def is_agent(role: str) -> bool:
    """Whether who acts in that role is an agent; a tool is one only where the pool knows it."""
    return role in (AGENT, HANDOFF)
