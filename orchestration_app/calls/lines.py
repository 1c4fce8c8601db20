"""The backends of an agent in its executor's calls: which one takes it now, who is next where it failed, and what each was paid.

An agent whose executor is a chat and that has backends is called at their addresses, with their models, secrets and prices; all else
is the executor's. The choice is the one of every route (`backends.choosing`): limits, cool-down, budget of the day, preference.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from agents_app.models import Pool
from orchestration_app.backends import calls as backend_calls
from orchestration_app.backends import choosing
from orchestration_app.backends.calls import Line
from orchestration_app.backends.choosing import Assignment
from orchestration_app.calls.asking import Prepared
from orchestration_app.calls.ledger import DatabaseThread
from orchestration_app.calls.parts import CallFailed, Reply, Spec
from orchestration_app.engine.backends.choosing import Preference

#: A call waits for a backend's limits no longer than that, and looks again so often.
WAIT_SECONDS, LOOK_SECONDS = 60.0, 0.25


@dataclass(frozen=True, slots=True)
class Ways:
    """One agent's executor at each of its backends, by the backend's id."""

    pool: int
    agent: int
    specs: Mapping[int, Spec]
    lines: Mapping[int, Line]


def of_pool(pool: int, specs: Mapping[int, Spec]) -> dict[int, Ways]:
    """The ways of every agent that has a chat executor and backends with an address, by the agent's id."""
    by_agent = {}
    for agent, lines in backend_calls.lines(pool).items():
        spec = specs.get(agent)
        if spec is None or not spec.is_language_model:
            continue
        usable = {key: line for key, line in lines.items() if line.address or spec.address}
        if usable:
            by_agent[agent] = Ways(pool, agent, {key: _spec(spec, line) for key, line in usable.items()}, usable)
    return by_agent


def _spec(spec: Spec, line: Line) -> Spec:
    """The executor's spec at a backend: a provider without an address is the executor's own server. Without prices it is free."""
    changed = replace(spec, model=line.model, price_in=line.price_in, price_out=line.price_out, most_cost=0.0)
    return replace(changed, address=line.address, secret=line.secret) if line.address else changed


@dataclass(slots=True)
class Taking:
    """The backends of one call. `before` is the backend that answered last on the same path; `preference` weights, None for the
    pool's. `metadata` tells of the backend that was taken last: it is part of the call's metadata."""

    ways: Ways
    ledger: DatabaseThread
    key: str
    text: str
    preference: Mapping[str, float] | None = None
    before: int | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    _left: set[int] = field(default_factory=set)
    _line: Line | None = None
    _call: uuid.UUID = field(default_factory=uuid.uuid4)
    _attempts: int = 0
    _began: float = 0.0
    _failed: list[str] = field(default_factory=list)

    async def take(self, prepared: Prepared, budget: float | None) -> tuple[Spec, Prepared]:
        """The backend for the next attempt, among those whose worst case is within what is left of the budget. Raises CallFailed."""
        if not self._left:
            self._left = set(self.ways.specs)
        each = {key: prepared.at_prices_of(self.ways.specs[key]) for key in self._left}
        paid = {key for key, line in each.items() if budget is None or line.worst <= budget + 1e-12}
        if not paid:
            least = min(line.worst for line in each.values())
            raise CallFailed("budget", f"the worst case of {least:g} does not fit what is left of the budget")
        assignment = await self._given(paid)
        assert assignment.backend is not None
        key = assignment.backend.pk
        self._line = self.ways.lines[key].assigned(assignment)
        self._left.discard(key)
        self._attempts += 1
        # The same attempt of a call that is made again after a process died is reported once.
        self._call = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.key}/{self._attempts}")
        self._began = time.monotonic()
        self.metadata = {
            "backend": {"id": key, "name": assignment.backend.name, "why": assignment.why, "call": str(self._call)}
        }
        if self._failed:
            self.metadata["failed_over"] = list(self._failed)
        return self.ways.specs[key], each[key]

    async def _given(self, paid: set[int]) -> Assignment:
        until = time.monotonic() + WAIT_SECONDS
        while True:
            assignment = await self._assigned(paid)
            if assignment.backend is not None:
                return assignment
            if assignment.why != choosing.AT_LIMITS or time.monotonic() > until:
                raise CallFailed("budget" if assignment.why == choosing.SPENT else "busy", assignment.why)
            await asyncio.sleep(LOOK_SECONDS)

    async def _assigned(self, paid: set[int]) -> Assignment:
        wanted = None if self.preference is None else Preference(**self.preference)

        def assign() -> Assignment:
            assignments = choosing.assign(
                self.ways.pool, self.text, [self.ways.agent], wanted, only=paid, previous=self.before
            )
            # A backend that this process has not heard of yet, or not any more.
            return (
                assignments[0]
                if assignments
                else Assignment(self.ways.agent, None, why="its backends have just changed")
            )

        # Without background threads limits are settled within the call, which is for the thread that has the database.
        return assign() if settings.BACKGROUND_THREADS else await self.ledger.run(assign)

    # --- What came of it ----------------------------------------------------------------------------------------------

    def answered(self, reply: Reply) -> None:
        """The attempt was answered."""
        into, out = (int(reply.metadata.get(name, 0)) for name in ("tokens_in", "tokens_out"))
        self._report(tokens_in=into, tokens_out=out, cost=reply.cost, latency=self._milliseconds)

    def failed(self, cost: float) -> bool:
        """The attempt failed and may have cost so much; whether there is another backend that this call has not tried."""
        if self._line is not None:
            self._failed.append(f"{self._line.provider}/{self._line.model}")
        self._report(cost=cost, latency=self._milliseconds, failed=True)
        return bool(self._left)

    def broke_off(self, cost: float) -> None:
        """The episode ended within the attempt: no fault of the backend's."""
        self._report(cost=cost)

    def give_back(self) -> None:
        """The attempt was not made."""
        if self._line is not None:
            choosing.give_back(self.ways.pool, self._line.backend)

    @property
    def _milliseconds(self) -> float:
        return (time.monotonic() - self._began) * 1000

    def _report(self, **what: Any) -> None:
        if self._line is None:
            return
        part, call, pool = self._line.served(self.ways.agent, **what), self._call, self.ways.pool
        work: Callable[[], None] = lambda: backend_calls.report(Pool.objects.get(pk=pool), call, part)  # noqa: E731
        self.ledger.soon(work)
