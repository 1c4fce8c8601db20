"""A light thread that watches the installation: it gives a sign of life of its process, looks for alarms, and sends what is due.

It runs beside every web process and every worker, so that alarms are told also when all workers are gone. Each gives its sign every
SIGN_SECONDS; the look itself is taken in turns, by whoever moves the one row of WatchTurn. Its connection is closed between rounds.
"""

import logging
import os
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import Error as DatabaseFault
from django.db import connections
from django.db.models import Max, Min
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django_q.models import OrmQ

from agents_app import keys
from agents_app.background_work import processes, schedules
from agents_app.clusters import signs
from agents_app.models import ApiKey, BackgroundJob, ClusterSign, Pool
from datasets_app.labeling import queue
from datasets_app.models import Assignment, Import, PrelabelJob, WritingJob
from routerweb import state
from routerweb.background import Background
from training_app.answering import decisions, serving
from training_app.engine.data.memory import give_back
from training_app.models import Alarm, ProcessSign, PromotionRequest, Run, WatchTurn
from training_app.watching import alarms, deliveries, health

log = logging.getLogger(__name__)

SIGN_SECONDS = 15
TURN = timedelta(seconds=30)
ALIVE = timedelta(seconds=60)
#: A worker may be away for so long, as while it is restarted.
MISSING = timedelta(minutes=2)
WAITS_TOO_LONG = timedelta(minutes=15)
DROPPED_LATELY = timedelta(minutes=10)
FORGOTTEN = timedelta(days=1)
FAILED_LATELY = timedelta(days=7)
#: So many runs in a row that failed are an alarm; of runs that nobody watches one is enough.
FAILED_IN_A_ROW = 2
#: A labeling queue is too long from so many queries on that take more than so many days at the pace of PACE.
LONG_QUEUE, LONG_DAYS = 500, 30
PACE = timedelta(days=7)
#: A message that waits for so long while no worker of its queue does anything is an alarm.
STANDS_STILL = timedelta(seconds=45)
#: An alarm tells of so many scheduled jobs, each in two rows.
MOST_SCHEDULES = 5
#: An alarm tells for so long of a cluster that was restarted.
RESTARTED_LATELY = timedelta(minutes=3)
Part = ProcessSign.Part

_seen_waiting: frozenset[tuple[str, int]] = frozenset()


_thread: Background | None = None


def start_once(part: str) -> bool:
    """Start this process's watch where it has none yet; whether it did. Call it after the last fork."""
    global _thread
    if _thread is not None and _thread.started:
        return False
    watch = Watch(part)
    # A process that ends in order is not missed; one that is killed cannot say goodbye.
    _thread = Background("watch", watch.turn, at_end=watch.end)
    return _thread.start()


class Watch:
    """One process's watch. `part` is what the process does: one of `parts`."""

    def __init__(self, part: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.part, self._clock = part, clock
        self.machine = socket.gethostname()[:100]
        self.name = f"{self.machine[:90]}:{os.getpid()}:{os.urandom(3).hex()}"
        self._began = clock()
        self._dropped = 0
        self._ended = False

    def turn(self) -> float:
        """One round, and how long to rest after it. After `end` it does nothing."""
        if not self._ended:
            self.round()
        return SIGN_SECONDS

    def round(self) -> None:
        """One sign and, if it is this process's turn, one look. Never raises: a watch outlives any outage."""
        try:
            self.sign()
            if take_turn():
                awake = timedelta(seconds=self._clock() - self._began)
                look(workers=awake > MISSING, late=awake > schedules.TROUBLE)
        except Exception as error:  # the thread outlives whatever one round met
            log.warning("the watch could not do its round (%s: %s); trying on", type(error).__name__, error)
        finally:
            if self._own_connection():
                connections["default"].close()
            give_back()  # what a burst of traffic needed

    def end(self) -> None:
        """Take the sign of life away: this process ends because it was asked to."""
        try:
            self._ended = True
            ProcessSign.objects.filter(name=self.name).delete()
        except DatabaseFault as error:
            log.warning("the end of %s could not be told: %s", self.name, error)

    @staticmethod
    def _own_connection() -> bool:
        return threading.current_thread() is not threading.main_thread()

    def sign(self) -> None:
        """Say that this process lives, what it holds and, where it answers, what it could not keep or load. By the database's clock:
        those of the machines may differ by a minute, and then a process would not count as alive."""
        now = Now()
        fields: dict[str, Any] = {
            "part": self.part, "machine": self.machine, "at": now, "memory": health.memory_bytes(), "loaded": serving.in_memory(),
            "state": state.report(),
        }  # fmt: skip
        if self.part == Part.WEB:
            fields |= {"waiting": len(decisions.buffer), "dropped": decisions.buffer.dropped}
            fields["problems"] = serving.health()["problems"]
            if decisions.buffer.dropped > self._dropped:
                fields["dropped_at"] = now
                self._dropped = decisions.buffer.dropped
        ProcessSign.objects.update_or_create(name=self.name, defaults=fields)


def take_turn() -> bool:
    """Whether the next look is this process's."""
    now = timezone.now()
    WatchTurn.objects.get_or_create(pk=1, defaults={"next_at": now})
    return bool(WatchTurn.objects.filter(pk=1, next_at__lte=now).update(next_at=now + TURN))


def look(workers: bool = True, late: bool = True) -> None:
    """Look at everything once; open, resolve and send. `workers`: also whether workers are missing. `late`: whether it is time that
    all scheduled work has been done; after a night in which nothing ran, it takes a while."""
    ProcessSign.objects.filter(at__lt=Now() - FORGOTTEN).delete()
    for pool in Pool.objects.in_use():
        _failing_runs(pool)
        _labeling_queue(pool)
        waiting_promotions(pool)
        _keys(pool)
    _refused_models()
    _waiting_jobs()
    _dropped_decisions()
    _clusters()
    if workers:
        _missing_workers()
    _schedules(late)
    alarms.resolve_passed()
    alarms.tell_late()
    deliveries.send_due()


def parts() -> list[tuple[str, str]]:
    """Every kind of process of the installation and its name on pages."""
    return [*Part.choices, *((process.part, process.title) for process in processes.added())]


def alive(part: str = "") -> "list[ProcessSign]":
    """The processes that gave a sign of life lately."""
    signs = ProcessSign.objects.filter(at__gte=Now() - ALIVE)
    return list(signs.filter(part=part) if part else signs)


# --- What is looked for ---------------------------------------------------------------------------------------------


def _failing_runs(pool: Pool) -> None:
    ended = Run.objects.filter(pool=pool, finished_at__isnull=False).order_by("-finished_at")
    failed: list[Run] = []
    for run in ended.filter(status__in=(Run.Status.DONE, Run.Status.FAILED)).defer("config", "metrics")[:20]:
        if run.status == Run.Status.DONE:
            break
        failed.append(run)
    if not failed or (failed[0].finished_at or timezone.now()) < timezone.now() - FAILED_LATELY:
        return
    if len(failed) < FAILED_IN_A_ROW and failed[0].author_id is not None:
        return
    count = ngettext("The last run of %(pool)s failed.", "The last %(count)d runs of %(pool)s failed.", len(failed))
    evidence = [[f"{_('Run')} {run.pk}", run.error[:200]] for run in failed[:3]]
    alarms.hold(Alarm.Kind.RUNS, count % {"pool": pool.name, "count": len(failed)}, evidence, pool)


def waiting_promotions(pool: Pool) -> None:
    """An alarm while a promotion or a canary waits for a second person; it ends with the last."""
    waiting = list(PromotionRequest.objects.waiting().filter(pool=pool).select_related("model__pool"))
    if not waiting:
        alarms.resolve(Alarm.Kind.APPROVAL, pool)
        return
    sentence = ngettext(
        "The promotion of %(models)s waits for a second person.",
        "The promotions of %(models)s wait for a second person.",
        len(waiting),
    )
    if any(request.share is not None for request in waiting):
        sentence = ngettext(
            "A canary, %(models)s, waits for a second person.", "%(models)s wait for a second person.", len(waiting)
        )
    evidence = [
        [request.model.name, _("asked for by %(name)s") % {"name": request.author_name}] for request in waiting[:5]
    ]
    names = ", ".join(request.model.name for request in waiting)
    alarms.hold(Alarm.Kind.APPROVAL, sentence % {"models": names}, evidence, pool)


def _keys(pool: Pool) -> None:
    """Alarms while keys of the pool are about to expire, and while their months are nearly used up, or all."""
    soon = ApiKey.objects.filter(pools=pool).expiring(keys.EXPIRES_SOON)[:5]
    ending = [(key, key.expires_at) for key in soon if key.expires_at]
    if ending:
        key, end = ending[0]
        sentence = _(
            "The API key “%(key)s” expires %(day)s. Rotate it with a new expiry date, or its application will be refused."
        )
        evidence = [[key.name, f"{at:%Y-%m-%d %H:%M} UTC"] for key, at in ending]
        alarms.hold(Alarm.Kind.KEYS, sentence % {"key": key.name, "day": f"{end:%Y-%m-%d}"}, evidence, pool)
    limited = ApiKey.objects.live().filter(pools=pool).exclude(monthly_queries=None, monthly_characters=None)
    names = {key.pk: key for key in limited}
    highest = {pk: max(uses, key=lambda use: use.share) for pk, uses in keys.uses(list(names.values())).items()}
    ways = (
        (Alarm.Kind.QUOTA, keys.NEARLY, _("The API key “%(key)s” has used %(percent)d %% of its monthly quota.")),
        (Alarm.Kind.SPENT, 1.0, _("The API key “%(key)s” has used up its monthly quota and is refused until %(day)s.")),
    )
    for kind, least, sentence in ways:
        reached = sorted(((use.share, pk, use) for pk, use in highest.items() if use.share >= least), reverse=True)
        if reached:
            share, pk, use = reached[0]
            shown = {"key": names[pk].name, "percent": min(int(100 * share), 100), "day": f"{use.ends:%Y-%m-%d}"}
            evidence = [[names[pk].name, f"{use.used:,} / {use.limit:,} {use.what}"] for _share, pk, use in reached[:5]]
            alarms.hold(kind, sentence % shown, evidence, pool)


def _labeling_queue(pool: Pool) -> None:
    """An alarm while labelers have run out of work, and while there is more than they get done in a month."""
    lately, now = Assignment.objects.filter(item__pool=pool, state=Assignment.State.DONE), timezone.now()
    answered = lately.filter(ended_at__gte=now - PACE).count()
    if not answered:
        return
    waiting = queue.still_open(pool)
    if waiting == 0 and lately.filter(ended_at__gte=now - FORGOTTEN).exists():
        sentence = _("The labeling queue of %(pool)s is empty: labelers have nothing to do.") % {"pool": pool.name}
        alarms.hold(Alarm.Kind.LABELING, sentence, [[_("Answered in seven days"), str(answered)]], pool)
    worked = PACE
    if not lately.filter(ended_at__lt=now - PACE).exists():  # they began within it: fewer days for what they have done
        began = lately.aggregate(began=Min("ended_at"))["began"]
        worked = min(PACE, max(timedelta(days=1), now - began))
    days = waiting * (worked / timedelta(days=1)) / answered
    if waiting >= LONG_QUEUE and days > LONG_DAYS:
        sentence = _("The labeling queue of %(pool)s is long: %(waiting)d queries are %(days)d days of work.")
        shown = {"pool": pool.name, "waiting": waiting, "days": round(days)}
        alarms.hold(Alarm.Kind.LABELING, sentence % shown, [[_("Answered in seven days"), str(answered)]], pool)


def _refused_models() -> None:
    problems: dict[str, str] = {}
    for sign in alive(Part.WEB):
        problems |= sign.problems
    for pool in Pool.objects.filter(slug__in=problems):
        sentence = _("The active model of %(pool)s cannot be loaded.") % {"pool": pool.name}
        alarms.hold(Alarm.Kind.REFUSED, sentence, [[_("Why"), problems[pool.slug][:400]]], pool)


def _waiting_jobs() -> None:
    global _seen_waiting
    before = timezone.now() - WAITS_TOO_LONG
    waiting: dict[tuple[str, int], str] = {}
    started = Run.objects.aggregate(last=Max("started_at"))["last"]
    kinds: tuple[tuple[str, Any], ...] = (
        (_("Queued runs"), Run),
        (_("Pre-labeling jobs"), PrelabelJob),
        (_("Writing jobs"), WritingJob),
        (_("Imports"), Import),
        (_("Background jobs"), BackgroundJob),
    )
    for title, kind in kinds:
        if kind.objects.filter(status="running").exists() or (kind is Run and started is not None and started > before):
            continue
        queued = kind.objects.filter(status="queued", created_at__lt=before).values_list("pk", flat=True)[:1_000]
        waiting |= {(kind.__name__, pk): title for pk in queued}
    # An old job that was just launched again is queued for a moment: what counts waits at two looks.
    counted = Counter(title for key, title in waiting.items() if key in _seen_waiting)
    _seen_waiting = frozenset(waiting)
    if counted:
        minutes = int(WAITS_TOO_LONG.total_seconds() // 60)
        message = _("Jobs have been waiting for more than %(minutes)d minutes, and none is being done.")
        evidence = [[title, str(count)] for title, count in counted.items()]
        alarms.hold(Alarm.Kind.QUEUE, message % {"minutes": minutes}, evidence)


def _dropped_decisions() -> None:
    lately = ProcessSign.objects.filter(dropped_at__gte=Now() - DROPPED_LATELY)
    evidence = [[sign.name, str(sign.dropped)] for sign in lately]
    if evidence:
        message = _(
            "Decisions were answered but not stored, because the database was unreachable for longer than DECISION_BUFFER covers."
        )
        alarms.hold(Alarm.Kind.DROPPED, message, evidence)


def _clusters() -> None:
    """An alarm while jobs wait for workers that do nothing, and for a while after a cluster had to be restarted."""
    titles = {Part.JOBS.value: _("short jobs"), Part.TRAINING.value: _("training")}
    evidence, still = [], []
    for queue_name, title in titles.items():
        waiting = OrmQ.objects.filter(key=queue_name, lock__lt=timezone.now() - STANDS_STILL).count()
        if waiting and not signs.working([queue_name]).exists():
            still.append(title)
            evidence.append([title, _("%(count)d jobs wait, no worker does anything") % {"count": waiting}])
    lately = ClusterSign.objects.filter(restarted_at__gt=Now() - RESTARTED_LATELY).order_by("-restarted_at")
    evidence += [
        [f"{titles.get(cluster.queue, cluster.queue)}, {cluster.machine}", cluster.why] for cluster in lately[:5]
    ]
    if still:
        message = _("Jobs wait, and no worker does anything: %(what)s.") % {"what": ", ".join(still)}
        alarms.hold(Alarm.Kind.CLUSTER, message, evidence)
    elif evidence:
        message = _("A job cluster was restarted: %(why)s.") % {"why": evidence[0][1]}
        alarms.hold(Alarm.Kind.CLUSTER, message, evidence)


def _missing_workers() -> None:
    now = timezone.now()
    titles: dict[str, str] = {Part.JOBS: _("short jobs"), Part.TRAINING: _("training")}
    queued: dict[str, bool] = {
        Part.TRAINING: Run.objects.filter(status=Run.Status.QUEUED, created_at__lt=now - MISSING).exists(),
        Part.JOBS: PrelabelJob.objects.filter(status="queued", created_at__lt=now - MISSING).exists(),
    }
    for process in processes.added():
        titles[process.part], queued[process.part] = str(process.title), process.waits(now - MISSING)
    evidence = []
    for part, title in titles.items():
        of_part = ProcessSign.objects.filter(part=part)
        last = of_part.aggregate(last=Max("at"))["last"]
        if last is None and queued[part]:
            evidence.append([title, _("no worker has ever run, and jobs wait")])
        elif last is not None and not of_part.filter(at__gte=Now() - MISSING).exists():
            evidence.append([title, _("last heartbeat %(time)s") % {"time": f"{last:%Y-%m-%d %H:%M:%S} UTC"}])
    if evidence:
        message = _("No worker is running for: %(what)s.") % {"what": ", ".join(row[0] for row in evidence)}
        alarms.hold(Alarm.Kind.WORKERS, message, evidence)


def _schedules(late: bool) -> None:
    """An alarm while scheduled work fails, or, where it is `late`, does not run; it ends when each has been done."""
    troubles = schedules.troubles()
    if not troubles:
        alarms.resolve(Alarm.Kind.SCHEDULE)
    troubles = [trouble for trouble in troubles if late or trouble.failing]
    if not troubles:
        return
    first, titles = troubles[0], ", ".join(f"“{trouble.work.title}”" for trouble in troubles)
    shown = {"job": first.work.title, "since": f"{first.since:%Y-%m-%d %H:%M} UTC", "jobs": titles}
    if len(troubles) > 1:
        sentence = _("Scheduled jobs fail or do not run: %(jobs)s.")
    elif first.failing:
        sentence = _("The scheduled job “%(job)s” has failed since %(since)s.")
    else:
        sentence = _("The scheduled job “%(job)s” has not run since %(since)s.")
    evidence = [row for trouble in troubles[:MOST_SCHEDULES] for row in _of_schedule(trouble)]
    alarms.hold(Alarm.Kind.SCHEDULE, sentence % shown, evidence)


def _of_schedule(trouble: schedules.Trouble) -> list[list[str]]:
    """What one job is in trouble for, and what to do, as rows of an alarm."""
    title, failing, since = trouble.work.title, trouble.failing, f"{trouble.since:%Y-%m-%d %H:%M} UTC"
    if failing is None:
        remedy = _("See that a jobs cluster runs (Processes), and what its log says of this job.")
        return [[title, _("has not run since %(since)s") % {"since": since}], [_("What to do"), remedy]]
    reason = _("failed since %(since)s, %(turns)d times in a row. The last time: %(error)s")
    # The class of an error tells ops nothing that its message does not.
    error = re.sub(r"^\w+: ", "", failing.error)[:400]
    rows = [[title, reason % {"since": since, "turns": failing.turns, "error": error}]]
    remedy = str(trouble.work.remedy) or _("Mend what the error names.")
    retry = _("The job tries again at least once an hour, and this alarm ends when it succeeds.")
    return [*rows, [_("What to do"), f"{remedy} {retry}"]]
