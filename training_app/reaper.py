"""A light thread that looks after jobs whose worker died: beside every worker of every cluster, and in every web process.

It must begin after the last fork, as threads do not survive one and a forked copy of a held lock never opens again:
- workers: django-q2 sends `post_spawn` in each worker once it is forked (and again when a dead one is replaced); a worker
  forks no further. `TrainingAppConfig.ready` listens to it. The cluster's sentinel, which forks, has no reaper.
- web: `routerweb.wsgi` and `routerweb.asgi` call `start_once` when a server loads them. gunicorn without `--preload` loads
  them in each worker after the fork; with `--preload`, call `start_once` from `post_fork` as well.
Commands and tests do neither, so they have no reaper.

Any number of reapers may run: each mark is one conditional update, which one of them wins.
"""

import logging
import os
import threading
import time
from collections.abc import Callable

from django.conf import settings
from django.db import close_old_connections, connections

from datasets_app import imports, prelabel
from training_app import runs

log = logging.getLogger(__name__)

#: What is done at each round; each returns how many things it put right.
ROUNDS: tuple[Callable[[], int], ...] = (
    runs.end_dead_attempts,
    imports.fail_dead_imports,
    prelabel.fail_dead_jobs,
    runs.deliver_unclaimed,
    imports.enqueue_lost_imports,
    prelabel.enqueue_lost_jobs,
)
#: Those of them that hand on what waits while every worker is busy: nothing is wrong then.
HANDED_ON = frozenset({runs.deliver_unclaimed, imports.enqueue_lost_imports, prelabel.enqueue_lost_jobs})

_started_in: int | None = None
_start = threading.Lock()


def start_once() -> bool:
    """Start this process's reaper where it has none yet; whether it did."""
    global _started_in
    with _start:
        if _started_in == os.getpid():
            return False
        _started_in = os.getpid()
    threading.Thread(target=Reaper().run, name="reaper", daemon=True).start()
    return True


class Reaper:
    """Looks after dead jobs every HEARTBEAT_SECONDS.

    When the database was away, or this machine was asleep, the jobs could not give a sign of life either. The reaper then waits
    for DEAD_AFTER_SECONDS before it calls anything dead.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._last = clock()
        self._trusted_from = 0.0

    def run(self) -> None:
        """Never returns."""
        while True:
            time.sleep(settings.HEARTBEAT_SECONDS)
            self.look()

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
            found = {put_right: put_right() for put_right in ROUNDS}
        except Exception as error:  # the thread outlives the database
            self._outage(error)
            return 0
        handed_on = sum(count for put_right, count in found.items() if put_right in HANDED_ON)
        dead = sum(found.values()) - handed_on
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
