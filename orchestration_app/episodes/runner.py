"""The episodes of this process: an event loop in a thread of its own calls agents, another thread has the database.

`manage.py run_episodes` has one `Runner`, which takes what is queued. A web process only queues an episode and reads what became of it
(`following`). Every BEAT_SECONDS running episodes are marked as alive; those cancelled or taken away meanwhile end here. Without
background threads, as in a command or a test, `run_here` runs one episode and has the caller's thread write.
"""

import asyncio
import logging
import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import connections

from agents_app.background_work import jobs
from agents_app.background_work.jobs import AttemptLost
from agents_app.clusters import signs
from agents_app.outbound.async_client import Client
from orchestration_app.calls import spending
from orchestration_app.calls.calling import Places
from orchestration_app.calls.ledger import Ledger
from orchestration_app.calls.limits import Limits
from orchestration_app.calls.wire import Wire
from orchestration_app.engine.orchestrating.one_shot import OneShot
from orchestration_app.engine.orchestrating.state import task_of
from orchestration_app.episodes import episodes, policies
from orchestration_app.episodes.course import Course
from orchestration_app.episodes.deciding import Deciding, waits
from orchestration_app.episodes.episodes import Wanted
from orchestration_app.episodes.policies import Decider, Orchestra
from orchestration_app.models import Episode, Step
from routerweb import state
from routerweb.observing import tracing
from training_app.answering import serving, shadowing
from training_app.answering.answer import NotReady
from training_app.models import LiveTally

log = logging.getLogger(__name__)

#: Seconds between two signs of life of what runs here, and between two looks for queued episodes.
BEAT_SECONDS, LOOK_SECONDS = 2.0, 0.1
#: Episodes that are taken at one look.
TAKEN_AT_ONCE = 50
#: What `worker_alive` and the cluster signs call this process.
PART = "episodes"
#: Episodes that are between two calls at the same time; the others come after, in the order in which their agents answered. Those
#: that are let in together wait for each other, call together, and come back together: a few at a time spread over the time that
#: their agents take.
BETWEEN = 6


class NobodyRuns(NotReady):
    """No process runs episodes, so whoever waited would wait for ever."""

    code = "no_runner"


@dataclass(slots=True)
class _Live:
    """One episode that runs in this process."""

    attempt: uuid.UUID
    task: "asyncio.Task[None] | None" = None


@dataclass(frozen=True, slots=True)
class _Begun:
    """What an episode goes on from: its row, its pool's orchestra, who decides, and its steps so far."""

    episode: Episode
    orchestra: Orchestra
    decider: Decider
    stored: list[Step]


class Runner:
    """`begin`, `start` and `end` may be called from any thread."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        #: Walked over as a list: other threads add to it meanwhile.
        self._live: dict[uuid.UUID, _Live] = {}
        state.keep(__name__, "Runner", "Episodes under way", settings.EPISODES_AT_ONCE, lambda: self.count)
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
        return settings.EPISODES_AT_ONCE - self.count

    @property
    def count(self) -> int:
        """How many episodes run here."""
        return len(self._live)

    def begin(self, *, serve: bool = True) -> None:
        """Start the threads; without `serve`, somebody else has the database, and only what is started runs."""
        self._takes = serve
        self._threads = [threading.Thread(target=self._run_loop, name="episodes", daemon=True)]
        if serve:
            self._threads.append(threading.Thread(target=self._serve, name="episodes-ledger", daemon=True))
        for thread in self._threads:
            thread.start()

    def start(self, episode: Episode, orchestra: Orchestra | None = None) -> None:
        """Run an episode that was claimed for this process."""
        assert episode.attempt is not None
        self._live[episode.pk] = _Live(episode.attempt)
        self._loop.call_soon_threadsafe(self._begin_task, episode, orchestra)

    def running(self, key: uuid.UUID) -> bool:
        """Whether the episode runs here."""
        return key in self._live

    def end(self) -> None:
        """As the process ends: put every episode back into the queue."""
        self._ending.set()
        held = self._held()
        try:
            if held:
                episodes.release(held)
        except DatabaseFault as error:
            log.warning("%d episodes could not be put back into the queue; they will be found: %s", len(held), error)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.ledger.wake()

    def _held(self) -> dict[uuid.UUID, uuid.UUID]:
        return {key: live.attempt for key, live in list(self._live.items())}

    # --- In the loop ----------------------------------------------------------------------------------------------

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        limits = Limits(self.ledger)
        self._places, self._client = limits, Client()
        works = [limits.settle_for_ever(), self._beat(), *([self._look(), self._sign()] if self._takes else [])]
        beside = [self._loop.create_task(work) for work in works]
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
            with tracing.workflow(course.pool, str(episode.pk), course.episode.plan.get("trace", {})) as span:
                await course.run()
                span.set(
                    routerweb__episode__status=course.episode.status, routerweb__episode__steps=course.episode.steps
                )
        except (AttemptLost, asyncio.CancelledError):
            log.info("episode %s was cancelled or continues elsewhere", episode.pk)
        except Exception as error:  # an episode that fails for any reason is marked so
            log.exception("episode %s failed", episode.pk)
            tried = None if canary is None else canary.decider.model
            if tried is not None and tried == episode.model_id:
                shadowing.note(tried, LiveTally.Kind.CANARY, errors=1, error=f"{type(error).__name__}: {error}")
            await self._fail(episode, live, f"{type(error).__name__}: {error}".rstrip(": "))
        finally:
            self._live.pop(episode.pk, None)

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
            begun.episode, policies.exploring(begun.decider, begun.episode), begun.orchestra.specs, begun.orchestra.pool.names,
            self.ledger, Wire(self._client), self._places, self._deciding, between, begun.stored, begun.orchestra.ways,
            begun.orchestra.shadows if begun.orchestra.is_active(begun.decider) else (),
            begun.orchestra.pool.slug, spending.limited(dict(begun.orchestra.limits), begun.episode.api_key_id),
            begun.orchestra.callable,
        )  # fmt: skip

    async def _fail(self, episode: Episode, live: _Live, why: str) -> None:
        try:
            await self.ledger.run(lambda: _fail(episode.pk, live.attempt, why))
        except Exception as error:  # it will be found dead
            log.warning("episode %s could not be marked as failed: %s", episode.pk, error)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            held = self._held()
            if not held:
                continue
            try:
                lost = await self.ledger.run(lambda held=held: episodes.beat(held))  # type: ignore[misc]
            except DatabaseFault as error:
                log.warning("episodes' signs of life could not be written: %s", error)
                continue
            for key in lost:
                live = self._live.get(key)
                if live is not None and live.task is not None:
                    live.task.cancel()

    async def _look(self) -> None:
        """Take queued episodes."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            room = min(self.room, TAKEN_AT_ONCE)
            if room <= 0:
                continue
            try:
                claimed = await self.ledger.run(lambda room=room: episodes.claim_waiting(room))  # type: ignore[misc]
            except DatabaseFault:
                continue
            for key, attempt in claimed:
                self._live[key] = _Live(attempt)
                self._begin_task(Episode(pk=key, attempt=attempt), None)

    async def _sign(self) -> None:
        """Say that this process takes what is queued: `_look` and this share the thread that has the database."""
        while True:
            try:
                await self.ledger.run(lambda: signs.sign(PART, self.count))
                await self.ledger.run(signs.executed)
            except DatabaseFault as error:
                log.warning("the sign of life could not be written: %s", error)
            await asyncio.sleep(signs.SIGN_SECONDS)


def _read(key: uuid.UUID, attempt: uuid.UUID | None) -> _Begun:
    """A claimed episode as the database has it, with its pool as of now: it may have been changed the moment before."""
    episode = Episode.objects.select_related("pool").get(pk=key)
    episode.attempt = attempt
    pool = serving.refresh().pools[episode.pool.slug]
    orchestra = policies.orchestra(pool)
    decider = policies.of_episode(orchestra, episode.model_id, episode.policy)
    return _Begun(episode, orchestra, decider, list(episode.trajectory.order_by("turn", "path", "place")))


def _fail(key: uuid.UUID, attempt: uuid.UUID, why: str) -> None:
    jobs.write(Episode, key, attempt, status=Episode.Status.FAILED, stop_reason="failed", error=why[:2_000])
    episodes.totals(key)


def launch(pool: int, wanted: Wanted, orchestra: Orchestra, *, wait: bool = True, **who: Any) -> tuple[Episode, bool]:
    """Queue an episode for the processes that run them. `who` asks for it, see `episodes.begin`. Returns the episode and whether it is
    new. Raises NoPolicy, NobodyToCall, EpisodeError, and NobodyRuns where somebody waits and no process has run episodes in the last
    minute.

    Without background threads it is run now, by this thread, where somebody waits for it.
    """
    decider = orchestra.deciding(task_of(wanted.messages))
    orchestra.can_call(wanted.agents)
    if isinstance(decider.policy, OneShot) and wanted.paths == 1:
        wanted = replace(wanted, explore=orchestra.explored)
    if wait and settings.BACKGROUND_THREADS and not signs.working([PART]).exists():
        raise NobodyRuns(
            "No process runs episodes.",
            "Start one: python manage.py up episodes. With `wait` false the task is queued until there is one.",
        )
    episode, new = episodes.begin(pool, wanted, decider, orchestra, **who)
    if new and wait and not settings.BACKGROUND_THREADS:
        episode.attempt = jobs.claim(Episode, episode.pk)
        run_here(episode, orchestra)
        episode.refresh_from_db()
    return episode, new


def go_on_here(episode: Episode) -> None:
    """Run a queued episode on in this thread, where no background threads are."""
    episode.attempt = jobs.claim(Episode, episode.pk)
    if episode.attempt is not None:
        run_here(episode)
    episode.refresh_from_db()


def run_here(episode: Episode, orchestra: Orchestra | None = None) -> None:
    """Run a claimed episode to its end and write with this thread."""
    runner = Runner()
    runner.begin(serve=False)
    runner.start(episode, orchestra)
    until = time.monotonic() + settings.EPISODE_SECONDS + 60
    try:
        runner.ledger.serve(lambda: not runner.running(episode.pk) or time.monotonic() > until)
    finally:
        runner._ending.set()
        runner._loop.call_soon_threadsafe(runner._loop.stop)
        runner._threads[0].join(timeout=5)
