"""Who runs each chosen agent, now: filters first (budget, limits, cool-down, health), then the rank, with the queue of now.

One function assigns for the API, its fast lane and executors. Nothing here asks the database.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.conf import settings

from orchestration_app.backends import state
from orchestration_app.backends.state import BackendState, Plan, Plans, PoolBackends
from orchestration_app.backends.windows import Used
from orchestration_app.engine.backends.choosing import PRESETS, Candidate, Preference, foremost
from orchestration_app.engine.backends.pair_table import PRIOR, WEIGHT
from training_app.answering import loaded


@dataclass(frozen=True, slots=True)
class Assignment:
    """One agent and the backend that is to run it, None where none may.

    `propensity` is how likely the choice was, `by` who made it ("direct", "learner" or "lot"), `direct` whether the direct estimate
    would have taken it too.
    """

    agent: int
    backend: BackendState | None
    success: float = 0.0
    cost: float = 0.0
    latency: float = 0.0
    why: str = ""
    propensity: float = 1.0
    by: str = "direct"
    direct: bool = True

    def as_json(self) -> dict[str, Any]:
        """As an application sees it."""
        if self.backend is None:
            return {"agent": self.agent, "backend": None, "expected": None, "why": self.why}
        return {
            "agent": self.agent,
            "backend": {"id": self.backend.pk, "name": self.backend.name},
            "expected": {
                "success": round(self.success, 4), "cost": round(self.cost, 8), "latency_ms": round(self.latency, 1),
            },
            "why": self.why,
        }  # fmt: skip


class Request(NamedTuple):
    """What holds for all agents of one request: the preference, whether the budget of the day is nearly spent, the time, the text's
    size in tokens, and, in a chain, how well each backend did after the one that answered before."""

    wanted: Preference
    pressed: bool
    now: float
    size: float = 0.0
    after: Mapping[int, float] | None = None


#: Why nobody is named although somebody could be in a moment.
AT_LIMITS = "every backend is at its limits; try again in a few seconds"
SPENT = "the budget of the day is spent"
TOO_LONG = "the text is longer than any backend reads"
#: Characters of a token, at least: a text of so many times the context surely does not fit.
CHARACTERS = 4.0


def assign(
    pool: int, text: str, agents: Sequence[int], preference: Preference | None = None, *, only: Collection[int] | None = None,
    previous: int | None = None,
) -> list[Assignment] | None:  # fmt: skip
    """A backend for each of the agents that have any; None where the pool has no backends. Never waits.

    `only` are the backends that may be taken, None for all; `previous` is the backend that answered before in the same chain.
    """
    backends = state.of(pool)
    if backends is None:
        return None
    if not settings.BACKGROUND_THREADS or not backends.settled:
        state.settle_now(backends)
    pressed = backends.pressed
    wanted = PRESETS["cheapest"] if pressed else preference or backends.preference
    after = backends.pairs.get(previous) if previous is not None else None
    request = Request(wanted, pressed, time.monotonic(), len(text) / CHARACTERS, after)
    chooser = backends.chooser
    given = []
    # Read before the lock: nobody waits while another text is embedded.
    learned = chooser.estimates(text, [agent for agent in agents if agent in backends.by_agent]) if chooser else {}
    with backends.lock:
        plans = backends.plans_of(wanted) if only is None else None
        for agent in agents:
            of_agent = backends.by_agent.get(agent)
            if of_agent is not None and only is not None:
                of_agent = [one for one in of_agent if one.pk in only]
            if of_agent:
                given.append(_assigned(backends, agent, of_agent, request, learned.get(agent), plans))
    return given


def _assigned(
    pool: PoolBackends, agent: int, backends: list[BackendState], request: Request, estimates: Mapping[int, float] | None,
    plans: Plans | None = None,
) -> Assignment:  # fmt: skip
    free, which, bit = [], 0, 1  # the free ones, and which they are, a bit each
    for one in backends:
        if one.context and request.size > one.context:
            pass  # it could not read the text
        elif one.limited:
            one.asked_at = request.now
            if one.open and _has(one):
                free.append(one)
                which |= bit
        elif one.open:
            free.append(one)
            which |= bit
        bit += bit
    if not free:
        state.settler.wake()
        return Assignment(agent, None, why=_why_none(backends, request.size))
    if plans is None or estimates or request.after:  # of no use to the next request
        plan = _planned(pool, agent, free, request, estimates)
    else:
        kept = plans.get((agent, which))
        if kept is None:
            kept = plans[agent, which] = _planned(pool, agent, free, request, None)
        plan = kept
    candidates = plan.candidates
    if not candidates:
        return Assignment(agent, None, why=SPENT)
    own = plan.best[0] if len(plan.best) == 1 else min(plan.best, key=lambda place: candidates[place].rank)
    place, likely, by = _drawn(pool.exploration, plan, own) if plan.drawn else (own, 1.0, "direct")
    picked = candidates[place]
    backend = pool.by_key[picked.key]
    _take(pool, backend)
    if by == "lot" and place != own:
        why = "taken by lot, to be measured"
    elif by == "learner" and place != own:
        why = "the learner's choice"
    elif request.pressed:
        why = "the cheapest: the budget of the day is nearly spent"
    elif len(candidates) < len(backends):
        why = f"the best for the preference of {len(candidates)} that may be taken now, of {len(backends)}"
    else:
        why = "the best for the preference" if len(backends) > 1 else "the agent's only backend"
    latency = plan.latencies[place]
    return Assignment(agent, backend, picked.success, picked.cost, latency, why, likely, by, place == own)


def _planned(
    pool: PoolBackends, agent: int, free: list[BackendState], request: Request, estimates: Mapping[int, float] | None
) -> Plan:
    """Whom the direct estimate takes of the free backends, and how likely the learner takes each."""
    wanted, pressed, after = request.wanted, request.pressed, request.after
    if pool.budget is not None:
        left = pool.budget - pool.spent
        free = [one for one in free if one.candidate.cost <= left]
    candidates = [one.candidate for one in free]
    if estimates:
        candidates = [_retold(candidate, estimates) for candidate in candidates]
    if after and not pressed:
        candidates = [_following(candidate, after) for candidate in candidates]
    if not candidates:
        return Plan([], [], [])
    dearest, slowest = pool.scales[agent]
    best, latencies = foremost(candidates, wanted, dearest, slowest)
    drawn = len(candidates) > 1 and bool(pool.exploration or (pool.learning and not pressed))
    plan = Plan(candidates, latencies, best, drawn=drawn)
    if plan.drawn and pool.learning is not None and not pressed:
        direct = candidates[plan.best[0]]
        plan.chances = pool.learning.chances(agent, candidates, direct, wanted, dearest, slowest)
        plan.share = pool.learning.share if plan.chances is not None else 0.0
    return plan


def _drawn(exploration: float, plan: Plan, own: int) -> tuple[int, float, str]:
    """The place of whom lot, learner or direct estimate take, how likely that one was by all three together, and who decided.

    p(b) = ε / K + (1 − ε) · (s · p_learner(b) + (1 − s) · [b is the direct estimate's])
    """
    chances, share, chance, count = plan.chances, plan.share, loaded.chance, len(plan.candidates)
    at, by = own, "direct"
    if exploration and chance.random() < exploration:
        at, by = chance.randrange(count), "lot"
    elif chances is not None and chance.random() < share:
        left, by = chance.random(), "learner"
        for place, likely in enumerate(chances):
            if likely:
                at = place
                left -= likely
                if left < 0:
                    break
    learnt = share * chances[at] if chances is not None else 0.0
    return at, exploration / count + (1 - exploration) * (learnt + (1 - share) * (at == own)), by


def give_back(pool: int, backend: int) -> None:
    """The call that a backend was taken for was not made: its place is free."""
    backends = state.of(pool)
    if backends is not None:
        with backends.lock:
            if backend in backends.by_key:
                backends.usage.used.setdefault(backends.by_key[backend].line, Used()).ended += 1


def _retold(one: Candidate, estimates: Mapping[int, float]) -> Candidate:
    success = estimates.get(one.key)
    if success is None:
        return one
    return Candidate(one.key, success, one.cost, one.service, one.busy, one.less, one.rank)


def _following(one: Candidate, after: Mapping[int, float]) -> Candidate:
    """Q + 0.3 · pair(previous, a), counted from the prior: an unknown pair changes nothing."""
    pair = after.get(one.key, PRIOR)
    return Candidate(
        one.key, one.success, one.cost, one.service, one.busy, one.less - WEIGHT * (pair - PRIOR), one.rank
    )


def _has(one: BackendState) -> bool:
    """Whether one more call is within what this process holds of its limits."""
    requests, tokens, places = one.limits
    left = one.left
    return (
        (not requests or left[0] >= 1)
        and (not tokens or left[1] >= min(one.tokens, tokens))
        and (not places or left[2] >= 1)
    )


def _take(pool: PoolBackends, one: BackendState) -> None:
    used = pool.usage.used.get(one.line)
    if used is None:
        used = pool.usage.used[one.line] = Used()
    used.requests += 1
    used.began += 1
    used.tokens += one.tokens
    pool.usage.last.append(one.pk)
    if one.limited:
        one.left[:] = [one.left[0] - 1, one.left[1] - one.tokens, one.left[2] - 1]
    one.times_taken += 1
    one.candidate.rank = one.order * state.ORDER + one.times_taken


def _why_none(backends: list[BackendState], size: float) -> str:
    if all(backend.context and size > backend.context for backend in backends):
        return TOO_LONG
    if any(backend.open for backend in backends):
        return AT_LIMITS
    return "every backend cools down after failures, or is not healthy"
