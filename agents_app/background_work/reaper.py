"""A light thread that looks after jobs whose worker died: beside every worker of every cluster, and in every web process.

It begins after the last fork:
- workers: django-q2 sends `post_spawn` in each worker once it is forked; a worker forks no further. `TrainingAppConfig.ready` listens
  to it. A cluster's guard, which forks, has no reaper.
- web: `routerweb.wsgi` and `routerweb.asgi` call `start_once` when a server loads them.
Commands and tests do neither, so they have no reaper.

Any number of reapers may run: each mark is one conditional update, which one of them wins.
"""

import logging
import time
from collections.abc import Callable

from django.conf import settings
from django.db import close_old_connections, connections

from agents_app.background_work import jobs
from agents_app.clusters import signs
from routerweb.background import Background

log = logging.getLogger(__name__)


def end_dead() -> int:
    """Take the running jobs of every kind away from workers that died; how many."""
    return sum(jobs.end_dead(kind.model, kind.interrupted) for kind in jobs.kinds().values())


def deliver_again() -> int:
    """Hand the waiting jobs of every kind to their queue again where their messages may be lost; how many."""
    return sum(jobs.deliver_again(kind) for kind in jobs.kinds().values() if kind.execute)


#: What is done at each round; each returns how many things it put right.
ROUNDS: list[Callable[[], int]] = [end_dead, signs.put_back_of_the_gone, deliver_again]
#: Those of them that hand on what waits while every worker is busy: nothing is wrong then.
HANDED_ON = frozenset({deliver_again})


def start_once() -> bool:
    """Start this process's reaper where it has none yet; whether it did."""
    if not _thread.started:
        _reaper.begin()
    return _thread.start(rest=settings.HEARTBEAT_SECONDS)


class Reaper:
    """Looks after dead jobs every HEARTBEAT_SECONDS.

    When the database was away, or this machine was asleep, the jobs could not give a sign of life either. The reaper then waits
    for DEAD_AFTER_SECONDS before it calls anything dead.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Trust what the database says, as of now."""
        self._last = self._clock()
        self._trusted_from = 0.0

    def turn(self) -> float:
        """One round, and how long to rest after it."""
        self.look()
        return float(settings.HEARTBEAT_SECONDS)

    def look(self) -> int:
        """One round; how many things were put right. Never raises: a reaper outlives any outage."""
        now = self._clock()
        if now - self._last > max(settings.DEAD_AFTER_SECONDS / 2, 2 * settings.HEARTBEAT_SECONDS):
            self._trusted_from = now + settings.DEAD_AFTER_SECONDS
        self._last = now
        if now < self._trusted_from:
            return self._reachable()
        try:
            close_old_connections()
            repaired = {put_right: put_right() for put_right in ROUNDS}
        except Exception as error:  # the thread outlives the database
            self._outage(error)
            return 0
        handed_on = sum(count for put_right, count in repaired.items() if put_right in HANDED_ON)
        dead = sum(repaired.values()) - handed_on
        if dead:
            log.warning("jobs whose worker died, ended or put back into the queue: %d", dead)
        if handed_on:
            log.info("waiting jobs handed to the queue again: %d", handed_on)
        return dead + handed_on

    def _reachable(self) -> int:
        try:
            close_old_connections()
            connections["default"].ensure_connection()
        except Exception as error:  # the thread outlives the database
            self._outage(error)
        return 0

    def _outage(self, error: Exception) -> None:
        self._trusted_from = self._clock() + settings.DEAD_AFTER_SECONDS
        log.warning("looking for dead jobs failed (%s: %s); trying on", type(error).__name__, error)
        connections["default"].close()


_reaper = Reaper()
_thread = Background("reaper", _reaper.turn)
