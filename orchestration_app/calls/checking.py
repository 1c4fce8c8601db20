"""Checking agents outside of any episode: one call of one executor, with everything that went over the wire, secrets masked; or
readiness, every agent of a pool called once, at the same time, with a task that asks for nothing."""

import asyncio
import uuid
from dataclasses import dataclass, replace

from django.db import transaction

from agents_app import audit, llm, sealing
from agents_app.models import Pool, Stamp
from agents_app.outbound.async_client import Client
from orchestration_app.calls import calling
from orchestration_app.calls.parts import AgentCall, Failure, Outcome, Reply, Spec, spec_of
from orchestration_app.calls.wire import Seen, Wire
from orchestration_app.models import Executor, ExecutorCheck

TASK = "This is a check whether you can be reached. Please answer with one short sentence, and do nothing else."
AT_ONCE = 20
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


def try_once(executor: Executor, task: str, key: str) -> Trial:
    """Call the agent once, outside of any episode and of its limits. Raises nothing."""
    try:
        secret = sealing.opened(executor.secret)
    except sealing.CannotOpen as error:
        return Trial(Failure("refused", str(error)), [])
    spec = spec_of(executor, secret, llm.in_use())
    spec = replace(spec, retries=0, seconds=min(spec.seconds, MOST_SECONDS))
    exchanges: list[Seen] = []
    call = AgentCall(key, task, ({"role": "user", "content": task},))

    async def attempt() -> Outcome:
        client = Client()
        try:
            return await calling.call(spec, call, Wire(client, exchanges), calling.Anywhere(), calling.Purse())
        finally:
            await client.close()

    return Trial(asyncio.run(attempt()), exchanges)


def check(pool: Pool, *, actor: audit.Who = None) -> tuple[int, int]:
    """Call every agent that may be called, and keep what came of it; how many are ready, and how many are not."""
    executors = list(
        Executor.objects.filter(agent__in=pool.agents.routable(), active=True).select_related("agent", "agent__pool")
    )
    specs: list[Spec | Failure] = []
    connection = llm.in_use()
    for executor in executors:
        try:
            specs.append(spec_of(executor, sealing.opened(executor.secret), connection))
        except sealing.CannotOpen as error:
            specs.append(Failure("refused", str(error)))
    outcomes = asyncio.run(_all(specs))
    with transaction.atomic():
        for executor, outcome in zip(executors, outcomes, strict=True):
            values = {
                "failure": outcome.kind if isinstance(outcome, Failure) else "",
                "why": outcome.why[:400] if isinstance(outcome, Failure) else "", "seconds": outcome.latency,
            }  # fmt: skip
            ExecutorCheck.objects.update_or_create(executor=executor, defaults=values)
        bad = sum(isinstance(outcome, Failure) for outcome in outcomes)
        detail = {"ready": len(outcomes) - bad, "not_ready": bad}
        audit.record("pool.checked", actor=actor, target=str(pool), pool=pool, detail=detail)
        Stamp.bump()
    return len(outcomes) - bad, bad


async def _all(specs: list[Spec | Failure]) -> list[Outcome]:
    client, places = Client(), asyncio.Semaphore(AT_ONCE)

    async def check(spec: Spec | Failure) -> Outcome:
        if isinstance(spec, Failure):
            return spec
        spec = replace(spec, retries=0, seconds=min(spec.seconds, MOST_SECONDS))
        call = AgentCall(f"check-{uuid.uuid4().hex}", TASK, ({"role": "user", "content": TASK},))
        async with places:
            result = await calling.call(spec, call, Wire(client), calling.Anywhere(), calling.Purse())
        # Whatever it says, a question too, it can be reached; an answer without words is none.
        if isinstance(result, Reply) and not result.content.strip():
            return Failure("malformed", "it answered without a word", latency=result.latency)
        return result

    try:
        return list(await asyncio.gather(*map(check, specs)))
    finally:
        await client.close()
