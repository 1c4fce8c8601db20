"""One call of an agent from beginning to end: a place within its limits, its worst case within the budget, attempts, an outcome.

Nothing is raised: a call ends as a Reply, or as a Failure that says why. A failed attempt is made again, with a wait that doubles,
where nobody can have worked on it, or where the executor may be called again (`repeatable`): always under the same Idempotency-Key.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from django.conf import settings

from orchestration_app.calls import asking
from orchestration_app.calls.lines import Taking
from orchestration_app.calls.parts import UNDONE, UNSURE, AgentCall, CallFailed, Failure, Outcome, Reply, Spec
from orchestration_app.calls.wire import Wire
from orchestration_app.models import Executor
from routerweb.observing import tracing

#: The first wait between two attempts, in seconds; each is twice the one before, and at most the second figure.
FIRST_WAIT, LONGEST_WAIT = 0.2, 20.0


class Places(Protocol):
    """Who may be called at once, over all processes."""

    async def take(self, spec: Spec) -> bool:
        """Wait for a place; False where none became free in time."""

    def leave(self, spec: Spec) -> None:
        """Give the place back."""


class Anywhere:
    """No limits: for trying an executor."""

    async def take(self, spec: Spec) -> bool:
        """There is a place."""
        return True

    def leave(self, spec: Spec) -> None:
        """Nothing to give back."""


@dataclass(slots=True)
class Purse:
    """What an episode may still spend: `left` is None without a budget. What is held for calls under way is out of it."""

    left: float | None = None

    def hold(self, amount: float) -> bool:
        """Take the amount out, where it is there."""
        if self.left is None:
            return True
        # A hair's breadth for the sum of many floats.
        if amount > self.left + 1e-12:
            return False
        self.left -= amount
        return True

    def settle(self, held: float, spent: float) -> None:
        """Put back what was held and not spent."""
        if self.left is not None:
            self.left += held - spent


async def call(
    spec: Spec | None, call: AgentCall, wire: Wire, places: Places, purse: Purse, backends: Taking | None = None
) -> Outcome:
    """Call the agent and wait for what comes of it. Where it has `backends`, each attempt goes to the one that is chosen now; one that
    failed is left out until all have."""
    if spec is None or not settings.TRACES:
        return await _call(spec, call, wire, places, purse, backends)
    remote = spec.kind in (Executor.Kind.WEBHOOK, Executor.Kind.A2A, Executor.Kind.HTTP)
    with tracing.agent(
        spec.name, spec.agent, spec.address, spec.model, remote=remote, episode=call.episode, step=call.step
    ) as span:
        outcome = await _call(spec, call, wire, places, purse, backends)
        span.set(routerweb__cost=outcome.cost, routerweb__attempts=outcome.attempts)
        if isinstance(outcome, Failure):
            span.failed(outcome.kind)
        else:
            tokens_in, tokens_out = (outcome.metadata.get(name) for name in ("tokens_in", "tokens_out"))
            if isinstance(tokens_in, int) and isinstance(tokens_out, int):
                span.usage(tokens_in, tokens_out)
            span.record_texts(call.messages or [{"role": "user", "content": call.task}], outcome.content)
        return outcome


async def _call(
    spec: Spec | None, call: AgentCall, wire: Wire, places: Places, purse: Purse, backends: Taking | None
) -> Outcome:
    started = time.monotonic()
    if spec is None:
        return Failure("no_executor", "This agent has no executor that is active.")
    try:
        prepared = await asking.prepare(spec, call, wire)
    except CallFailed as failed:
        return Failure(failed.kind, str(failed))
    attempts = _Attempts(spec, prepared, call, wire, places, purse, backends, started)
    wait = FIRST_WAIT
    while True:
        outcome = await attempts.make()
        if outcome is not None:
            return outcome
        if backends is not None and backends.failed(attempts.cost):
            continue  # with the next one, at once
        problem = attempts.problem
        if not may_repeat(problem, attempts.spec) or attempts.count > attempts.spec.retries:
            return attempts.failure(problem, attempts.backend)
        await asyncio.sleep(rest(problem, wait))
        wait *= 2


def may_repeat(problem: CallFailed, spec: Spec) -> bool:
    """Whether a failed attempt may be made again, as long as there are retries; not where who was called says to come back after
    LONGEST_WAIT."""
    if problem.again is not None and problem.again > LONGEST_WAIT:
        return False
    return problem.kind in UNDONE or (problem.kind in UNSURE and spec.repeatable)


def rest(problem: CallFailed, wait: float) -> float:
    """Seconds until the next attempt: `wait` with jitter, so that many calls refused at once do not come back at once, or what was
    asked for."""
    seconds = wait * (0.5 + random.random() / 2) if problem.again is None else problem.again  # noqa: S311
    return min(seconds, LONGEST_WAIT)


def cost_of(problem: CallFailed, worst: float) -> float:
    """What a failed attempt counts as: whoever may have worked on it may have charged for it."""
    return worst if problem.kind in UNSURE or problem.kind in ("malformed", "too_large") else 0.0


@dataclass(slots=True)
class _Attempts:
    """The attempts of one call. `spent` is what all of them cost, `cost` the last failed one, `problem` why that one failed, `backend`
    which one it went to. `started` is on the monotonic clock."""

    spec: Spec
    prepared: asking.Prepared
    call: AgentCall
    wire: Wire
    places: Places
    purse: Purse
    backends: Taking | None
    started: float
    count: int = 0
    spent: float = 0.0
    cost: float = 0.0
    problem: CallFailed = field(init=False)
    backend: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.problem = self._unaffordable()

    def _unaffordable(self) -> CallFailed:
        why = f"the worst case of {self.prepared.worst:g} does not fit what is left of the budget"
        return CallFailed("budget", why if self.purse.left is None else f"{why}, {self.purse.left:g}")

    def failure(self, problem: CallFailed, metadata: Mapping[str, object] | None = None) -> Failure:
        """The call's end without an answer."""
        latency = time.monotonic() - self.started
        return Failure(problem.kind, str(problem), self.spent, latency, self.count, metadata or {})

    async def make(self) -> Outcome | None:
        """One attempt: the call's outcome where it ends here, None where the agent failed."""
        if self.backends is not None:
            try:
                self.spec, self.prepared = await self.backends.take(self.prepared, self.purse.left)
            except CallFailed as failed:
                return self.failure(self.problem if self.count else failed, self.backend)
            self.backend = self.backends.metadata
        if not self.purse.hold(self.prepared.worst):  # at a second attempt: what came of the first
            return self.failure(self._unaffordable() if not self.count else self.problem)
        if not await self.places.take(self.spec):
            self.purse.settle(self.prepared.worst, 0.0)
            if self.backends is not None:
                self.backends.give_back()
            why = "no place within the limits of the agent and its provider became free in time"
            return self.failure(CallFailed("busy", why))
        self.count += 1
        return await self._ask()

    async def _ask(self) -> Reply | None:
        """Ask the agent, with its place taken and its worst case held; None where it failed."""
        worst = self.prepared.worst
        try:
            reply = await asking.ask(self.spec, self.call, self.prepared, self.wire)
        except CallFailed as failed:
            self.cost, self.problem = cost_of(failed, worst), failed
        except Exception as error:  # no fault of an executor ends an episode
            self.cost, self.problem = worst, CallFailed("failed", f"{type(error).__name__}: {error}"[:300])
        except BaseException:
            self.purse.settle(worst, worst)
            if self.backends is not None:
                self.backends.broke_off(worst)
            raise
        else:
            self.purse.settle(worst, reply.cost)
            if self.backends is not None:
                self.backends.answered(reply)
            metadata = {**reply.metadata, **self.backend} if self.backend else reply.metadata
            latency = time.monotonic() - self.started
            return replace(reply, cost=self.spent + reply.cost, latency=latency, metadata=metadata, attempts=self.count)
        finally:
            self.places.leave(self.spec)
        self.purse.settle(worst, self.cost)
        self.spent += self.cost
        return None
