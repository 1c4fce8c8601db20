"""Trying an executor: one call, and everything that went over the wire for it, secrets masked."""

import asyncio
from dataclasses import dataclass, replace

from agents_app import sealing
from agents_app.outbound.async_client import Client
from orchestration_app.episodes import calling
from orchestration_app.episodes.calls import Ask, Failure, Outcome, spec_of
from orchestration_app.episodes.wire import Seen, Wire
from orchestration_app.models import Executor

#: A page waits for it, so it is given less time than an episode's call.
MOST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it; `seen` are the attempts that went out."""

    outcome: Outcome
    seen: list[Seen]

    @property
    def failed(self) -> bool:
        """Whether there was no reply."""
        return isinstance(self.outcome, Failure)


def run(executor: Executor, task: str, key: str) -> Trial:
    """Call the agent once, outside of any episode and of its limits. Raises nothing."""
    try:
        secret = sealing.opened(executor.secret)
    except sealing.CannotOpen as error:
        return Trial(Failure("refused", str(error)), [])
    spec = spec_of(executor, secret)
    spec = replace(spec, retries=0, seconds=min(spec.seconds, MOST_SECONDS))
    seen: list[Seen] = []
    asked = Ask(key, task, ({"role": "user", "content": task},))

    async def attempt() -> Outcome:
        client = Client()
        try:
            return await calling.call(spec, asked, Wire(client, seen), calling.Anywhere(), calling.Purse())
        finally:
            await client.close()

    return Trial(asyncio.run(attempt()), seen)
