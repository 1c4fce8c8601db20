"""Calls that wait for a place: stored as queued, so that a process that dies meanwhile leaves no doubt that nobody was called."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from orchestration_app.calls.calling import Places
from orchestration_app.calls.parts import Spec
from orchestration_app.models import Step

#: A call that gets its place sooner is not stored once more: each call would wait for the database twice.
STORED_AFTER_SECONDS = 0.25


@dataclass(slots=True)
class StoredPlaces:
    """The places of one call's attempts. `store` keeps the call's state; what it raises, `take` raises, and the place is given back.

    Only the first attempt can be queued: before a later one, the agent may have worked already. `queued`: it is stored so now.
    """

    places: Places
    store: Callable[[Step.Status], Awaitable[None]]
    queued: bool = False
    begun: bool = False

    async def take(self, spec: Spec) -> bool:
        """Wait for a place; False where none became free in time. Once it returns True, the call is stored as running."""
        if self.begun:
            return await self.places.take(spec)
        taking = asyncio.ensure_future(self.places.take(spec))
        try:
            done, _pending = await asyncio.wait({taking}, timeout=STORED_AFTER_SECONDS)
            if not done and not self.queued:
                self.queued = True
                await self.store(Step.Status.QUEUED)
            self.begun = await taking
            if self.begun and self.queued:
                self.queued = False
                await self.store(Step.Status.RUNNING)
        except BaseException:
            if taking.done() and not taking.cancelled() and taking.exception() is None and taking.result():
                self.places.leave(spec)
            taking.cancel()
            raise
        return self.begun

    def leave(self, spec: Spec) -> None:
        """Give the place back."""
        self.places.leave(spec)
