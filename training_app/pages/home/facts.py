"""What several parts of Home say of a pool, read once: a query of the database for all pools of the page, not one for each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Count, OuterRef, Q, Subquery

from agents_app.models import Agent, Pool
from training_app.models import SET_ROUTER, AgentProposal, Alarm, RouterModel, Run
from training_app.versions import kinds
from training_app.watching import alarms

State = RouterModel.State


@dataclass(slots=True)
class Facts:
    """One pool. `active`: the router in use; `candidate`: the newest router that waits, unless the one in use is newer; `beside`:
    models in use of other kinds, each with what it does; `agents`: all, by number; `alarms`: open ones that nobody muted; `coming`:
    runs that wait or train, the oldest first; `missing`: how many agents seem to be missing."""

    active: RouterModel | None = None
    candidate: RouterModel | None = None
    beside: list[tuple[RouterModel, str]] = field(default_factory=list)
    shadows: list[RouterModel] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    coming: list[Run] = field(default_factory=list)
    missing: int = 0

    @property
    def in_use(self) -> bool:
        """Whether a model of any kind is."""
        return self.active is not None or bool(self.beside)

    @property
    def is_new(self) -> bool:
        """Whether nothing answers yet, waits to be promoted, or trains."""
        return not self.in_use and self.candidate is None and not self.coming

    @property
    def roster(self) -> list[Agent]:
        """The active agents, by number."""
        return [agent for agent in self.agents if agent.state == Agent.State.ACTIVE]


def of(pools: Sequence[Pool]) -> dict[int, Facts]:
    """The facts of these pools by their keys. Six database queries, however many pools."""
    by_key = {pool.pk: pool for pool in pools}
    facts = {key: Facts() for key in by_key}
    for model in _models(by_key):
        model.pool = by_key[model.pool_id]
        its = facts[model.pool_id]
        if model.state == State.SHADOW:
            its.shadows.append(model)
        elif model.state == State.CANDIDATE:
            its.candidate = model
        elif model.kind == SET_ROUTER:
            its.active = model
        else:
            its.beside.append((model, kinds.of(model.kind).effect.on(model, None)["active"]))
    for its in facts.values():
        if its.active and its.candidate and its.candidate.version < its.active.version:
            its.candidate = None
    for agent in Agent.objects.filter(pool__in=by_key).order_by("number"):
        agent.pool = by_key[agent.pool_id]
        facts[agent.pool_id].agents.append(agent)
    for key, opened in alarms.open_in(list(pools)).items():
        facts[key].alarms = [alarm for alarm in opened if alarm.muted_until is None]  # type: ignore[attr-defined]
    coming = Run.objects.filter(pool__in=by_key, status__in=(Run.Status.QUEUED, Run.Status.RUNNING))
    for run in coming.order_by("pk"):
        run.pool = by_key[run.pool_id]
        facts[run.pool_id].coming.append(run)
    for key, count in _missing(by_key).items():
        facts[key].missing = count
    return facts


def _models(pools: Mapping[int, Pool]) -> list[RouterModel]:
    """Models in use and shadows of routers, oldest first, and the newest router of each pool that is a candidate."""
    waiting = RouterModel.objects.filter(pool=OuterRef("pk"), kind=SET_ROUTER, state=State.CANDIDATE, pruned_at=None)
    first = Subquery(waiting.order_by("-version").values("pk")[:1])
    newest = Pool.objects.filter(pk__in=pools).order_by().values(newest=first)
    shown = Q(state=State.ACTIVE) | Q(state=State.SHADOW, kind=SET_ROUTER) | Q(pk__in=newest)
    return list(RouterModel.objects.filter(shown, pool__in=pools).order_by("pk"))


def _missing(pools: Mapping[int, Pool]) -> Counter[int]:
    proposals = AgentProposal.objects.filter(
        pool__in=pools, kind=AgentProposal.Kind.MISSING, state=AgentProposal.State.OPEN
    )
    return Counter(dict(proposals.order_by().values_list("pool").annotate(Count("pk"))))
