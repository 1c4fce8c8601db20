"""What a process knows of its pools' backends: who may be chosen, at what price, and how busy; in memory, swapped and settled.

`load` reads rows and settings when the version stamp moved (`serving.on_load`). A thread settles with the other processes every
SETTLE_SECONDS (`windows`): limits, calls in flight, the last assignments, cool-downs; and reads what was measured every
MEASURE_SECONDS. A process without any backend starts no thread and pays one look into an empty dictionary for a route.
"""

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import Error as DatabaseFault
from django.db.models import Sum
from django.utils import timezone

from agents_app.background_work import leases
from orchestration_app import providers
from orchestration_app.backends import learning, measured, pairs, windows
from orchestration_app.backends.learning import Learning
from orchestration_app.backends.measured import Call, Measured, tokens_by_agent
from orchestration_app.backends.windows import Three, Usage, Used
from orchestration_app.engine.backends.chooser import BackendChooser
from orchestration_app.engine.backends.choosing import Candidate, Preference, scales
from orchestration_app.engine.backends.load import WINDOW, LoadTracker, penalty
from orchestration_app.engine.backends.online import Arm
from orchestration_app.models import Backend, BackendCall, BackendLoad, BackendSettings
from orchestration_app.models.kinds import BACKEND_CHOOSER
from routerweb import state
from routerweb.background import Background
from training_app.answering import serving
from training_app.answering.loaded import Served
from training_app.engine.data.artifact import ArtifactError
from training_app.models import RouterModel
from training_app.versions import registry

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 0.25
MEASURE_SECONDS = 5.0
PAIR_SECONDS = 60.0
#: Calls that what staff expect of a backend counts as, beside those that were measured.
PRIOR_CALLS = 10
#: The share of the budget from which on the cheapest backend is taken.
NEARLY_SPENT = 0.8
#: Of equals the lower order goes first, however much work each had.
ORDER = 1e12
#: Calls' worth of a limit that a process keeps while it settles.
KEPT = 16
#: That choices are remembered for between two settlements.
PREFERENCES = 256


@dataclass(slots=True)
class BackendState:
    """One backend: its row's figures, what is held of its limits, and the candidate that choices are made of.

    `line` is the same for all backends that are one model at one provider: they share its limits, and so `left`.
    """

    pk: int
    name: str
    agent: int
    line: int
    candidate: Candidate
    limits: Three
    tokens: float
    order: int
    quality: float
    latency: float
    price_in: float
    price_out: float
    expected: tuple[int, int]
    open: bool = True
    left: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    times_taken: int = 0
    asked_at: float = -1e9  # monotonic seconds
    limited: bool = False  # whether it has any limit
    context: int = 0  # tokens that it reads; 0 where nobody said


@dataclass(slots=True)
class Plan:
    """What an agent's free backends are worth for one preference; the same until the next settlement.

    `best` are the places of the direct estimate's choice and of its equals, among which the rank decides; `chances` are the
    learner's, and `drawn` whether lot or learner have a say. Nobody can be paid where there are no candidates.
    """

    candidates: list[Candidate]
    latencies: list[float]
    best: list[int]
    chances: list[float] | None = None
    share: float = 0.0
    drawn: bool = False


#: By agent and which of its backends are free, a bit each in their order.
Plans = dict[tuple[int, int], Plan]


class PoolBackends:
    """The backends of one pool in this process. `lock` guards what assignments change."""

    def __init__(self, pk: int, rows: list[Backend], chosen: BackendSettings) -> None:
        self.pk = pk
        self.lock = threading.Lock()
        self.settled = False  # whether this process holds shares of its limits
        self.preference = Preference.of(chosen.quality, chosen.cost, chosen.latency)
        self.budget, self.spread, self.exploration = chosen.budget, chosen.spread, chosen.exploration
        self.spent = 0.0
        self.learning = Learning.of(chosen)
        self.arms = [Arm(row.pk, row.agent.number, str(row), row.quality) for row in rows]
        self.chooser: BackendChooser | None = None
        self.version: int | None = None  # of the chooser
        self.usage = Usage()
        self.waiting: dict[int, int] = {}  # by line, the other processes that ask where one of them has nothing
        self.measured_at = 0.0
        self.follows, self.pairs_at = chosen.pairs, -1e9
        self.pairs: dict[int, dict[int, float]] = {}  # how well each backend does after which, where that counts
        self.last: list[int] = []
        lines = lines_of(rows)
        self.by_key = {row.pk: _known(row, lines[row.pk]) for row in rows}
        held: dict[int, list[float]] = {}
        for backend in self.by_key.values():
            backend.left = held.setdefault(backend.line, backend.left)
        self.by_agent: dict[int, list[BackendState]] = {}
        for backend in sorted(self.by_key.values(), key=lambda backend: (backend.order, backend.pk)):
            self.by_agent.setdefault(backend.agent, []).append(backend)
        self.scales: dict[int, tuple[float, float]] = {}
        self.plans: dict[Preference, Plans] = {}
        self.rate({})

    def plans_of(self, wanted: Preference) -> Plans:
        """What was found for the preference since the last settlement. Call it with the lock."""
        plans = self.plans.get(wanted)
        if plans is None:
            if len(self.plans) >= PREFERENCES:
                self.plans.clear()
            plans = self.plans[wanted] = {}
        return plans

    def rate(self, figures: dict[int, Measured]) -> None:
        """Bring what each backend is expected to do up to date with what was measured."""
        alike = tokens_by_agent(figures, {backend.pk: backend.agent for backend in self.by_key.values()})
        for backend in self.by_key.values():
            measurements = figures.get(backend.pk, Measured())
            backend.candidate.success = (measurements.good + PRIOR_CALLS * backend.quality) / (
                measurements.judged + PRIOR_CALLS
            )
            backend.candidate.service = measurements.moving if measurements.moving is not None else backend.latency
            into, out = measurements.mean_tokens or alike.get(backend.agent) or backend.expected
            backend.tokens = into + out
            backend.candidate.cost = (backend.price_in * into + backend.price_out * out) / 1e6
        self.scales = {agent: scales([backend.candidate for backend in some]) for agent, some in self.by_agent.items()}
        self.plans.clear()

    def weigh(self) -> None:
        """What the load of the last assignments takes from each backend's worth."""
        if not self.spread:
            return
        for some in self.by_agent.values():
            mine = {backend.pk for backend in some}
            last = [key for key in self.last if key in mine][-WINDOW:]
            fair = 1.0 / max(sum(backend.open for backend in some), 1)
            for backend in some:
                backend.candidate.less = penalty(last.count(backend.pk) / len(last), fair) if last else 0.0

    def hot(self) -> dict[int, int | None]:
        """Which of each agent's backends had far more than its share of the last assignments."""
        by_agent: dict[int, int | None] = {}
        for agent, some in self.by_agent.items():
            mine = [backend.pk for backend in some if backend.open]
            last = [key for key in self.last if any(key == backend.pk for backend in some)]
            by_agent[agent] = LoadTracker.of(last).hot(mine)
        return by_agent

    @property
    def pressed(self) -> bool:
        """Whether the budget of the day is nearly spent."""
        return self.budget is not None and self.spent >= NEARLY_SPENT * self.budget


def lines_of(rows: Iterable[Backend]) -> dict[int, int]:
    """By each backend's key that of the first one which is the same model at the same provider."""
    first: dict[tuple[int, str], int] = {}
    return {
        row.pk: first.setdefault((row.provider_id, row.model), row.pk) for row in sorted(rows, key=lambda row: row.pk)
    }


def _known(row: Backend, line: int) -> BackendState:
    return BackendState(
        pk=row.pk, name=str(row), agent=row.agent.number, line=line, context=row.context,
        candidate=Candidate(row.pk, row.quality, 0.0, row.latency, rank=row.order * ORDER),
        limits=(float(row.requests_per_minute), float(row.tokens_per_minute), float(row.at_once)), tokens=0.0, order=row.order,
        quality=row.quality, latency=row.latency, price_in=row.price_in, price_out=row.price_out,
        expected=(row.tokens_in, row.tokens_out), open=row.healthy and not _cools(row),
        limited=bool(row.requests_per_minute or row.tokens_per_minute or row.at_once),
    )  # fmt: skip


def _cools(row: Backend) -> bool:
    return row.cooling_until is not None and row.cooling_until > timezone.now()


_pools: dict[int, PoolBackends] = {}
state.keep(__name__, "_pools", "Pools with backends", "one for each pool")


def of(pool: int) -> PoolBackends | None:
    """The pool's backends, None where it has none."""
    return _pools.get(pool)


def load(_served: Served | None = None) -> None:
    """Read all pools' backends again; held limits are given back at the next settlement. Two queries if there are none."""
    global _pools
    rows: dict[int, list[Backend]] = {}
    for row in Backend.objects.in_use().order_by("pk"):
        rows.setdefault(row.agent.pool_id, []).append(row)
    if not rows:
        _pools = {}
        return
    chosen = {row.pool_id: row for row in BackendSettings.objects.filter(pool__in=rows)}
    fresh = {pk: PoolBackends(pk, some, chosen.get(pk) or BackendSettings(pool_id=pk)) for pk, some in rows.items()}
    for pk, pool in fresh.items():
        before = _pools.get(pk)
        if before is not None:
            with before.lock:
                pool.usage = before.usage
                for backend in before.by_key.values():
                    backend.left[:] = [0.0, 0.0, 0.0]
                pool.usage.last = [key for key in pool.usage.last if key in pool.by_key]
        _follow(pool, measure=True)
    _with_choosers(fresh)
    _pools = fresh
    settler.start(rest=SETTLE_SECONDS)


def _with_choosers(fresh: dict[int, PoolBackends]) -> None:
    """Each pool's promoted chooser; one that cannot be loaded is left out, and what was measured decides."""
    for row in RouterModel.objects.active(BACKEND_CHOOSER).filter(pool__in=fresh).select_related("pool"):
        pool, before = fresh[row.pool_id], _pools.get(row.pool_id)
        pool.version = row.pk
        if before is not None and before.version == row.pk:
            pool.chooser = before.chooser
            continue
        try:
            pool.chooser = registry.load_model(row)
        except (registry.RegistryError, ArtifactError) as error:
            logger.error("Pool %s: the backend chooser %s was refused: %s", row.pool.slug, row.name, error)


def settle() -> float:
    """Settle every pool with the other processes; the seconds until the next time."""
    try:
        for pool in list(_pools.values()):
            _settle(pool)
    except DatabaseFault as error:
        logger.warning("Backends cannot be settled; each process keeps to what it holds: %s", error)
        serving.drop_connection()
        return 10 * SETTLE_SECONDS
    return SETTLE_SECONDS


def settle_now(pool: PoolBackends) -> None:
    """Settle one pool within a call: where no thread does it (BACKGROUND_THREADS off). Raises django.db.Error."""
    _settle(pool, always=True)


def _settle(pool: PoolBackends, *, always: bool = False) -> None:
    now = time.monotonic()
    with pool.lock:
        news, pool.usage = pool.usage, Usage()
        limited = {backend.line: backend.limits for backend in pool.by_key.values() if backend.limited}
        held = {backend.line: backend.left for backend in pool.by_key.values() if backend.limited}
        for backend in pool.by_key.values():
            if backend.limited:
                news.wants[backend.line] = max(backend.tokens, news.wants.get(backend.line, 0.0))
                if now - backend.asked_at < windows.ACTIVE_SECONDS:
                    news.asks.add(backend.line)
        for line, held_of_line in held.items():
            # A few calls' worth stays, for those that come while this waits for the database; the rest goes back.
            had_one = held_of_line[2] >= 1 or line in news.used
            most = _kept(pool.waiting.get(line, 0), line, limited[line], news, had_one=had_one)
            held_of_line[:] = [min(part, kept) for part, kept in zip(held_of_line, most, strict=True)]
            news.keeps[line] = (max(held_of_line[0], 0.0), max(held_of_line[1], 0.0), max(held_of_line[2], 0.0))
    try:
        with leases.settling(BackendLoad, {"pool_id": pool.pk}) as (row, at):
            granted = windows.settle(row.state, leases.PROCESS, at, limited, news)
    except DatabaseFault:
        with pool.lock:
            _put_back(pool.usage, news)
        raise
    pool.settled = True
    flying = {pk: windows.flying_of(row.state, backend.line) for pk, backend in pool.by_key.items()}
    waiting = {
        line: windows.waiting_for(row.state, leases.PROCESS, line, limit, news.wants[line])
        for line, limit in limited.items()
    }
    with pool.lock:
        pool.waiting = waiting
        for line, share in granted.items():
            held_of_line = held[line]
            meanwhile = [before - now_left for before, now_left in zip(news.keeps[line], held_of_line, strict=True)]
            held_of_line[:] = [whole - used for whole, used in zip(share, meanwhile, strict=True)]
        for backend in pool.by_key.values():
            backend.candidate.busy = flying[backend.pk] / backend.limits[2] if backend.limits[2] else 0.0
        pool.plans.clear()
        pool.last = [key for key in row.state.get("last", []) if key in pool.by_key]
    _follow(pool, measure=always or now - pool.measured_at > MEASURE_SECONDS)


def _kept(waiting: int, line: int, limit: Three, news: Usage, *, had_one: bool) -> Three:
    """The most that this process keeps of a line's limits while it settles. Where others wait for a call's worth, it keeps nothing if
    it makes no calls itself, and else no more than its part of the places; where there are too few for all, they take turns."""
    if waiting and line not in news.asks:
        return windows.NOTHING
    places = float(KEPT)
    if waiting and limit[2]:
        places = min(places, limit[2] // (waiting + 1))
        if not places and had_one:
            news.yields.add(line)
    return float(KEPT), KEPT * news.wants[line], places


def _follow(pool: PoolBackends, *, measure: bool) -> None:
    """Who may be chosen now, and what was measured."""
    rows = {row.pk: row for row in Backend.objects.filter(pk__in=pool.by_key).only("pk", "healthy", "cooling_until")}
    figures: dict[int, Measured] | None = None
    if measure:
        if pool.learning is None:
            figures = measured.of_pool(pool.pk)
        else:
            log = measured.log(pool.pk)
            figures = measured.of_log(log)
            if pool.settled:  # it may stop the learner for all processes: not while a page loads
                _learn(pool, pool.learning, log)
        pool.measured_at = time.monotonic()
        if pool.follows and pool.measured_at - pool.pairs_at > PAIR_SECONDS:
            pool.pairs, pool.pairs_at = pairs.of_backends(pool.pk), pool.measured_at
        if pool.budget is not None:
            day = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
            today = BackendCall.objects.filter(pool=pool.pk, at__gte=day, at__lt=day + timedelta(days=1))
            pool.spent = today.aggregate(spent=Sum("cost"))["spent"] or 0.0
    with pool.lock:
        for pk, backend in pool.by_key.items():
            row = rows.get(pk)
            backend.open = row is not None and row.healthy and not _cools(row)
        if figures is not None:
            pool.rate(figures)
        pool.weigh()
        pool.plans.clear()


def _learn(pool: PoolBackends, learner: Learning, log: list[Call]) -> None:
    """Bring the learner up to date; it is stopped where its calls are worth less than those beside it."""
    judged = learning.compared(log, pool.preference, pool.scales, learner.since)
    if judged.worse:
        pool.learning = None
        why = (
            f"its {judged.ours} calls were worth {-judged.difference:.3f} less than {judged.theirs} of the direct estimate, "
            f"{-judged.low:.3f} to {-judged.high:.3f}"
        )
        providers.stop_learning(pool.pk, why)
        return
    learner.refresh(pool.arms, log, pool.hot(), pool.budget)


def _put_back(usage: Usage, before: Usage) -> None:
    for pk, used in before.used.items():
        more = usage.used.setdefault(pk, Used())
        more.requests += used.requests
        more.tokens += used.tokens
        more.began += used.began
        more.ended += used.ended
    usage.last = [*before.last, *usage.last]


def forget() -> None:
    """Drop what is in memory."""
    global _pools
    _pools = {}


def _in_child() -> None:
    # A new process holds nothing.
    for pool in _pools.values():
        pool.lock = threading.Lock()
        pool.usage = Usage()
        for backend in pool.by_key.values():
            backend.left[:] = [0.0, 0.0, 0.0]
    if _pools and settings.BACKGROUND_THREADS:
        settler.start()


def _end() -> None:
    """Tell what was used and give back the rest, so that nobody waits for a process that is gone."""
    settler.stop()
    try:
        for pool in list(_pools.values()):
            if pool.settled:
                _leave(pool)
    except DatabaseFault as error:
        logger.warning("Backends cannot be settled; what this process holds counts as used for a while: %s", error)


def _leave(pool: PoolBackends) -> None:
    with pool.lock:
        news, pool.usage = pool.usage, Usage()
        for backend in pool.by_key.values():
            backend.left[:] = windows.NOTHING
    with leases.settling(BackendLoad, {"pool_id": pool.pk}) as (row, at):
        windows.settle(row.state, leases.PROCESS, at, {}, news)  # it asks for nothing, so it holds nothing


settler = Background("backend-settler", settle, at_end=_end, in_child=_in_child)
