"""Whether a job cluster works: not whether its processes exist, but whether one of them has done something lately.

Every BEAT_SECONDS the guard of a cluster queues a small message to itself. Whoever does it writes `executed_at`. So the sign says that
a message went all the way: through the database, the pusher and a worker.
"""

import os
import socket
import sys
from collections.abc import Sequence
from datetime import timedelta

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django_q.tasks import async_task

from agents_app.background_work.jobs import SLOT
from agents_app.clusters.broker import MEANT_FOR, Broker, holders, put_back
from agents_app.models import ClusterSign

#: Seconds between two beats of an idle cluster, and between two signs of its guard.
BEAT_SECONDS, SIGN_SECONDS = 15.0, 5.0
#: A cluster that did nothing for so long, and does nothing now, stands still.
ALIVE = timedelta(seconds=60)
#: A guard that is silent for so long is gone, and what its cluster had taken is for others.
GONE = timedelta(seconds=30)


def beat() -> str:
    """The task of a cluster's own message: writes that this cluster does tasks."""
    executed()
    return SLOT


def executed() -> None:
    """Write that a worker of this cluster has done a task. Outside of a cluster it does nothing."""
    if SLOT:
        ClusterSign.objects.filter(slot=SLOT).update(executed_at=Now())


def send_beat(queue: str) -> None:
    """Queue a beat that no other cluster may do."""
    async_task(
        "agents_app.clusters.signs.beat", task_name="beat",
        q_options={"broker": Broker(queue + MEANT_FOR + SLOT), "save": False},
    )  # fmt: skip


def sign(queue: str, busy: int) -> None:
    """Write that the guard of this cluster runs, and how many of its workers are busy."""
    values = {"queue": queue, "machine": machine(), "guarded_at": Now(), "busy": busy}
    if not ClusterSign.objects.filter(slot=SLOT).update(**values):
        ClusterSign.objects.create(slot=SLOT, **values)


def left_behind() -> bool:
    """Whether a guard in this slot has gone without a word."""
    unsaid = Q(restarted_at=None) | Q(restarted_at__lt=F("guarded_at"))
    return bool(ClusterSign.objects.filter(unsaid, slot=SLOT).exists())


def restarted(why: str) -> None:
    """Write why this cluster is restarted; the page Alarms shows it for a while."""
    ClusterSign.objects.filter(slot=SLOT).update(restarted_at=Now(), why=why[:300], busy=0, executed_at=None)


def ended() -> None:
    """Take the sign away: the cluster ends because it was asked to."""
    ClusterSign.objects.filter(slot=SLOT).delete()


def machine() -> str:
    """What this machine is called in signs."""
    return socket.gethostname()[:100]


def working(queues: Sequence[str], on: str = "") -> "QuerySet[ClusterSign]":
    """The clusters of these queues that do something, or did lately; with `on` those of that machine."""
    signs = ClusterSign.objects.filter(queue__in=queues, guarded_at__gt=Now() - ALIVE)
    if on:
        signs = signs.filter(machine=on)
    return signs.filter(busy__gt=0) | signs.filter(executed_at__gt=Now() - ALIVE)


def put_back_of_the_gone() -> int:
    """Put back what clusters had taken whose guards are gone; how many messages. A round of the reaper."""
    there = set(ClusterSign.objects.filter(guarded_at__gt=Now() - GONE).values_list("slot", flat=True))
    return sum(put_back(queue, slot) for queue, slot in holders() if slot not in there)


def need_slot() -> None:
    """Start this program again in a slot that no other has, where it was started without one."""
    if not SLOT:
        os.environ["ROUTERWEB_CLUSTER"] = os.urandom(6).hex()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves
