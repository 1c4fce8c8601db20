"""Episodes: a task that agents work on one after another, each step of it, and the places for calls that processes hold."""

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.background_work.jobs import Job
from agents_app.models import ApiKey, Pool
from orchestration_app.engine.orchestrating.state import Call
from routerweb.database.checks import check
from routerweb.holds import Holds
from training_app.models.versions import RouterModel


class Episode(Job):
    """One task from its first call to its answer. A job like others: claimed, beating, interrupted where its process died, resumed.

    `plan` is all that the first step was decided from beside the task, frozen, so that an episode goes on as it began: the ids that
    may be called, the seed, what the caller asked for. Costs are in the pool's currency, `latency` in seconds. `composed` is the rule
    that made the answer, `missing` the parts that it lacks: each an agent, why, and at which step.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        WAITING = "waiting", _("Waiting for a person")
        DONE = "done", _("Done")
        PARTIAL = "partial", _("Partial")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    class Judge(models.TextChoices):
        APPLICATION = "application", _("The application")
        PERSON = "person", _("A person")
        LANGUAGE_MODEL = "llm", _("A language model")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="episodes")
    status = models.CharField(_("status"), max_length=9, choices=Status.choices, default=Status.QUEUED)
    model = models.ForeignKey(
        RouterModel, on_delete=models.PROTECT, null=True, blank=True, related_name="episodes", verbose_name=_("model")
    )
    policy = models.CharField(
        _("policy"), max_length=90, help_text=_("The version that decided, or a baseline's name.")
    )
    api_key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    idempotency_key = models.CharField(max_length=200, blank=True, editable=False)
    request_digest = models.CharField(max_length=64, blank=True, editable=False)
    task = models.TextField(_("task"))
    messages = models.JSONField(_("messages"), default=list)
    plan = models.JSONField(_("plan"), default=dict)
    max_steps = models.PositiveSmallIntegerField(_("most steps"), default=8)
    budget = models.FloatField(_("budget"), null=True, blank=True)
    paths = models.PositiveSmallIntegerField(_("paths"), default=1)
    answer = models.TextField(_("answer"), blank=True)
    composed = models.CharField(_("answer made by"), max_length=8, blank=True, db_default="", editable=False)
    missing = models.JSONField(
        _("missing"), default=list, db_default=models.Value([], models.JSONField()), editable=False
    )
    stop_reason = models.CharField(_("stop reason"), max_length=20, blank=True)
    steps = models.PositiveSmallIntegerField(_("steps"), default=0)
    cost = models.FloatField(_("cost"), default=0.0)
    tokens = models.PositiveBigIntegerField(_("tokens"), default=0)
    latency = models.FloatField(_("seconds"), default=0.0)
    success = models.BooleanField(_("success"), null=True, blank=True)
    rating = models.FloatField(_("rating"), null=True, blank=True)
    judge = models.CharField(_("judged by"), max_length=11, choices=Judge.choices, blank=True)
    judged_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    judged_at = models.DateTimeField(null=True, blank=True, editable=False)
    comment = models.TextField(_("comment"), blank=True)
    redacted = models.BooleanField(default=False, editable=False, help_text=_("Without what its pool redacts."))
    holds = Holds(
        query=[task, messages],
        remark=[idempotency_key, task, messages, plan, answer, missing, comment],
        neither=[policy, request_digest, stop_reason, composed],
        days="episode_days",
    )

    class Meta:
        ordering = ("-created_at",)
        verbose_name = _("episode")
        verbose_name_plural = _("episodes")
        constraints = (
            models.UniqueConstraint(
                fields=("api_key", "idempotency_key"),
                condition=~models.Q(idempotency_key=""),
                name="one_episode_per_idempotency_key",
            ),
            check(
                "episode_status_known",
                status__in=("queued", "running", "waiting", "done", "partial", "failed", "cancelled"),
            ),
            check("episode_rating_is_a_share", models.Q(rating__isnull=True) | models.Q(rating__gte=0, rating__lte=1)),
        )
        indexes = (
            models.Index(fields=("pool", "-created_at")),
            models.Index(fields=("status", "created_at")),
            models.Index(fields=("model", "-created_at")),
        )

    def __str__(self) -> str:
        return str(self.id)

    @property
    def score(self) -> float:
        """How well it did, 0..1: as it was rated, else 1 for a success."""
        return self.rating if self.rating is not None else float(self.success or False)

    @property
    def answered(self) -> bool:
        """Whether it has an answer, whole or in part."""
        return self.status in ANSWERED

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status not in UNDER_WAY


#: Episodes in these states have not ended.
UNDER_WAY = (Episode.Status.QUEUED, Episode.Status.RUNNING, Episode.Status.WAITING)
#: Episodes in these states have an answer.
ANSWERED = (Episode.Status.DONE, Episode.Status.PARTIAL)


class Step(models.Model):
    """One decision of an episode and what came of it: a call of an agent, or the end of a path (`agent` is empty, `reason` says why).

    An episode goes in turns; in each, every live path takes its next step, which may call several agents at once. `turn`, `path`
    and `place` name the row; `call` is the call's number in the episode. `probabilities` are the policy's over `candidates`, agents'
    ids and null for stopping; `propensity` is how likely this choice was. `call_key` is sent as the Idempotency-Key, and is kept
    before the call is made, `worst` is what was set aside for it.

    A call is `running` from the moment that it is decided, so that what is made is always stored before. One that waits long for a
    place within its limits is `queued` meanwhile: nobody was called.

    A call that waits for a person, because its agent asked something or because somebody approves it first, is `waiting`; once they
    have said so it is `answered`, until it goes on. `metadata` then holds what it waits for and what was said (`episodes.asides`).
    """

    class Status(models.TextChoices):
        QUEUED = "queued", _("Waiting for a place")
        RUNNING = "running", _("Running")
        WAITING = "waiting", _("Waiting for a person")
        ANSWERED = "answered", _("Answered, goes on")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")

    # No index of its own: the constraint's begins with it, and every call is two writes.
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="trajectory", db_index=False)
    turn = models.PositiveSmallIntegerField(_("turn"))
    path = models.PositiveSmallIntegerField(_("path"), default=0)
    place = models.PositiveSmallIntegerField(default=0)
    number = models.PositiveSmallIntegerField(_("step"))
    call = models.PositiveSmallIntegerField(_("call"), null=True)
    agent = models.PositiveIntegerField(_("agent"), null=True)
    aim = models.CharField(max_length=9, default="answer")
    reason = models.CharField(_("reason"), max_length=12, blank=True)
    state = models.JSONField(_("state"), default=dict)
    candidates = models.JSONField(_("candidates"), default=list)
    probabilities = models.JSONField(_("probabilities"), default=list)
    propensity = models.FloatField(_("propensity"), default=1.0)
    worst = models.FloatField(_("set aside"), default=0.0)
    status = models.CharField(_("status"), max_length=8, choices=Status.choices, default=Status.RUNNING)
    call_key = models.CharField(max_length=64, blank=True)
    output = models.TextField(_("output"), blank=True)
    failure = models.CharField(_("failure"), max_length=20, blank=True)
    why = models.CharField(_("why"), max_length=400, blank=True)
    cost = models.FloatField(_("cost"), default=0.0)
    tokens = models.PositiveIntegerField(_("tokens"), default=0)
    latency = models.FloatField(_("seconds"), default=0.0)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    metadata = models.JSONField(_("metadata"), default=dict)
    reward = models.FloatField(_("reward"), null=True)
    at = models.DateTimeField(auto_now_add=True)
    holds = Holds(
        remark=[state, output, why, metadata], neither=[aim, reason, candidates, probabilities, call_key, failure]
    )

    class Meta:
        ordering = ("episode", "turn", "path", "place")
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        constraints = (
            models.UniqueConstraint(fields=("episode", "turn", "path", "place"), name="one_row_per_call_of_a_turn"),
            check("step_status_known", status__in=("queued", "running", "waiting", "answered", "done", "failed")),
        )

    def __str__(self) -> str:
        return f"{self.episode_id}/{self.turn}"

    def as_call(self) -> Call:
        """The call as an orchestrator's state holds it. An `answer` in its metadata is the part that answers the task."""
        assert self.agent is not None
        answer, failed = self.metadata.get("answer", self.output), self.status == self.Status.FAILED
        final_answer = answer if not failed and isinstance(answer, str) and answer.strip() else None
        return Call(self.agent, self.output, failed, self.cost, self.tokens, self.latency, final_answer)


class EpisodeMark(models.Model):
    """What a language model said of an episode's answer by a rubric, 0 to 1. Kept beside what people say of it: what such marks are
    worth is how far they agree. `judge` is the model's name, `rubric` the SHA-256 of the rubric, `digest` that of rubric, task and
    answer: the same answer is asked about once."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="marks")
    judge = models.CharField(_("judge"), max_length=200)
    rubric = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    mark = models.FloatField(_("mark"))
    at = models.DateTimeField(auto_now_add=True)
    holds = Holds(setting=[judge], neither=[rubric, digest])

    class Meta:
        ordering = ("-pk",)
        constraints = (
            models.UniqueConstraint(fields=("episode", "judge", "rubric"), name="one_mark_per_judge_and_rubric"),
            check("episode_mark_is_a_share", mark__gte=0, mark__lte=1),
        )

    def __str__(self) -> str:
        return f"{self.judge} {self.mark:g}"


class CallPlaces(models.Model):
    """What processes hold of one agent's or one provider's limits.

    `held` are the processes that call: by name, when each was last heard of, in the database's seconds since 1970, how many places it
    holds and how many more it waits for. `free` is what is left of the minute, as of `at`.
    """

    key = models.CharField(max_length=300, primary_key=True)
    at = models.FloatField(default=0.0)
    free = models.FloatField(null=True)
    held = models.JSONField(default=dict)
    holds = Holds(setting=[key], neither=[held], backup=False)

    def __str__(self) -> str:
        return self.key


#: Calls in these states have no outcome yet, and wait for no person.
NO_OUTCOME = (Step.Status.QUEUED, Step.Status.RUNNING)
