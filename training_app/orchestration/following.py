"""What an episode tells, step by step, for whoever waits for it: from this process where it runs here, else from the database."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections

from training_app.models import Episode, Step
from training_app.orchestration import runner
from training_app.orchestration.course import as_json

#: Between two looks at an episode that another process runs.
LOOK_SECONDS = 0.5
#: A stream that has nothing to tell for so long says that it is there: proxies take a minute's silence for the end.
QUIET_SECONDS = 15.0

_threads = ThreadPoolExecutor(2, thread_name_prefix="episode-look")


async def events(key: uuid.UUID) -> AsyncIterator[runner.Event]:
    """Each event, ("chosen" | "step" | "end", what there is to say); "end" is the last, and is always there.

    Of an episode that goes on in another process, steps come as they are stored; "chosen" may be missing.
    """
    loop = asyncio.get_running_loop()
    told: set[tuple[int, int, int]] = set()
    while True:
        here = runner.started()
        if here is not None and here.has(key):
            async for word, value in here.follow(key):
                if word == "step":
                    place = value["turn"], value["path"], value["place"]
                    if place in told:
                        continue
                    told.add(place)
                if word != "gone":
                    yield word, value
                if word == "end":
                    return
        steps, ended = await loop.run_in_executor(_threads, _look, key)
        for place, step in steps:
            if place not in told:
                told.add(place)
                yield "step", step
        if ended is not None:
            yield "end", ended
            return
        await asyncio.sleep(LOOK_SECONDS)


async def with_signs_of_life(
    events: AsyncIterator[runner.Event], seconds: float = QUIET_SECONDS
) -> AsyncIterator[runner.Event | None]:
    """The events, and None wherever none came for so many seconds."""
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            done, _waiting = await asyncio.wait({coming}, timeout=seconds)
            if not done:
                yield None
                continue
            event = coming.result()
            if event is None:
                return
            yield event
            coming = asyncio.ensure_future(anext(events, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await events.aclose()  # type: ignore[attr-defined]


async def end(key: uuid.UUID) -> dict[str, Any]:
    """How the episode ended, once it has."""
    here = runner.started()
    if here is not None and (ended := await here.end_of(key)) is not None:
        return ended
    async for word, value in events(key):
        if word == "end":
            return value
    raise AssertionError("an episode's events end with its end")


def _look(key: uuid.UUID) -> tuple[list[tuple[tuple[int, int, int], dict[str, Any]]], dict[str, Any] | None]:
    close_old_connections()
    episode = Episode.objects.select_related("pool").get(pk=key)
    names = dict(episode.pool.agents.values_list("number", "name"))
    rows = episode.trajectory.exclude(status=Step.Status.RUNNING).filter(call__isnull=False)
    steps = [((row.turn, row.path, row.place), as_json(row, names)) for row in rows]
    return steps, runner.answer(episode) if episode.ended else None
