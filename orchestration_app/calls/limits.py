"""Calls at once and calls a minute, for each agent and each provider, over all processes (`agents_app.background_work.leases`).

The database says who holds which places (`CallPlaces`). A process takes places when its calls wait for them, uses them again for its
next calls, and gives back what it has not needed since the last settlement, at once where another waits. Calls a minute come back
evenly, and never more than a minute's worth is there. What has no limit never asks the database.
"""

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import transaction

from agents_app.background_work import leases
from agents_app.background_work.leases import Parties
from orchestration_app.calls.ledger import DatabaseThread
from orchestration_app.calls.parts import Spec
from orchestration_app.models import CallPlaces

log = logging.getLogger(__name__)

#: Between two settlements: while calls wait, and while none does.
SOON_SECONDS, LATER_SECONDS = 0.05, 1.0
#: A call waits for a place no longer than that.
WAIT_SECONDS = 60.0


class Limit(NamedTuple):
    """At most so many calls at once, and a minute; 0 is no limit."""

    at_once: int
    per_minute: int


class Wish(NamedTuple):
    """What a process needs of one key: the places that it holds, how many calls wait, and calls of the minute it gives back."""

    limit: Limit
    held: int
    waiting: int
    unused: float


class Grant(NamedTuple):
    """What it has of it until the next settlement: places beside those that it holds, and calls of the minute. `others_wait`: there is
    another process whose calls wait."""

    places: int
    calls: float
    others_wait: bool = False


def of(spec: Spec) -> dict[str, Limit]:
    """The limits that a call of that executor keeps to, by what they are kept under."""
    limits = {}
    if spec.at_once or spec.per_minute:
        limits[f"agent:{spec.pk}"] = Limit(spec.at_once, spec.per_minute)
    if spec.provider:
        usual = settings.PROVIDER_AT_ONCE, settings.PROVIDER_CALLS_PER_MINUTE
        limit = Limit(*settings.PROVIDER_LIMITS.get(spec.provider, usual))
        if any(limit):
            limits[f"provider:{spec.provider}"[:300]] = limit
    return limits


@dataclass(slots=True)
class _Held:
    """What this process has of one key: `busy` calls under way, `places` and `calls` free for the next ones; the most that were `busy`
    at once since the last settlement, and whether another process waited then."""

    limit: Limit
    busy: int = 0
    places: int = 0
    calls: float = 0.0
    busiest: int = 0
    others_wait: bool = False

    def give_up_spare(self) -> None:
        """Keep as many places as were in use lately: the next calls find them free. None where another process waits."""
        self.places = 0 if self.others_wait else min(self.places, max(self.busiest - self.busy, 0))
        self.busiest = self.busy


class Limits:
    """The places of one process, for its event loop."""

    def __init__(self, ledger: DatabaseThread) -> None:
        self._ledger = ledger
        self._name = uuid.uuid4().hex[:12]
        self._held: dict[str, _Held] = {}
        self._waiting: deque[tuple[dict[str, Limit], asyncio.Future[bool]]] = deque()
        self._awake = asyncio.Event()

    async def take(self, spec: Spec) -> bool:
        """Wait for a place; False where none became free within WAIT_SECONDS."""
        wanted = of(spec)
        if not wanted or (not self._waiting and self._taken(wanted)):
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, future))
        self._awake.set()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await future
        except TimeoutError:
            return False

    def leave(self, spec: Spec) -> None:
        """The call is over; its place is this process's for the next one."""
        for key in of(spec):
            held = self._held.get(key)
            if held is not None:
                held.busy, held.places = max(held.busy - 1, 0), held.places + 1
        self._serve()

    async def settle_for_ever(self) -> None:
        """The task that takes places, gives them back, and says that this process is alive."""
        while True:
            rest = SOON_SECONDS if self._waiting else LATER_SECONDS
            try:
                async with asyncio.timeout(rest if self._held or self._waiting else None):
                    await self._awake.wait()
            except TimeoutError:
                pass
            self._awake.clear()
            try:
                await self.settle()
            except DatabaseFault as error:
                log.warning("Places for calls cannot be settled, the next ones wait: %s", error)
                await asyncio.sleep(LATER_SECONDS)
            if self._waiting:
                await asyncio.sleep(SOON_SECONDS)

    async def settle(self) -> None:
        """Once."""
        self._forget_cancelled()
        for held in self._held.values():
            held.give_up_spare()
        wishes = self._wishes()
        if not wishes:
            return
        for held in self._held.values():
            held.calls = 0.0
        # Meanwhile calls begin and end within the places that the database is told of.
        grants = await self._ledger.run(lambda: settle(self._name, wishes))
        for key, grant in grants.items():
            held = self._held.setdefault(key, _Held(wishes[key].limit))
            held.places += grant.places
            held.calls += grant.calls
            held.others_wait = grant.others_wait
        self._serve()
        for key, wish in wishes.items():
            if not wish.held and not wish.waiting and not self._held[key].busy:
                del self._held[key]

    def _wishes(self) -> dict[str, Wish]:
        waiting: dict[str, int] = {}
        limits: dict[str, Limit] = {key: held.limit for key, held in self._held.items()}
        for wanted, _future in self._waiting:
            for key, limit in wanted.items():
                waiting[key] = waiting.get(key, 0) + 1
                limits[key] = limit
        none = _Held(Limit(0, 0))
        return {
            key: Wish(limit, (held := self._held.get(key, none)).busy + held.places, waiting.get(key, 0), held.calls)
            for key, limit in limits.items()
        }

    def _forget_cancelled(self) -> None:
        self._waiting = deque(wait for wait in self._waiting if not wait[1].done())

    def _serve(self) -> None:
        """Give what is free to the calls that wait, in their order; one whose agent is full lets others pass."""
        if not self._waiting:
            return
        waiting: deque[tuple[dict[str, Limit], asyncio.Future[bool]]] = deque()
        for wanted, future in self._waiting:
            if future.done():
                continue
            if self._taken(wanted):
                future.set_result(True)
            else:
                waiting.append((wanted, future))
        self._waiting = waiting
        if waiting:
            self._awake.set()

    def _taken(self, wanted: Mapping[str, Limit]) -> bool:
        """Whether all of it was free, and is taken now."""
        held = []
        for key, limit in wanted.items():
            room = self._held.get(key)
            if room is None or (limit.at_once and room.places < 1) or (limit.per_minute and room.calls < 1):
                return False
            held.append(room)
        for room in held:
            room.busy += 1
            room.busiest = max(room.busiest, room.busy)
            room.places = max(room.places - 1, 0)
            room.calls -= 1 if room.limit.per_minute else 0
        return True


# --- In the database ------------------------------------------------------------------------------------------------


def settle(name: str, wishes: Mapping[str, Wish]) -> dict[str, Grant]:
    """Settle a process's places with the others'. Raises django.db.Error."""
    grants = {}
    with transaction.atomic():
        for key in sorted(wishes):  # in one order, so that two processes cannot hold each other up
            with leases.settling(CallPlaces, {"key": key}) as (row, at):
                grants[key] = _settle(row, Parties.of(row.held, name, at), wishes[key])
    return grants


def _settle(row: CallPlaces, parties: Parties, wish: Wish) -> Grant:
    seconds, row.at = max(parties.at - row.at, 0.0), parties.at
    others = parties.others.values()
    wanting = sum(1 for process in others if process["waiting"])
    places, calls = wish.waiting, 0.0
    if wish.limit.at_once:
        room = max(wish.limit.at_once - sum(process["calls"] for process in others) - wish.held, 0)
        # Where others wait too, nobody takes the whole room.
        places = min(wish.waiting, -(-room // (wanting + 1)) if wanting else room)
    if wish.limit.per_minute:
        per_minute = float(wish.limit.per_minute)
        free = per_minute if row.free is None else min(row.free + wish.unused + per_minute * seconds / 60.0, per_minute)
        calls = float(min(int(free), wish.waiting))
        row.free = free - calls
    share = {"calls": wish.held + places, "waiting": wish.waiting - places}
    row.held = parties.holding(row.held, share if wish.held or places or wish.waiting else None)
    return Grant(places, calls, bool(wanting))
