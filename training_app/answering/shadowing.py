"""Shadows: models that score live texts in a background thread and answer nothing.

A request only appends to a bounded queue in memory; when that is full the text is left out and counted. The thread rests REST times as
long as it works, so that of one processor it takes at most 1 / (1 + REST) from the requests of its process. What it found is written
in bulk; errors, of canaries too, are counted in memory and added to the database's tallies at each turn.
"""

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import IntegrityError, connection
from django.db.models import F
from django.utils import timezone

from routerweb import state
from routerweb.background import Background
from training_app.engine.routing import holding
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.router import Router
from training_app.models import LiveTally, RouterModel, ShadowScore

logger = logging.getLogger(__name__)

QUEUE = 1_000
TURN_SECONDS = 0.5
REST = 3.0


@dataclass(frozen=True, slots=True)
class Shadow:
    """A model that scores beside the active one; `available` and `rules` as for the model that answers."""

    pk: int
    name: str
    router: Router
    available: frozenset[int] | None
    rules: Rules = field(default_factory=Rules)

    def says(self, asked: Any) -> tuple[Sequence[int], bool]:
        """Its set for a text, and whether it abstains."""
        (route,) = holding.routes(self.router, [asked], self.available, rules=self.rules)
        return route.agents, route.abstained


class Scores(Protocol):
    """A shadow of any kind."""

    @property
    def pk(self) -> int:
        """The model's key."""

    def says(self, asked: Any) -> tuple[Sequence[int], bool]:
        """The agents (ids) that it would have chosen, and whether it abstains."""


class Task(NamedTuple):
    """One question for one shadow, as `says` takes it: who answered it, with which agents, in how many microseconds (0 where nobody
    measured); `number` is the decision's id."""

    shadow: Scores
    against: int
    number: int
    asked: Any
    answered: tuple[int, ...]
    microseconds: int


@dataclass(slots=True)
class Count:
    """What is not in the database's tally yet."""

    done: int = 0
    errors: int = 0
    skipped: int = 0
    error: str = ""
    at: datetime = field(default_factory=timezone.now)


_queue: deque[Task] = deque()
_counts: dict[tuple[int, str], Count] = {}
state.keep(__name__, "_queue", "Questions for shadows", QUEUE)
state.keep(__name__, "_counts", "Counts of shadows and canaries, not yet written", "two for each model that is tried")
_lock = threading.Lock()


def offer(task: Task) -> None:
    """Hand a text to the thread; left out and counted where the queue is full. Never waits."""
    if len(_queue) >= QUEUE:
        note(task.shadow.pk, LiveTally.Kind.SHADOW, skipped=1)
        return
    _queue.append(task)
    _scorer.start(rest=TURN_SECONDS)


def note(model: int, kind: str, *, done: int = 0, errors: int = 0, skipped: int = 0, error: str = "") -> None:
    """Count something of a model, in memory; the next turn writes it."""
    with _lock:
        count = _counts.setdefault((model, kind), Count())
        count.done += done
        count.errors += errors
        count.skipped += skipped
        if error:
            count.error, count.at = error[:300], timezone.now()
    _scorer.start(rest=TURN_SECONDS)


def waiting() -> int:
    """How many texts wait to be scored in this process."""
    return len(_queue)


def turn(rest: float = REST) -> int:
    """Score what waits, for about TURN_SECONDS, and write it; how many texts were scored.

    Raises django.db.Error where the database cannot be reached: the scores of this turn are then lost and counted as left out.
    """
    scores: list[ShadowScore] = []
    until = time.monotonic() + TURN_SECONDS
    while _queue and time.monotonic() < until:
        began = time.perf_counter()
        task = _queue.popleft()
        scored = _score(task)
        if scored is not None:
            scores.append(scored)
        time.sleep(rest * (time.perf_counter() - began))
    try:
        _write(scores)
    except DatabaseFault:
        for row in scores:
            note(row.model_id, LiveTally.Kind.SHADOW, skipped=1)
        raise
    _flush()
    return len(scores)


def _score(task: Task) -> ShadowScore | None:
    shadow = task.shadow
    began = time.perf_counter_ns()
    try:
        agents, abstained = shadow.says(task.asked)
    except Exception as error:  # whatever a candidate does wrong is what its shadowing is there to show
        note(shadow.pk, LiveTally.Kind.SHADOW, errors=1, error=f"{type(error).__name__}: {error}")
        return None
    return ShadowScore(
        model_id=shadow.pk,
        against_id=task.against,
        decision_id=uuid.UUID(int=task.number),
        agents=list(agents),
        answered=list(task.answered),
        abstained=abstained,
        microseconds=(time.perf_counter_ns() - began) // 1000,
        answered_in=task.microseconds,
        at=datetime.fromtimestamp((task.number >> 80) / 1000, UTC),
    )


def _write(scores: list[ShadowScore]) -> None:
    if not scores:
        return
    try:
        ShadowScore.objects.bulk_create(scores, ignore_conflicts=True, batch_size=200)
    except IntegrityError:  # a model was deleted meanwhile: its scores with it
        kept = set(RouterModel.objects.values_list("pk", flat=True))
        scores = [row for row in scores if {row.model_id, row.against_id} <= kept]
        ShadowScore.objects.bulk_create(scores, ignore_conflicts=True, batch_size=200)
    for row in scores:
        note(row.model_id, LiveTally.Kind.SHADOW, done=1)


def _flush() -> None:
    with _lock:
        counts = dict(_counts)
        _counts.clear()
    try:
        for (model, kind), count in counts.items():
            _add(model, kind, count)
    except DatabaseFault:
        for (model, kind), count in counts.items():
            note(model, kind, done=count.done, errors=count.errors, skipped=count.skipped, error=count.error)
        raise


def _add(model: int, kind: str, count: Count) -> None:
    try:
        LiveTally.objects.get_or_create(model_id=model, kind=kind)
    except IntegrityError:
        return  # the model is gone
    more = {name: F(name) + getattr(count, name) for name in ("done", "errors", "skipped")}
    if count.error:
        more |= {"last_error": count.error, "last_error_at": count.at}
    LiveTally.objects.filter(model_id=model, kind=kind).update(**more)


def prune(days: int | None = None, *, rows_at_once: int = 2_000) -> int:
    """Delete scores older than `days` (DECISION_DAYS), in small transactions; returns how many. Run once a day."""
    before = timezone.now() - timedelta(days=settings.DECISION_DAYS if days is None else days)
    deleted = 0
    old = ShadowScore.objects.filter(at__lt=before).order_by("at").values_list("pk", flat=True)
    while ids := list(old[:rows_at_once]):
        deleted += ShadowScore.objects.filter(pk__in=ids).delete()[0]
    return deleted


def forget(models: Collection[int] = ()) -> None:
    """Drop what waits: all of it, or that of some models."""
    with _lock:
        left = [task for task in _queue if models and task.shadow.pk not in models]
        _queue.clear()
        _queue.extend(left)
        for key in [key for key in _counts if not models or key[0] in models]:
            del _counts[key]


# --- The thread ---------------------------------------------------------------------------------------------------


_away = False


def _work() -> float:
    global _away
    try:
        turn()
        _away = False
    except DatabaseFault as error:
        if not _away:
            logger.warning("Shadows are not written while the database is away: %s", error)
        _away = True
        connection.close()
    return 0.0 if _queue and not _away else TURN_SECONDS


def _in_child() -> None:
    global _queue, _counts, _lock
    _queue, _counts, _lock = deque(), {}, threading.Lock()


_scorer = Background("shadow-scorer", lambda: _work(), in_child=_in_child)
