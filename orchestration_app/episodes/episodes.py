"""Episodes as rows: begun, claimed, cancelled, judged, found dead, pruned. The runner calls agents; nothing here does."""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, privacy
from agents_app.background_work import jobs
from agents_app.models import Pool
from orchestration_app.backends import served
from orchestration_app.engine.backends.choosing import Preference
from orchestration_app.engine.orchestrating import state
from orchestration_app.engine.orchestrating.rewards import Reward, reward_of
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from orchestration_app.episodes.policies import Decider, Orchestra
from orchestration_app.models import UNDER_WAY, Episode, Step
from routerweb.observing import tracing
from training_app.answering.decisions import new_id
from training_app.engine.settings import ConfigError

#: An episode whose process died so often is given up.
MOST_LOSSES = 5
#: Whoever waits for an episode's answer has read it by then.
ANSWER_READ = timedelta(minutes=1)
Status = Episode.Status


class EpisodeError(Exception):
    """Why an episode cannot be begun, cancelled or judged, in words for whoever asked for it; `code` is a word for programs."""

    def __init__(self, message: str, code: str = "invalid") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. `agents` are the ids that may be called, None for all; `aggregator` makes one answer of all outputs under
    the rule `compose`, "" for the pool's."""

    messages: Sequence[Mapping[str, str]]
    max_steps: int = 0
    budget: float | None = None
    paths: int = 1
    together: int = 1
    agents: frozenset[int] | None = None
    aggregator: int | None = None
    compose: str = ""
    seed: int | None = None
    preference: Preference | None = None
    explore: float = 0.0  # of the pool, not of the request

    def digest(self) -> str:
        """What makes it another request under the same Idempotency-Key. SHA-256, 64 hexadecimal digits."""
        values = [
            [dict(message) for message in self.messages], self.max_steps, self.budget, self.paths, self.together,
            None if self.agents is None else sorted(self.agents), self.aggregator, self.seed,
        ]  # fmt: skip
        if self.compose:
            values.append(self.compose)
        if self.preference is not None:
            values.append(asdict(self.preference))
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def begin(
    pool_id: int,
    wanted: Wanted,
    decider: Decider,
    orchestra: Orchestra,
    *,
    api_key: int | None = None,
    author: User | None = None,
    idempotency_key: str = "",
) -> tuple[Episode, bool]:
    """A new episode, queued; and whether it is new: the same Idempotency-Key is the same episode.

    Raises EpisodeError where that key named another request.
    """
    digest = wanted.digest()
    if idempotency_key and (earlier := _known(api_key, idempotency_key, digest)):
        return earlier, False
    rule, writer = orchestra.answering.of(wanted.compose, wanted.aggregator, orchestra.callable)
    allowed = orchestra.callable if wanted.agents is None else orchestra.callable & wanted.agents
    episode = Episode(
        id=uuid.UUID(int=new_id(timezone.now().timestamp())),
        pool_id=pool_id,
        model_id=decider.model,
        policy=decider.name,
        api_key_id=api_key,
        author=author,
        idempotency_key=idempotency_key,
        request_digest=digest,
        task=state.task_of(wanted.messages),
        messages=[dict(message) for message in wanted.messages],
        max_steps=wanted.max_steps or getattr(decider.policy, "max_steps", settings.EPISODE_STEPS),
        budget=wanted.budget,
        paths=wanted.paths,
        plan={
            "agents": sorted(allowed), "seed": wanted.seed, "together": wanted.together, "aggregator": writer, "compose": rule,
            "explore": wanted.explore,
            "preference": None if wanted.preference is None else asdict(wanted.preference), "trace": tracing.passed_on(),
        },
    )  # fmt: skip
    try:
        with transaction.atomic():
            episode.save(force_insert=True)
    except IntegrityError:
        # Somebody else began it under the same key at the same time.
        if idempotency_key and (earlier := _known(api_key, idempotency_key, digest)):
            return earlier, False
        raise
    return episode, True


def _known(api_key: int | None, key: str, digest: str) -> Episode | None:
    episode = Episode.objects.filter(api_key_id=api_key, idempotency_key=key).select_related("pool").first()
    if episode is not None and episode.request_digest != digest:
        raise EpisodeError(_("This Idempotency-Key was used for another request."), "key_used")
    return episode


def claim_waiting(limit: int) -> list[tuple[uuid.UUID, uuid.UUID]]:
    """Claim up to so many queued episodes, the oldest first: their ids and attempts."""
    waiting = Episode.objects.filter(status=Status.QUEUED).order_by("created_at")
    claimed = []
    for key in list(waiting.values_list("pk", flat=True)[:limit]):
        attempt = jobs.claim(Episode, key)
        if attempt is not None:
            claimed.append((key, attempt))
    return claimed


def beat(held: Mapping[uuid.UUID, uuid.UUID]) -> set[uuid.UUID]:
    """Say that these episodes (id → attempt) are alive; those that are no longer this process's."""
    keys = list(held)
    owned: set[uuid.UUID] = set()
    for at in range(0, len(keys), 200):
        running = Episode.objects.filter(pk__in=keys[at : at + 200], status=Status.RUNNING)
        own_keys = [key for key, attempt in running.values_list("pk", "attempt") if held[key] == attempt]
        Episode.objects.filter(pk__in=own_keys, status=Status.RUNNING).update(heartbeat_at=Now())
        owned.update(own_keys)
    return set(keys) - owned


def release(held: Mapping[uuid.UUID, uuid.UUID]) -> None:
    """Put episodes back into the queue, as the process ends in order: another goes on with them."""
    for key, attempt in held.items():
        jobs.owned(Episode, key, attempt).update(status=Status.QUEUED, attempt=None)


def end_dead() -> int:
    """Put the episodes of dead processes back into the queue, or give them up after MOST_LOSSES; how many."""
    return jobs.end_dead(Episode, interrupted)


def interrupted(episode: Episode, row: "QuerySet[Episode]") -> bool:
    """Put an episode whose process died back into the queue, or give it up after MOST_LOSSES."""
    if episode.losses >= MOST_LOSSES:
        why = _("Its process died %(count)d times.") % {"count": episode.losses + 1}
        return bool(
            row.update(status=Status.FAILED, stop_reason="interrupted", error=why, finished_at=Now(), attempt=None)
        )
    return bool(row.update(status=Status.QUEUED, attempt=None, losses=F("losses") + 1))


def cancel(episode: Episode, *, actor: audit.Who = None) -> None:
    """End an episode; a call under way is not waited for. Raises EpisodeError where it has ended already."""
    with transaction.atomic():
        running = Episode.objects.filter(pk=episode.pk, status__in=UNDER_WAY)
        if not running.update(status=Status.CANCELLED, stop_reason="cancelled", finished_at=Now(), attempt=None):
            raise EpisodeError(_("This episode has ended already."), "ended")
        audit.record("episode.cancelled", actor=actor, target=str(episode.pk), pool=episode.pool)
    totals(episode.pk)
    episode.refresh_from_db()


def totals(key: uuid.UUID) -> None:
    """Write what the stored steps of an episode add up to, where its loop could not say so at its end."""
    rows = list(
        Step.objects.filter(episode_id=key, call__isnull=False).values_list("turn", "cost", "tokens", "latency")
    )
    longest: dict[int, float] = {}
    for turn, _cost, _tokens, latency in rows:
        longest[turn] = max(longest.get(turn, 0.0), latency)
    Episode.objects.filter(pk=key).update(
        steps=len(longest), cost=sum(row[1] for row in rows), tokens=sum(row[2] for row in rows),
        latency=sum(longest.values()),
    )  # fmt: skip


def judge(
    episode: Episode,
    *,
    success: bool | None,
    rating: float | None = None,
    comment: str = "",
    person: User | None = None,
    judge: str = Episode.Judge.APPLICATION,
) -> None:
    """Say how well an episode did: a person on its page, the application, or who `judge` says. A later word replaces an earlier one.

    Raises EpisodeError where it has not ended.
    """
    ended = Episode.objects.filter(pk=episode.pk).exclude(status__in=UNDER_WAY)
    judge = Episode.Judge.PERSON if person else judge
    comment = privacy.redacted(episode.pool_id, [comment])[0]
    if not ended.update(
        success=success, rating=rating, comment=comment, judge=judge, judged_by=person, judged_at=timezone.now()
    ):
        raise EpisodeError(_("This episode has not ended yet."), "running")
    episode.refresh_from_db()
    _pay(episode)
    backends = [row.metadata.get("backend") for row in episode.trajectory.exclude(call=None)]
    if calls := [uuid.UUID(backend["call"]) for backend in backends if backend]:
        served.judged(episode.pool_id, calls, episode.score >= 0.5)


def _pay(episode: Episode) -> None:
    """Write what each decision of a judged episode was worth, by the reward that its version was trained for: r is paid once, at the
    end of each path."""
    score, reward = episode.score, _reward(episode)
    rows = list(episode.trajectory.filter(aim="answer").order_by("path", "turn", "place"))
    for path in {row.path for row in rows}:
        turns = list(dict.fromkeys(row.turn for row in rows if row.path == path))
        beside = [[row for row in rows if row.path == path and row.turn == turn] for turn in turns]
        costs = [reward.cost([row.as_call() for row in now if row.agent is not None]) for now in beside]
        for now, worth in zip(beside, reward.returns(costs, score, episode.max_steps), strict=True):
            for row in now:
                row.reward = float(worth)
    Step.objects.bulk_update(rows, ["reward"])


def _reward(episode: Episode) -> Reward:
    """The reward that the episode's version was trained for; the defaults where it does not say."""
    settings_of_model = episode.model.card.content.get("settings") if episode.model is not None else None
    try:
        config = OrchestratorConfig.from_mapping(settings_of_model or {})
    except ConfigError:  # of another version of Routerweb
        config = OrchestratorConfig()
    return reward_of(config)


def prune() -> int:
    """Delete episodes that are older than their pool's days, else EPISODE_DAYS; how many. A schedule calls it."""
    waiting = Episode.objects.exclude(status=Status.RUNNING)
    return privacy.delete_old(waiting, "created_at", default=settings.EPISODE_DAYS, rows_at_once=200)


def redact_ended() -> int:
    """Take out of episodes what their pools redact, once they have ended for a minute: agents read the real task, and who waits for
    the answer reads that. Returns how many. A schedule calls it each minute."""
    done = 0
    before = timezone.now() - ANSWER_READ
    for pool, redactor in privacy.redactors().items():
        ended = Episode.objects.filter(pool=pool, redacted=False, finished_at__lt=before)
        for episode in ended.exclude(status__in=UNDER_WAY).order_by("finished_at")[:500]:
            with transaction.atomic():
                for step in episode.trajectory.all():
                    Step.objects.filter(pk=step.pk).update(**privacy.changes_of(step, redactor))
                changes = privacy.changes_of(episode, redactor)
                Episode.objects.filter(pk=episode.pk).update(**changes, redacted=True)
            done += 1
    return done


def of_pool(pool: Pool) -> "QuerySet[Episode]":
    """The pool's episodes, newest first."""
    return Episode.objects.filter(pool=pool).select_related("pool", "model__pool")
