"""One call of an agent from beginning to end: a place within its limits, its worst case within the budget, attempts, an outcome.

Nothing is raised: a call ends as a Reply, or as a Failure that says why. A failed attempt is made again, with a wait that doubles,
where nobody can have worked on it, or where the executor may be called again (`repeatable`): always under the same Idempotency-Key.
"""

import asyncio
import random
import time
from dataclasses import dataclass
from typing import Protocol

from django.conf import settings

from orchestration_app.episodes import asking
from orchestration_app.episodes.calls import UNDONE, UNSURE, Ask, CallFailed, Failure, Outcome, Reply, Spec
from orchestration_app.episodes.lines import Taking
from orchestration_app.episodes.wire import Wire
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
    spec: Spec | None, asked: Ask, wire: Wire, places: Places, purse: Purse, backends: Taking | None = None
) -> Outcome:
    """Call the agent and wait for what comes of it. Where it has `backends`, each attempt goes to the one that is chosen now; one that
    failed is left out until all have."""
    if spec is None or not settings.TRACES:
        return await _call(spec, asked, wire, places, purse, backends)
    remote = spec.kind == Executor.Kind.WEBHOOK
    with tracing.agent(
        spec.name, spec.agent, spec.address, spec.model, remote=remote, episode=asked.episode, step=asked.step
    ) as told:
        outcome = await _call(spec, asked, wire, places, purse, backends)
        told.set(routerweb__cost=outcome.cost, routerweb__attempts=outcome.attempts)
        if isinstance(outcome, Failure):
            told.failed(outcome.kind)
        else:
            tokens_in, tokens_out = (outcome.metadata.get(name) for name in ("tokens_in", "tokens_out"))
            if isinstance(tokens_in, int) and isinstance(tokens_out, int):
                told.usage(tokens_in, tokens_out)
            told.said(asked.messages or [{"role": "user", "content": asked.task}], outcome.content)
        return outcome


async def _call(
    spec: Spec | None, asked: Ask, wire: Wire, places: Places, purse: Purse, backends: Taking | None
) -> Outcome:
    started = time.monotonic()
    if spec is None:
        return Failure("no_executor", "This agent has no executor that is active.")
    try:
        prepared = await asking.prepare(spec, asked)
    except CallFailed as failed:
        return Failure(failed.kind, str(failed))
    spent, attempts, wait = 0.0, 0, FIRST_WAIT
    problem = CallFailed("budget", f"the worst case of {prepared.worst:g} does not fit what is left of the budget")
    told: dict[str, object] = {}
    while True:
        if backends is not None:
            try:
                spec, prepared = await backends.take(prepared, purse.left)
            except CallFailed as failed:
                problem = problem if attempts else failed
                return Failure(problem.kind, str(problem), spent, time.monotonic() - started, attempts, told)
            told = backends.told
        if not purse.hold(prepared.worst):  # at a second attempt: what came of the first
            return Failure(problem.kind, str(problem), spent, time.monotonic() - started, attempts)
        if not await places.take(spec):
            purse.settle(prepared.worst, 0.0)
            if backends is not None:
                backends.give_back()
            why = "no place within the limits of the agent and its provider became free in time"
            return Failure("busy", why, spent, time.monotonic() - started, attempts)
        attempts += 1
        try:
            reply = await asking.ask(spec, asked, prepared, wire)
        except CallFailed as failed:
            # Whoever may have worked on it may have charged for it.
            cost = prepared.worst if failed.kind in UNSURE or failed.kind in ("malformed", "too_large") else 0.0
            problem = failed
        except Exception as error:  # no fault of an executor ends an episode
            cost, problem = prepared.worst, CallFailed("failed", f"{type(error).__name__}: {error}"[:300])
        except BaseException:
            purse.settle(prepared.worst, prepared.worst)
            if backends is not None:
                backends.broke_off(prepared.worst)
            raise
        else:
            purse.settle(prepared.worst, reply.cost)
            if backends is not None:
                backends.answered(reply)
            metadata = {**reply.metadata, **told} if told else reply.metadata
            latency = time.monotonic() - started
            return Reply(reply.content, spent + reply.cost, reply.tokens, latency, metadata, attempts)
        finally:
            places.leave(spec)
        purse.settle(prepared.worst, cost)
        spent += cost
        if backends is not None and backends.failed(cost):
            continue  # with the next one, at once
        again = problem.kind in UNDONE or (problem.kind in UNSURE and spec.repeatable)
        if not again or attempts > spec.retries:
            return Failure(problem.kind, str(problem), spent, time.monotonic() - started, attempts, told)
        # Full jitter, so that many calls refused at once do not come back at once.
        rest = wait * (0.5 + random.random() / 2) if problem.again is None else problem.again  # noqa: S311
        await asyncio.sleep(min(rest, LONGEST_WAIT))
        wait *= 2
