"""The episodes of this process: an event loop in a thread of its own calls agents, another thread has the database.

No web thread is held by an episode: a request that waits follows it from the server's own loop (`follow`). What is running here is
told alive every BEAT_SECONDS; what was cancelled or taken away meanwhile ends here. Without background threads, as in a command or a
test, `run_here` runs one episode and has the caller's thread write.
"""

import asyncio
import logging
import multiprocessing.util
import os
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import connections

from agents_app import jobs
from agents_app.jobs import AttemptLost
from agents_app.outbound.event_loop import Client
from routerweb.observing import tracing
from training_app.answering import serving, shadowing
from training_app.engine.orchestrating.state import task_of
from training_app.models import Episode, LiveTally, Step
from training_app.orchestration import episodes, policies
from training_app.orchestration.calling import Places
from training_app.orchestration.course import Course, as_json
from training_app.orchestration.deciding import Deciding, waits
from training_app.orchestration.episodes import Wanted
from training_app.orchestration.ledger import Ledger
from training_app.orchestration.limits import Limits
from training_app.orchestration.policies import Decider, Orchestra
from training_app.orchestration.wire import Wire

log = logging.getLogger(__name__)

#: Signs of life, and looks for queued episodes.
BEAT_SECONDS, LOOK_SECONDS = 2.0, 1.0
#: Episodes that are between two calls at the same time; the others come after, in the order in which their agents answered. Those
#: that are let in together wait for each other, call together, and come back together: a few at a time spread over the time that
#: their agents take.
BETWEEN = 6
#: What an ended episode told is kept for those who come a moment later.
KEPT_SECONDS = 30.0

Event = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class _Live:
    """One episode in this process: what it has told so far, and who listens."""

    attempt: uuid.UUID
    told: list[Event] = field(default_factory=list)
    listeners: list[Callable[[Event | None], None]] = field(default_factory=list)
    ended: bool = False
    task: "asyncio.Task[None] | None" = None


@dataclass(frozen=True, slots=True)
class _Begun:
    """What an episode goes on from: its row, its pool's orchestra, who decides, and its steps so far."""

    episode: Episode
    orchestra: Orchestra
    decider: Decider
    stored: list[Step]


class Runner:
    """`start` and `follow` may be called from any thread or loop."""

    def __init__(self, patient: bool = False) -> None:
        self.ledger = Ledger()
        self._patient = patient
        #: Walked over as a list: other threads add to it meanwhile.
        self._live: dict[uuid.UUID, _Live] = {}
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._ending = threading.Event()
        self._client: Client | None = None
        self._places: Places | None = None
        self._deciding = Deciding()
        self._between = asyncio.Semaphore(BETWEEN)
        self._threads: list[threading.Thread] = []

    # --- From any thread ------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many more episodes may run here."""
        return settings.EPISODES_AT_ONCE - sum(1 for live in list(self._live.values()) if not live.ended)

    def begin(self, *, serve: bool = True) -> None:
        """Start the threads; without `serve`, somebody else has the database."""
        self._threads = [threading.Thread(target=self._run_loop, name="episodes", daemon=True)]
        if serve:
            self._threads.append(threading.Thread(target=self._serve, name="episodes-ledger", daemon=True))
        for thread in self._threads:
            thread.start()

    def start(self, episode: Episode, orchestra: Orchestra | None = None) -> None:
        """Run an episode that was claimed for this process."""
        assert episode.attempt is not None
        with self._lock:
            self._live[episode.pk] = _Live(episode.attempt)
        self._loop.call_soon_threadsafe(self._begin_task, episode, orchestra)

    def has(self, key: uuid.UUID) -> bool:
        """Whether the episode is, or was a moment ago, in this process."""
        return key in self._live

    async def follow(self, key: uuid.UUID) -> AsyncIterator[Event]:
        """What an episode of this process tells, from its beginning to its end; for any event loop."""
        own, news, read = asyncio.get_running_loop(), asyncio.Event(), 0

        def listener(_event: Event | None) -> None:
            own.call_soon_threadsafe(news.set)

        with self._lock:
            live = self._live.get(key)
            if live is None:
                return
            if not live.ended:
                live.listeners.append(listener)
        try:
            while True:
                news.clear()
                ended = live.ended
                while read < len(live.told):
                    read += 1
                    yield live.told[read - 1]
                if ended:
                    return
                await news.wait()
        finally:
            with self._lock:
                if listener in live.listeners:
                    live.listeners.remove(listener)

    async def end_of(self, key: uuid.UUID) -> dict[str, Any] | None:
        """How an episode of this process ended, once it has; None where it did not end here. Its steps do not wake who waits for
        that."""
        own = asyncio.get_running_loop()
        ended: asyncio.Future[None] = own.create_future()

        def settle() -> None:
            if not ended.done():
                ended.set_result(None)

        def listener(event: Event | None) -> None:
            if event is None:
                own.call_soon_threadsafe(settle)

        with self._lock:
            live = self._live.get(key)
            if live is None:
                return None
            if live.ended:
                settle()
            else:
                live.listeners.append(listener)
        try:
            await ended
        finally:
            with self._lock:
                if listener in live.listeners:
                    live.listeners.remove(listener)
        return next((value for word, value in live.told if word == "end"), None)

    def cancel(self, key: uuid.UUID) -> None:
        """An episode was cancelled: end it here without waiting for the next sign of life."""
        live = self._live.get(key)
        if live is not None and live.task is not None:
            self._loop.call_soon_threadsafe(live.task.cancel)

    def end(self) -> None:
        """As the process ends: put every episode back into the queue."""
        self._ending.set()
        held = {key: live.attempt for key, live in list(self._live.items()) if not live.ended}
        try:
            if held:
                episodes.release(held)
        except DatabaseFault as error:
            log.warning("%d episodes could not be put back into the queue; they will be found: %s", len(held), error)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.ledger.wake()

    # --- In the loop ----------------------------------------------------------------------------------------------

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        limits = Limits(self.ledger)
        self._places, self._client = limits, Client()
        beside = [self._loop.create_task(work) for work in (limits.settle_for_ever(), self._beat(), self._look())]
        self._loop.run_forever()
        for task in [*beside, *(live.task for live in list(self._live.values()) if live.task is not None)]:
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _serve(self) -> None:
        try:
            self.ledger.serve(self._ending.is_set)
        finally:
            connections.close_all()

    def _begin_task(self, episode: Episode, orchestra: Orchestra | None) -> None:
        live = self._live[episode.pk]
        live.task = self._loop.create_task(self._run(episode, orchestra, live))

    async def _run(self, episode: Episode, orchestra: Orchestra | None, live: _Live) -> None:
        canary = None if orchestra is None else orchestra.canary
        try:
            course = await self._course(episode, orchestra)
            for row in course.stored:
                if row.status != "running":
                    self._tell(live, ("step", as_json(row, course.names)))
            course.tell = lambda word, value: self._tell(live, (word, value))
            with tracing.workflow(course.pool, str(episode.pk)) as told:
                await course.run()
                told.set(
                    routerweb__episode__status=course.episode.status, routerweb__episode__steps=course.episode.steps
                )
            self._tell(live, ("end", answer(course.episode)))
        except (AttemptLost, asyncio.CancelledError):
            log.info("episode %s was cancelled or is gone on with elsewhere", episode.pk)
            self._tell(live, ("gone", {}))
        except Exception as error:  # an episode that fails for any reason is marked so
            log.exception("episode %s failed", episode.pk)
            tried = None if canary is None else canary.decider.model
            if tried is not None and tried == episode.model_id:
                shadowing.note(tried, LiveTally.Kind.CANARY, errors=1, error=f"{type(error).__name__}: {error}")
            await self._fail(episode, live, f"{type(error).__name__}: {error}".rstrip(": "))
        finally:
            self._ended(episode.pk, live)

    async def _course(self, episode: Episode, orchestra: Orchestra | None) -> Course:
        """The episode's course; what is not known of it yet is read."""
        if orchestra is None:
            begun = await self.ledger.run(lambda: _read(episode.pk, episode.attempt))
        else:
            begun = _Begun(episode, orchestra, orchestra.deciding(episode.task), [])
        assert self._client is not None
        assert self._places is not None
        # Who waits for a language model must hold up nobody else.
        between = asyncio.Semaphore() if waits(begun.decider.policy) else self._between
        return Course(
            begun.episode, begun.decider, begun.orchestra.specs, begun.orchestra.pool.names, self.ledger, Wire(self._client),
            self._places, self._deciding, between, lambda word, value: None, begun.stored, begun.orchestra.ways,
            begun.orchestra.shadows if begun.orchestra.is_active(begun.decider) else (),
            begun.orchestra.pool.slug,
        )  # fmt: skip

    async def _fail(self, episode: Episode, live: _Live, why: str) -> None:
        try:
            await self.ledger.run(lambda: _fail(episode.pk, live.attempt, why))
            self._tell(live, ("end", await self.ledger.run(lambda: answer(Episode.objects.get(pk=episode.pk)))))
        except Exception as error:  # it will be found dead
            log.warning("episode %s could not be marked as failed: %s", episode.pk, error)
            self._tell(live, ("gone", {}))

    def _tell(self, live: _Live, event: Event) -> None:
        with self._lock:
            live.told.append(event)
            for listener in live.listeners:
                listener(event)

    def _ended(self, key: uuid.UUID, live: _Live) -> None:
        with self._lock:
            live.ended = True
            for listener in live.listeners:
                listener(None)
            live.listeners = []
        live.task = None
        self._loop.call_later(KEPT_SECONDS, self._live.pop, key, None)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            held = {key: live.attempt for key, live in list(self._live.items()) if not live.ended}
            if not held:
                continue
            try:
                lost = await self.ledger.run(lambda held=held: episodes.beat(held))  # type: ignore[misc]
            except DatabaseFault as error:
                log.warning("episodes' signs of life could not be written: %s", error)
                continue
            for key in lost:
                live = self._live.get(key)
                if live is not None and live.task is not None and not live.ended:
                    live.task.cancel()

    async def _look(self) -> None:
        """Take queued episodes, as those whose process died."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            room = self.room
            if room <= 0:
                continue
            try:
                taken = await self.ledger.run(lambda room=room: _taken(room, self._patient))  # type: ignore[misc]
            except DatabaseFault:
                continue
            for episode, attempt in taken:
                with self._lock:
                    self._live[episode.pk] = _Live(attempt)
                self._begin_task(episode, None)


def _taken(room: int, patient: bool) -> list[tuple[Episode, uuid.UUID]]:
    claimed = episodes.claim_waiting(min(room, 50), patient=patient)
    return [(Episode(pk=key, attempt=attempt), attempt) for key, attempt in claimed]


def _read(key: uuid.UUID, attempt: uuid.UUID | None) -> _Begun:
    """A claimed episode as the database has it."""
    episode = Episode.objects.select_related("pool").get(pk=key)
    episode.attempt = attempt
    pool = serving.served().pools[episode.pool.slug]
    orchestra = policies.orchestra(pool)
    decider = policies.of_episode(orchestra, episode.model_id, episode.policy)
    return _Begun(episode, orchestra, decider, list(episode.trajectory.order_by("turn", "path", "place")))


def _fail(key: uuid.UUID, attempt: uuid.UUID, why: str) -> None:
    jobs.write(Episode, key, attempt, status=Episode.Status.FAILED, stop_reason="failed", error=why[:2_000])
    episodes.totals(key)


def answer(episode: Episode) -> dict[str, Any]:
    """What is answered about an episode."""
    return {
        "episode_id": str(episode.pk),
        "status": episode.status,
        "answer": episode.answer if episode.status == Episode.Status.DONE else None,
        "stop_reason": episode.stop_reason,
        "error": episode.error,
        "steps": episode.steps,
        "cost": round(episode.cost, 9),
        "tokens": episode.tokens,
        "latency": round(episode.latency, 4),
        "policy": episode.policy,
    }


# --- This process's -------------------------------------------------------------------------------------------------

_runner: Runner | None = None
_making = threading.Lock()


def here(*, patient: bool = False) -> Runner:
    """This process's runner, started at its first use."""
    global _runner
    with _making:
        if _runner is None:
            _runner = Runner(patient)
            _runner.begin()
            multiprocessing.util.Finalize(None, _end, exitpriority=20)
        return _runner


def started() -> Runner | None:
    """This process's runner, where it has one."""
    return _runner


def _end() -> None:
    if _runner is not None:
        _runner.end()


def _after_fork() -> None:
    global _runner, _making
    _runner, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def launch(pool: int, wanted: Wanted, orchestra: Orchestra, *, wait: bool = True, **who: Any) -> tuple[Episode, bool]:
    """Begin an episode and have it run: in this process where it has room, by whoever has it first where not. `who` asks for it, see
    `episodes.begin`. Returns the episode and whether it is new. Raises NoPolicy and EpisodeError.

    Without background threads it is run now, by this thread, where somebody waits for it.
    """
    now = here().room > 0 if settings.BACKGROUND_THREADS else wait
    episode, new = episodes.begin(
        pool, wanted, orchestra.deciding(task_of(wanted.messages)), orchestra.callable, claim=now, **who
    )
    if new and now:
        if settings.BACKGROUND_THREADS:
            here().start(episode, orchestra)
        else:
            run_here(episode, orchestra)
            episode.refresh_from_db()
    return episode, new


def run_here(episode: Episode, orchestra: Orchestra | None = None) -> list[Event]:
    """Run a claimed episode to its end and write with this thread; what it told."""
    runner = Runner()
    runner.begin(serve=False)
    runner.start(episode, orchestra)
    live = runner._live[episode.pk]
    until = time.monotonic() + settings.EPISODE_SECONDS + 60
    try:
        runner.ledger.serve(lambda: live.ended or time.monotonic() > until)
    finally:
        runner._ending.set()
        runner._loop.call_soon_threadsafe(runner._loop.stop)
        runner._threads[0].join(timeout=5)
    return list(live.told)


def look_after() -> int:
    """A round of the reaper: put episodes of dead processes back, and have a runner where any waits; how many were put back."""
    dead = episodes.end_dead()
    if _runner is None and Episode.objects.filter(status=Episode.Status.QUEUED).exists():
        here(patient=True)
    return dead
