"""What a process does beside its requests or its job: a thread that takes turns.

A `Background` stands in the module whose work it does, and its thread starts when somebody first wants it. Threads do not survive a
fork, and a lock that one held then never opens again: in the child everything is new, and the next `start` makes a thread of its own.
`BACKGROUND_THREADS` off, as in the tests, starts none.
"""

import logging
import multiprocessing.util
import os
import threading
from collections.abc import Callable
from weakref import WeakSet

from django.conf import settings
from django.db import connections

from routerweb import state

logger = logging.getLogger(__name__)

#: How long a thread rests after a turn that raised.
REST_AFTER_FAULT_SECONDS = 1.0

_every: "WeakSet[Background]" = WeakSet()
state.keep(__name__, "_every", "Background threads", "fixed")


class Background:
    """One daemon thread of this process, at most.

    `turn` does some of the work and returns how many seconds to rest. What it raises is logged, and the thread goes on. `at_end` is
    called once, when a process that started the thread ends in order. `in_child` is called in a process that was just forked, for
    what else the module has to make again. `always`: it starts also where BACKGROUND_THREADS is off, as part of a job.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], float],
        *,
        at_end: Callable[[], object] | None = None,
        in_child: Callable[[], object] | None = None,
        always: bool = False,
    ) -> None:
        self.name = name
        self._turn, self._at_end, self._in_child, self._always = turn, at_end, in_child, always
        self._thread: threading.Thread | None = None
        self._renew()
        _every.add(self)

    @property
    def started(self) -> bool:
        """Whether this process has the thread."""
        return self._thread is not None

    def start(self, rest: float = 0.0) -> bool:
        """Start the thread where this process has none, its first turn after `rest` seconds; whether it did."""
        if self._thread is not None or not (self._always or settings.BACKGROUND_THREADS):
            return False
        with self._lock:
            if self._thread is not None:
                return False
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, args=(rest,), name=self.name, daemon=True)
            self._thread.start()
            if self._at_end is not None:
                # Also where the process was forked by multiprocessing, which passes `atexit` by.
                multiprocessing.util.Finalize(None, self._at_end, exitpriority=10)
        return True

    def wake(self) -> None:
        """Let the next turn begin now."""
        self._awake.set()

    def rest(self, seconds: float) -> bool:
        """Rest within a turn; whether the thread is to stop, which also ends the rest."""
        return self._stopping.wait(seconds)

    def stop(self, seconds: float = 5.0) -> None:
        """Let the present turn be the last, and wait for its end, but no longer than that."""
        self._stopping.set()
        self._awake.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=seconds)

    def _run(self, rest: float) -> None:
        stopping, awake = self._stopping, self._awake
        while True:
            awake.wait(rest)
            if stopping.is_set():
                return
            awake.clear()
            try:
                rest = self._turn()
            except Exception:  # the thread outlives whatever one turn met
                logger.exception("%s: a turn failed; trying on", self.name)
                connections.close_all()  # this thread's: one may still be in the transaction of that turn
                rest = REST_AFTER_FAULT_SECONDS
            if settings.DATABASES["default"].get("OPTIONS", {}).get("pool"):
                connections.close_all()  # back into the pool, for whoever comes while this thread rests

    def _renew(self) -> None:
        self._thread = None
        self._lock = threading.Lock()
        self._stopping, self._awake = threading.Event(), threading.Event()


def _after_fork() -> None:
    for background in list(_every):
        background._renew()
        if background._in_child is not None:
            background._in_child()


os.register_at_fork(after_in_child=_after_fork)
