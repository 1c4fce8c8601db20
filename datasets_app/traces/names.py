"""Which agents of a pool the names in traces mean, and which the pool lacks."""

import re
from collections.abc import Callable, Iterable, Sequence

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
#: A version behind it: `billing-agent-v2`, `Billing v1.3`.
_VERSION = re.compile(r"(?<=.)v\d+$")
#: Letters that the beginning of a name needs to be guessed for a longer one: `doc_agent` for Documents.
SHORTEST_GUESS = 3


def letters(name: str) -> str:
    """A name's letters alone, in small."""
    return re.sub(r"[\W_]+", "", normalise(name))


def core(name: str) -> str:
    """A name's letters without the words that code puts around it, and without a version."""
    return _AROUND.sub("", _VERSION.sub("", letters(name)))


def guess(name: str, others: Iterable[str]) -> str:
    """The one of other names that begins like this one, or that this one begins like; "" for none or several."""
    form = core(name)
    near = [other for other in others if _one_begins(form, core(other))]
    return near[0] if len(near) == 1 else ""


def _one_begins(form: str, other: str) -> bool:
    shorter, longer = sorted((form, other), key=len)
    return len(shorter) >= SHORTEST_GUESS and longer.startswith(shorter)


class Roster:
    """The agents of one pool by what traces may call them: key or name, the same without “agent” and a version, or a label that
    somebody explained in an import or on the page Traffic. The whole name goes first. A name that two agents could mean is nobody's. A
    merged agent's names mean the one that it counts as, a retired one's nobody. Two database queries."""

    def __init__(self, pool: Pool) -> None:
        columns = ("number", "name", "key", "state", "merged_into__number", "merged_at")
        agents = list(pool.agents.order_by("number").values_list(*columns))
        self._active = {number for number, _name, _key, state, *_ in agents if state == AgentRow.State.ACTIVE}
        steps = {number: Merge(into, since) for number, *_, into, since in agents if into is not None}
        counts_as = {number: end_of(number, steps) for number, *_ in agents}
        named = [(number in self._active, counts_as[number], (name, key)) for number, name, key, *_ in agents]
        self._whole, self._core = _by_form(named, letters), _by_form(named, core)
        explained = LabelValue.objects.filter(pool=pool).order_by("pk").values_list("value", "agents")
        self._said: dict[str, list[int]] = {
            value: sorted({counts_as[agent] for agent in ids or [] if counts_as.get(agent) in self._active})
            for value, ids in explained
        }
        self._said_core = {core(value): ids for value, ids in self._said.items()}

    def _meant(self, name: str) -> set[int]:
        """The ids of all agents that a name may mean."""
        return self._whole.get(letters(name)) or self._core.get(core(name)) or set()

    def agents(self, name: str) -> list[int]:
        """The ids that a name means, [] for an agent that the pool lacks."""
        if normalise(name) in self._said:
            return self._said[normalise(name)]
        meant = self._meant(name)
        if len(meant) == 1 and meant <= self._active:
            return list(meant)
        return self._said_core.get(core(name), [])

    def lacks(self, name: str) -> bool:
        """Whether a name means no agent, no retired one either, and nobody has said that it means none."""
        meant = self._meant(name)
        gone = bool(meant) and not meant & self._active
        return core(name) not in self._said_core and not gone and not self.agents(name)

    def of(self, names: Iterable[Sequence[str]]) -> list[int]:
        """The sorted ids of all [role, name]."""
        return sorted({agent for _role, name in names for agent in self.agents(name)})


def _by_form(named: Iterable[tuple[bool, int, tuple[str, str]]], form_of: Callable[[str], str]) -> dict[str, set[int]]:
    """Form of a name → ids that have it, of (whether active, the id that it counts as, name and key); active agents go first."""
    active: dict[str, set[int]] = {}
    gone: dict[str, set[int]] = {}
    for is_active, counts_as, texts in named:
        for form in filter(None, map(form_of, texts)):
            (active if is_active else gone).setdefault(form, set()).add(counts_as)
    return {**gone, **active}


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
