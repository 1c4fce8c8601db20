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
    assignments = []
    # Read before the lock: nobody waits while another text is embedded.
    learned = chooser.estimates(text, [agent for agent in agents if agent in backends.by_agent]) if chooser else {}
    with backends.lock:
        plans = backends.plans_of(wanted) if only is None else None
        for agent in agents:
            of_agent = backends.by_agent.get(agent)
            if of_agent is not None and only is not None:
                of_agent = [backend for backend in of_agent if backend.pk in only]
            if of_agent:
                assignments.append(_assigned(backends, agent, of_agent, request, learned.get(agent), plans))
    return assignments


def _assigned(
    pool: PoolBackends, agent: int, backends: list[BackendState], request: Request, estimates: Mapping[int, float] | None,
    plans: Plans | None = None,
) -> Assignment:  # fmt: skip
    free, which, bit = [], 0, 1  # the free ones, and which they are, a bit each
    for backend in backends:
        if backend.context and request.size > backend.context:
            pass  # it could not read the text
        elif backend.limited:
            backend.asked_at = request.now
            if backend.open and _has(backend):
                free.append(backend)
                which |= bit
        elif backend.open:
            free.append(backend)
            which |= bit
        bit += bit
    if not free:
        state.settler.wake()
        return Assignment(agent, None, why=_why_none(backends, request.size))
    if plans is None or estimates or request.after:  # of no use to the next request
        plan = _planned(pool, agent, free, request, estimates)
    else:
        known_plan = plans.get((agent, which))
        if known_plan is None:
            known_plan = plans[agent, which] = _planned(pool, agent, free, request, None)
        plan = known_plan
    candidates = plan.candidates
    if not candidates:
        return Assignment(agent, None, why=SPENT)
    best = plan.best[0] if len(plan.best) == 1 else min(plan.best, key=lambda place: candidates[place].rank)
    place, likely, by = _drawn(pool.exploration, plan, best) if plan.drawn else (best, 1.0, "direct")
    picked = candidates[place]
    backend = pool.by_key[picked.key]
    _take(pool, backend)
    if by == "lot" and place != best:
        why = "taken by lot, to be measured"
    elif by == "learner" and place != best:
        why = "the learner's choice"
    elif request.pressed:
        why = "the cheapest: the budget of the day is nearly spent"
    elif len(candidates) < len(backends):
        why = f"the best for the preference of {len(candidates)} that may be taken now, of {len(backends)}"
    else:
        why = "the best for the preference" if len(backends) > 1 else "the agent's only backend"
    latency = plan.latencies[place]
    return Assignment(agent, backend, picked.success, picked.cost, latency, why, likely, by, place == best)


def _planned(
    pool: PoolBackends, agent: int, free: list[BackendState], request: Request, estimates: Mapping[int, float] | None
) -> Plan:
    """Whom the direct estimate takes of the free backends, and how likely the learner takes each."""
    wanted, pressed, after = request.wanted, request.pressed, request.after
    if pool.budget is not None:
        remaining = pool.budget - pool.spent
        free = [backend for backend in free if backend.candidate.cost <= remaining]
    candidates = [backend.candidate for backend in free]
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


def _drawn(exploration: float, plan: Plan, best: int) -> tuple[int, float, str]:
    """The place of whom lot, learner or direct estimate take, how likely that one was by all three together, and who decided.

    p(b) = ε / K + (1 − ε) · (s · p_learner(b) + (1 − s) · [b is the direct estimate's])
    """
    chances, share, chance, count = plan.chances, plan.share, loaded.chance, len(plan.candidates)
    at, by = best, "direct"
    if exploration and chance.random() < exploration:
        at, by = chance.randrange(count), "lot"
    elif chances is not None and chance.random() < share:
        draw, by = chance.random(), "learner"
        for place, likely in enumerate(chances):
            if likely:
                at = place
                draw -= likely
                if draw < 0:
                    break
    learnt = share * chances[at] if chances is not None else 0.0
    return at, exploration / count + (1 - exploration) * (learnt + (1 - share) * (at == best)), by


def give_back(pool: int, backend: int) -> None:
    """The call that a backend was taken for was not made: its place is free."""
    backends = state.of(pool)
    if backends is not None:
        with backends.lock:
            if backend in backends.by_key:
                backends.usage.used.setdefault(backends.by_key[backend].line, Used()).ended += 1


def _retold(candidate: Candidate, estimates: Mapping[int, float]) -> Candidate:
    success = estimates.get(candidate.key)
    if success is None:
        return candidate
    return Candidate(
        candidate.key, success, candidate.cost, candidate.service, candidate.busy, candidate.less, candidate.rank
    )


def _following(candidate: Candidate, after: Mapping[int, float]) -> Candidate:
    """Q + 0.3 · pair(previous, a), counted from the prior: an unknown pair changes nothing."""
    pair = after.get(candidate.key, PRIOR)
    return Candidate(
        candidate.key,
        candidate.success,
        candidate.cost,
        candidate.service,
        candidate.busy,
        candidate.less - WEIGHT * (pair - PRIOR),
        candidate.rank,
    )


def _has(backend: BackendState) -> bool:
    """Whether one more call is within what this process holds of its limits."""
    requests, tokens, places = backend.limits
    free = backend.left
    return (
        (not requests or free[0] >= 1)
        and (not tokens or free[1] >= min(backend.tokens, tokens))
        and (not places or free[2] >= 1)
    )


def _take(pool: PoolBackends, backend: BackendState) -> None:
    used = pool.usage.used.get(backend.line)
    if used is None:
        used = pool.usage.used[backend.line] = Used()
    used.requests += 1
    used.began += 1
    used.tokens += backend.tokens
    pool.usage.last.append(backend.pk)
    if backend.limited:
        backend.left[:] = [backend.left[0] - 1, backend.left[1] - backend.tokens, backend.left[2] - 1]
    backend.times_taken += 1
    backend.candidate.rank = backend.order * state.ORDER + backend.times_taken


def _why_none(backends: list[BackendState], size: float) -> str:
    if all(backend.context and size > backend.context for backend in backends):
        return TOO_LONG
    if any(backend.open for backend in backends):
        return AT_LIMITS
    return "every backend cools down after failures, or is not healthy"
