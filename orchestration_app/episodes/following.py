"""What becomes of an episode, step by step, for whoever waits for it: read from the database, whichever process runs it.

However many wait in this process, one thread looks for all of them, with two queries every LOOK_SECONDS; nobody holds a thread.
"""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db import close_old_connections
from django.db.models import Count, Q

from orchestration_app.episodes import asides, composing, turn_rows
from orchestration_app.episodes.turn_rows import as_json, by_name
from orchestration_app.models import NO_OUTCOME, Episode, Step
from routerweb import state
from routerweb.background import Background

#: Between two looks at episodes that somebody waits for; while nobody does, the thread rests.
LOOK_SECONDS, REST_SECONDS = 0.1, 60.0
#: A stream that has nothing to tell for so long says that it is there: proxies take a minute's silence for the end.
QUIET_SECONDS = 15.0
#: Episodes in these states go on by themselves.
GOES_ON = (Episode.Status.QUEUED, Episode.Status.RUNNING)

Event = tuple[str, dict[str, Any]]
#: An event's word, turn, path and place.
Place = tuple[str, int, int, int]

_threads = ThreadPoolExecutor(2, thread_name_prefix="episode-look")


@dataclass(eq=False, slots=True)
class _Listener:
    """Somebody who waits for an episode's end, or for its steps too; `seen` are the rows of steps as they were, begun and ended."""

    key: uuid.UUID
    steps: bool
    loop: asyncio.AbstractEventLoop
    news: asyncio.Event
    seen: tuple[int, int] = (0, 0)


_listeners: set[_Listener] = set()
state.keep(__name__, "_listeners", "Requests that wait for an episode", "one for each connection")
_lock = threading.Lock()


@contextmanager
def _listening(key: uuid.UUID, *, steps: bool) -> Iterator[asyncio.Event]:
    """An event that is set whenever there is news of the episode."""
    listener = _Listener(key, steps, asyncio.get_running_loop(), asyncio.Event())
    with _lock:
        _listeners.add(listener)
    looking.start()
    looking.wake()
    try:
        yield listener.news
    finally:
        with _lock:
            _listeners.discard(listener)


def _turn() -> float:
    """Wake those for whom there is news."""
    with _lock:
        listeners = list(_listeners)
    if not listeners:
        close_old_connections()
        return REST_SECONDS
    under_way = set(
        Episode.objects.filter(pk__in={listener.key for listener in listeners}, status__in=GOES_ON).values_list(
            "pk", flat=True
        )
    )
    rows = (
        Step.objects.filter(episode__in={listener.key for listener in listeners if listener.steps})
        .order_by()
        .values("episode")
    )
    totals = rows.annotate(begun=Count("pk"), done=Count("pk", filter=~Q(status__in=NO_OUTCOME)))
    counts = {row["episode"]: (row["begun"], row["done"]) for row in totals}
    for listener in listeners:
        counted = counts.get(listener.key, (0, 0))
        if listener.key not in under_way or counted != listener.seen:
            listener.seen = counted
            try:
                listener.loop.call_soon_threadsafe(listener.news.set)
            except RuntimeError:  # the loop ended, and with it who listened
                continue
    return LOOK_SECONDS


def _in_child() -> None:
    global _lock
    _listeners.clear()
    _lock = threading.Lock()


looking = Background("episode-follower", _turn, in_child=_in_child, always=True)


async def events(key: uuid.UUID) -> AsyncIterator[Event]:
    """Each event, ("chosen" | "step" | "waiting" | "end", what there is to say), from the beginning. The last one, which is always
    there, is "end", or "waiting" where the episode waits for a person."""
    sent: set[Place] = set()
    with _listening(key, steps=True) as news:
        while True:
            news.clear()
            happened, ended = await asyncio.get_running_loop().run_in_executor(_threads, _look, key)
            for place, value in happened:
                if place not in sent:
                    sent.add(place)
                    yield place[0], value
            if ended is not None:
                yield "waiting" if ended["status"] == Episode.Status.WAITING else "end", ended
                return
            await news.wait()


async def with_signs_of_life(
    events: AsyncIterator[Event], seconds: float = QUIET_SECONDS
) -> AsyncIterator[Event | None]:
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


async def end(key: uuid.UUID, described: Callable[[Episode], dict[str, Any]] | None = None) -> dict[str, Any]:
    """How the episode ended, once it has; or what it waits for, once it waits for a person: by `described`, else by `whole`."""
    with _listening(key, steps=False) as news:
        while True:
            news.clear()
            ended = await asyncio.get_running_loop().run_in_executor(_threads, _end, key, described or whole)
            if ended is not None:
                return ended
            await news.wait()


def _end(key: uuid.UUID, described: Callable[[Episode], dict[str, Any]]) -> dict[str, Any] | None:
    close_old_connections()
    episode = Episode.objects.select_related("pool").get(pk=key)
    return described(episode) if episode.status not in GOES_ON else None


def _look(key: uuid.UUID) -> tuple[list[tuple[Place, dict[str, Any]]], dict[str, Any] | None]:
    """All that has happened so far, each with its name, and how the episode ended."""
    close_old_connections()
    episode = Episode.objects.select_related("pool").get(pk=key)
    names = dict(episode.pool.agents.values_list("number", "name"))
    rows = list(episode.trajectory.filter(call__isnull=False).order_by("turn", "path", "place"))
    happened: list[tuple[Place, dict[str, Any]]] = []
    for turn, of_turn in groupby(rows, key=lambda row: row.turn):
        calls = list(of_turn)
        for path, of_path in groupby((row for row in calls if row.aim == "answer"), key=lambda row: row.path):
            happened.append((("chosen", turn, path, 0), _chosen(list(of_path), names)))
        done = [row for row in calls if row.status in turn_rows.ENDED]
        happened += [(("step", row.turn, row.path, row.place), as_json(row, names)) for row in done]
    return happened, whole(episode) if episode.status not in GOES_ON else None


def _chosen(rows: list[Step], names: dict[int, str]) -> dict[str, Any]:
    """Whom a path calls in a turn."""
    first, agents = rows[0], [row.agent for row in rows if row.agent is not None]
    return {
        "path": first.path, "step": first.number, "agents": agents, "names": [names.get(agent, str(agent)) for agent in agents],
        "probabilities": by_name(first.candidates, first.probabilities),
    }  # fmt: skip


def answer(episode: Episode) -> dict[str, Any]:
    """What is answered about an episode."""
    return {
        "episode_id": str(episode.pk),
        "status": episode.status,
        "answer": episode.answer if episode.answered else None,
        "composed": episode.composed,
        "missing": episode.missing,
        "questions": questions(episode),
        "stop_reason": episode.stop_reason,
        "error": episode.error,
        "steps": episode.steps,
        "cost": round(episode.cost, 9),
        "tokens": episode.tokens,
        "latency": round(episode.latency, 4),
        "policy": episode.policy,
    }


def questions(episode: Episode) -> list[dict[str, Any]]:
    """What the episode waits for a person to say."""
    if episode.status != Episode.Status.WAITING:
        return []
    names = dict(episode.pool.agents.values_list("number", "name"))
    return [asides.as_json(row, names) for row in asides.waiting(episode)]


def whole(episode: Episode) -> dict[str, Any]:
    """What is answered about an episode, with every agent's output."""
    names = dict(episode.pool.agents.values_list("number", "name"))
    return answer(episode) | {"outputs": composing.outputs(episode.trajectory.all(), names)}


def counted(episode: Episode) -> dict[str, Any]:
    """`whole`, and how many of its tokens were in prompts."""
    return whole(episode) | {"tokens_in": composing.tokens_in(episode.trajectory.all())}
