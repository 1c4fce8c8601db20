"""One job cluster: the process that guards a pusher, workers and a monitor of django-q2.

They share queues whose locks live in shared memory. A process that is killed while it holds one never gives it back: whoever waits for
it then waits for ever, also a successor. So where one of them dies, or the cluster stands still, all of them end and the cluster is
restarted, with queues of its own. Nothing is lost by that: a new cluster in the same slot puts back the messages that the last one
had taken, and takes its jobs away from it.
"""

import logging
import os
import signal
import time
import uuid
from collections.abc import Callable
from multiprocessing.queues import Queue as MultiprocessingQueue
from types import FrameType
from typing import Any

from django.db import DatabaseError, connections
from django.utils.translation import gettext as _
from django_q.brokers import Broker
from django_q.cluster import Sentinel, get_mp_context
from django_q.conf import Conf
from django_q.scheduler import scheduler
from django_q.worker import worker

from agents_app.background_work import jobs
from agents_app.clusters import AGAIN, signs
from agents_app.clusters.broker import held, put_back
from routerweb import lifeline

log = logging.getLogger(__name__)

#: Seconds between two looks at the processes.
LOOK_SECONDS = 0.25
#: Seconds between two calls of django-q2's scheduler.
SCHEDULE_SECONDS = 30.0
#: A message that is with an idle cluster for so long, and is not done, is stuck.
STUCK_SECONDS = 30.0
#: How long jobs may go on after the cluster was asked to end; then they are told, and hand themselves back to the queue.
FINISH_SECONDS = 4.0
#: How long they may take for that before they are killed.
GRACE_SECONDS = 8.0
#: How long the monitor may take to acknowledge what was done.
ACKNOWLEDGE_SECONDS = 2.0


class Cluster(Sentinel):
    """The guard. `run` returns the status to end with: 0 when it was asked to end, AGAIN where it is to be restarted."""

    def __init__(self, broker: Broker) -> None:
        context = get_mp_context()
        self.asked_to_end = False
        self._took: dict[int, float] = {}
        super().__init__(context.Event(), context.Event(), uuid.uuid4(), broker, Conf.TIMEOUT, start=False)
        signal.signal(signal.SIGTERM, self._ask_to_end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _ask_to_end(self, _number: int, _frame: FrameType | None) -> None:
        self.asked_to_end = True

    @property
    def queue(self) -> str:
        return str(self.broker.list_key)

    def run(self) -> int:
        """Guard until the cluster is asked to end, or has to be restarted."""
        self._patiently(self._take_over)
        self.pool: list[Any] = []
        connections.close_all()
        for _worker in range(self.pool_size):
            self.spawn_worker()
        self.monitor, self.pusher = self.spawn_monitor(), self.spawn_pusher()
        why = self._watch()
        self._end(finish=not why)
        return AGAIN if why else 0

    def spawn_process(self, target: Callable[..., Any], *args: Any) -> Any:
        """Start one of the three kinds; each ends with this process."""
        process = get_mp_context().Process(
            target=_begin, args=(os.getpid(), target, args), name=f"Process-{uuid.uuid4().hex}"
        )
        process.daemon = Conf.DAEMONIZE_WORKERS if target is worker else True
        if target is worker:
            process.timer = args[2]
            self.pool.append(process)
        process.start()
        return process

    # --- What is wrong with it ------------------------------------------------------------------------------------

    def _watch(self) -> str:
        """Look after the cluster; returns why it has to be restarted, "" when it was asked to end."""
        due: dict[Callable[[], None], tuple[float, float]] = {
            self._sign: (signs.SIGN_SECONDS, 0.0),
            self._beat: (signs.BEAT_SECONDS, 0.0),
            self._schedule: (SCHEDULE_SECONDS, time.monotonic() + SCHEDULE_SECONDS / 3),
        }
        while not self.asked_to_end:
            if why := self._dead() or self._overdue() or self._stuck():
                log.error("The %s cluster is restarted: %s", self.queue, why)
                self._quietly(lambda why=why: signs.restarted(why))  # type: ignore[misc]
                return str(why)
            for act, (seconds, at) in due.items():
                if time.monotonic() >= at:
                    self._quietly(act)
                    due[act] = seconds, time.monotonic() + seconds
            time.sleep(LOOK_SECONDS)
        return ""

    def _dead(self) -> str:
        """Which process has died, in words; those that ended in order are replaced."""
        for process in [*self.pool, self.monitor, self.pusher]:
            if process.is_alive():
                continue
            in_order = process.exitcode == 0
            if in_order and process is self.pusher:  # the database was away
                connections.close_all()
                self.pusher = self.spawn_pusher()
            elif in_order and process in self.pool and process.timer.get_obj().value == -2:  # django-q2 recycles it
                connections.close_all()
                self.pool.remove(process)
                self.spawn_worker()
            else:
                what = _("worker") if process in self.pool else _("monitor") if process is self.monitor else _("pusher")
                return _("its %(what)s ended with status %(status)s") % {"what": what, "status": process.exitcode}
        return ""

    def _overdue(self) -> str:
        """Count down the time that each busy worker has left, as django-q2 does, but wait for no lock."""
        for process in self.pool:
            lock = process.timer.get_lock()
            if not lock.acquire(timeout=LOOK_SECONDS):
                continue  # it is about to hand over a result
            try:
                if process.timer.value > 0:
                    process.timer.value = max(0.0, process.timer.value - LOOK_SECONDS)
                if process.timer.value == 0:
                    return _("a job took longer than its time limit")
            finally:
                lock.release()
        return ""

    def _busy(self) -> int:
        # Without the locks, which a dead worker may hold.
        return sum(process.timer.get_obj().value > 0 for process in self.pool)

    def _stuck(self) -> str:
        """Whether a message waits within the cluster although none of its workers is busy."""
        now = time.monotonic()
        if self._took and self._busy():
            self._took = dict.fromkeys(self._took, now)
        if any(now - since > STUCK_SECONDS for since in self._took.values()):
            return _("jobs wait, and its workers do nothing")
        return ""

    # --- What it does now and then --------------------------------------------------------------------------------

    def _sign(self) -> None:
        """Say that the guard runs, and see which messages are with the cluster."""
        signs.sign(self.queue, self._busy())
        now = time.monotonic()
        self._took = {message: self._took.get(message, now) for message in held(self.queue, jobs.SLOT)}

    def _beat(self) -> None:
        if not self._busy() and not self._took:
            signs.send_beat(self.queue)

    def _schedule(self) -> None:
        scheduler(broker=self.broker)

    def _quietly(self, act: Callable[[], None]) -> None:
        """Do it, or leave it to the next time while the database is away; what waits then is not this cluster's fault."""
        try:
            act()
        except DatabaseError as error:
            log.warning("The %s cluster could not reach the database: %s", self.queue, error)
            connections.close_all()
            self._took = {}

    def _patiently(self, act: Callable[[], None]) -> None:
        reason = ""
        while not self.asked_to_end:
            try:
                act()
                return
            except DatabaseError as error:
                if str(error) != reason:
                    reason = str(error)
                    hint = "; `manage.py migrate` makes its tables" if "table" in reason or "relation" in reason else ""
                    log.warning("The %s cluster waits for the database: %s%s", self.queue, reason.strip(), hint)
                connections.close_all()
                time.sleep(1.0)

    # --- Its beginning and its end --------------------------------------------------------------------------------

    def _take_over(self) -> None:
        """Put back what the last cluster in this slot had taken, and take its jobs away from it."""
        if signs.left_behind():
            signs.restarted(_("its guard was killed"))
        signs.sign(self.queue, 0)
        self._hand_back()

    def _hand_back(self) -> None:
        messages, ended = put_back(self.queue, jobs.SLOT), jobs.end_of_slot(jobs.SLOT)
        if messages or ended:
            log.info("The %s cluster handed back %d messages and %d jobs", self.queue, messages, ended)

    def _end(self, finish: bool) -> None:
        """End every process: those that are busy may finish, then hand their jobs back, then are killed."""
        self.pusher.kill()
        if finish:
            _wait(lambda: not self._busy(), FINISH_SECONDS)
        for process in self.pool:
            process.terminate()
        _wait(lambda: not any(process.is_alive() for process in self.pool), GRACE_SECONDS)
        for process in self.pool:
            process.kill()
        if finish:
            # Past django-q2's counter, whose lock a killed worker may have held.
            MultiprocessingQueue.put(self.result_queue, "STOP")
            _wait(lambda: not self.monitor.is_alive(), ACKNOWLEDGE_SECONDS)
        self.monitor.kill()
        for process in (*self.pool, self.pusher, self.monitor):
            process.join(GRACE_SECONDS)
        for queue in (self.task_queue, self.result_queue):
            queue.cancel_join_thread()
        self._quietly(self._hand_back)
        if finish:
            self._quietly(signs.ended)


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)


def _begin(parent: int, target: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """What a child does first: end with its parent, and by SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    lifeline.end_with(parent)
    target(*args)
