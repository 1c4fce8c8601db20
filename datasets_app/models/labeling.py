"""The labeling queue: what is asked, who holds it, what they have drafted, what was suggested to them, what they sent."""

from datetime import timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent, Pool
from routerweb.database.checks import check
from routerweb.holds import Holds

LOTS = 10_000  # an item's lots are drawn from 0 to 9,999: a share of 0.25 is every lot below 2,500
#: A queue's order, as its index has it: without the agent, though it is the same in all, PostgreSQL sorts everything that waits.
LINE = ("agent_id", "rank", "id")
SHARE = (MinValueValidator(0.0), MaxValueValidator(1.0))


class QueueSettings(models.Model):
    """How one pool's queue is worked: order, overlap, blind and evaluation shares. May change at any time."""

    class Order(models.TextChoices):
        RANDOM = "random", _("Random")
        OLDEST = "oldest", _("Oldest first")
        DISAGREEMENT = "disagreement", _("LLM and people disagree")
        UNCERTAINTY = "uncertainty", _("The model is least certain")
        NOVELTY = "novelty", _("Least like what is labeled")
        DIVERSE = "diverse", _("Uncertain and varied batches")

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="queue_settings")
    order = models.CharField(_("order"), max_length=12, choices=Order.choices, default=Order.DIVERSE)
    order_agent = models.ForeignKey(
        Agent,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("uncertain about"),
        help_text=_("Least certain about this agent alone; empty: about the whole set."),
    )
    seed = models.PositiveIntegerField(_("seed"), default=0, help_text=_("Another seed, another random order."))
    overlap = models.PositiveSmallIntegerField(
        _("labelers per overlapping query"), default=2, validators=(MinValueValidator(1), MaxValueValidator(10))
    )
    overlap_share = models.FloatField(
        _("overlapping share"),
        default=0.1,
        validators=SHARE,
        help_text=_("The share of queries that several people label independently, so that agreement can be measured."),
    )
    blind_share = models.FloatField(
        _("blind share"),
        default=0.1,
        validators=SHARE,
        help_text=_("The share of queries shown without suggestions, so that accepting them unread would show."),
    )
    evaluation_share = models.FloatField(
        _("evaluation share"),
        default=0.1,
        validators=SHARE,
        help_text=_(
            "The share of queries drawn at random whatever the order: only these are a fair sample to measure on."
        ),
    )
    idle_minutes = models.PositiveSmallIntegerField(
        _("idle minutes"), default=5, help_text=_("After this idle time, a query is free for others again.")
    )
    filled_to = models.PositiveBigIntegerField(default=0, editable=False)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = _("queue settings")
        verbose_name_plural = _("queue settings")
        constraints = (
            check("overlap_at_least_one", overlap__gte=1),
            check(
                "queue_shares_are_shares",
                overlap_share__range=(0, 1),
                blind_share__range=(0, 1),
                evaluation_share__range=(0, 1),
            ),
        )

    def __str__(self) -> str:
        return f"{self.pool.name} · {self.get_order_display()}"

    @property
    def idle(self) -> timedelta:
        """How long a lease lasts without a sign of life."""
        return timedelta(minutes=self.idle_minutes)


class QueueItem(models.Model):
    """One question: which agents does this query need (`agent` empty), or: does it need this one agent?

    `taken` counts the people who hold or have answered it, `needed` how many are wanted; the item is open while taken < needed.
    `decided`: a label that no labeler gave for it has closed it (a review, an import, accepted suggestions, a correction).
    The three lots were drawn once, from the query's own hash: a share that changes moves the line, never the lots.
    """

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="queue_items")
    query = models.ForeignKey("datasets_app.Query", on_delete=models.CASCADE, related_name="queue_items")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, null=True, blank=True, related_name="reask_items")
    wanted = models.BooleanField(default=True)
    decided = models.BooleanField(default=False, help_text=_("A reviewer's decision has closed it."))
    needed = models.PositiveSmallIntegerField(default=1)
    extra = models.PositiveSmallIntegerField(
        default=0, help_text=_("Answers that were asked for beyond the settings'.")
    )
    taken = models.PositiveSmallIntegerField(default=0)
    rank = models.FloatField(default=0.0, help_text=_("The lowest is asked first."))
    random_key = models.FloatField(default=0.0)
    overlap_lot = models.PositiveSmallIntegerField(default=0)
    blind_lot = models.PositiveSmallIntegerField(default=0)
    evaluation_lot = models.PositiveSmallIntegerField(default=0)
    uncertainty = models.FloatField(_("uncertainty"), null=True, blank=True)
    novelty = models.FloatField(_("novelty"), null=True, blank=True)
    disagreement = models.FloatField(_("disagreement"), default=0.0, help_text=_("Mean MASI distance between people."))
    llm_disagreement = models.FloatField(_("LLM disagreement"), default=0.0)
    note = models.CharField(
        _("why it is asked"), max_length=300, blank=True, help_text=_("Shown to labelers, except on blind items.")
    )
    holds = Holds(remark=[note])

    class Meta:
        verbose_name = _("queue item")
        verbose_name_plural = _("queue items")
        constraints = (
            models.UniqueConstraint(
                fields=("query",), condition=models.Q(agent__isnull=True), name="one_queue_item_per_query"
            ),
            models.UniqueConstraint(
                fields=("query", "agent"),
                condition=models.Q(agent__isnull=False),
                name="one_queue_item_per_query_and_agent",
            ),
            check("queue_item_taken_not_negative", taken__gte=0),
        )
        indexes = (
            models.Index(
                fields=("pool", "agent", "rank", "id"),
                condition=models.Q(taken__lt=models.F("needed")),
                name="queue_open_by_rank",
            ),
            models.Index(
                fields=("pool", "random_key"),
                condition=models.Q(taken__lt=models.F("needed"), agent__isnull=True),
                name="queue_open_at_random",
            ),
            models.Index(
                fields=("pool", "-disagreement", "query"),
                condition=models.Q(disagreement__gt=0, agent__isnull=True),
                name="queue_by_disagreement",
            ),
        )

    def __str__(self) -> str:
        return f"{self.query_id}" + (f" · {self.agent_id}" if self.agent_id else "")


class Assignment(models.Model):
    """One person's hold on one item: held (a lease that ends unless it is renewed), done, or skipped with a reason."""

    class State(models.TextChoices):
        HELD = "held", _("Held")
        DONE = "done", _("Done")
        SKIPPED = "skipped", _("Skipped")

    item = models.ForeignKey(QueueItem, on_delete=models.CASCADE, related_name="assignments")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="assignments")
    state = models.CharField(_("state"), max_length=7, choices=State.choices, default=State.HELD)
    taken_at = models.DateTimeField(default=timezone.now)
    leased_until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=200, blank=True)
    drawn = models.BooleanField(_("of the evaluation sample"), default=False)  # given at random, not chosen by anybody
    blind = models.BooleanField(_("blind"), default=False)
    shown = models.JSONField(default=list, help_text=_("The suggestions that this person was shown, as they were."))
    holds = Holds(remark=[reason, shown])

    class Meta:
        verbose_name = _("assignment")
        verbose_name_plural = _("assignments")
        constraints = (
            models.UniqueConstraint(fields=("item", "person"), name="one_assignment_per_item_and_person"),
            check("assignment_state_known", state__in=("held", "done", "skipped")),
        )
        indexes = (
            models.Index(fields=("leased_until",), condition=models.Q(state="held"), name="leases_by_end"),
            models.Index(fields=("item",), condition=models.Q(state="skipped"), name="items_skipped"),
            models.Index(fields=("person", "state", "-ended_at")),
        )

    def __str__(self) -> str:
        return f"{self.person_id}: {self.item_id} {self.state}"


class Draft(models.Model):
    """What a person has chosen for a query, or for the question about one agent, and not yet sent. Not a label.

    `version` grows with every save.

    `writer` names the browser tab that saved last and `step` counts that tab's saves, so that a save which arrives twice or late
    is recognised, and a save of another tab is a conflict that is shown.
    """

    query = models.ForeignKey("datasets_app.Query", on_delete=models.CASCADE, related_name="drafts")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="drafts")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    required = models.JSONField(default=list)
    none = models.BooleanField(default=False, help_text=_("“None of these” was chosen."))
    unsure = models.BooleanField(default=False)
    note = models.CharField(max_length=500, blank=True)
    version = models.PositiveIntegerField(default=1)
    writer = models.CharField(max_length=40, blank=True)
    step = models.PositiveIntegerField(default=0)
    saved_at = models.DateTimeField(auto_now=True)
    holds = Holds(remark=[note, writer], neither=[required])

    class Meta:
        verbose_name = _("draft")
        verbose_name_plural = _("drafts")
        constraints = (
            models.UniqueConstraint(
                fields=("query", "person"),
                condition=models.Q(agent__isnull=True),
                name="one_draft_per_query_and_person",
            ),
            models.UniqueConstraint(
                fields=("query", "person", "agent"),
                condition=models.Q(agent__isnull=False),
                name="one_draft_per_query_person_and_agent",
            ),
        )

    def __str__(self) -> str:
        return f"{self.person_id}: {self.query_id} v{self.version}"


class Suggestion(models.Model):
    """Per-agent scores that a trained model offers for a query. Never an answer. (The LLM's are its current label.)"""

    query = models.OneToOneField("datasets_app.Query", on_delete=models.CASCADE, related_name="suggestion")
    version = models.CharField(max_length=120, help_text=_("The model's name."))
    required = models.JSONField(default=list)
    scores = models.JSONField(default=dict, help_text=_("Agent id → probability."))
    made_at = models.DateTimeField(auto_now=True)
    holds = Holds(neither=[version, required, scores])

    class Meta:
        verbose_name = _("suggestion")
        verbose_name_plural = _("suggestions")

    def __str__(self) -> str:
        return f"{self.version}: {self.required}"


class Submission(models.Model):
    """One submit of a labeler under the key that their browser made: the same key again is the same submission.

    `together`: the submission whose answer this query, which reads like the other one, was given with; all are undone as one.
    """

    key = models.CharField(max_length=64, unique=True)
    item = models.ForeignKey(QueueItem, on_delete=models.CASCADE, related_name="submissions")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="submissions")
    label = models.ForeignKey("datasets_app.Label", on_delete=models.CASCADE, related_name="submissions")
    at = models.DateTimeField(default=timezone.now)
    undone_at = models.DateTimeField(null=True, blank=True)
    together = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="followers")
    holds = Holds(remark=[key])

    class Meta:
        verbose_name = _("submission")
        verbose_name_plural = _("submissions")
        indexes = (models.Index(fields=("person", "-at")),)

    def __str__(self) -> str:
        return self.key


class PeersSeen(models.Model):
    """A person has seen what others said of a query: what they say of it from then on is not independent."""

    query = models.ForeignKey("datasets_app.Query", on_delete=models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("query", "person"), name="peers_seen_once"),)

    def __str__(self) -> str:
        return f"{self.person_id}: {self.query_id}"


class BulkChange(models.Model):
    """What was done as one to everything that a search returned, and is undone as one: an agent added or removed, suggestions
    accepted, sent to the queue, deleted."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="bulk_changes")
    action = models.CharField(max_length=20, help_text=_("The code of one of `bulk_actions.ACTIONS`."))
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    search = models.CharField(max_length=400, blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    total = models.PositiveIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)
    holds = Holds(remark=[search], neither=[action])

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("bulk change")
        verbose_name_plural = _("bulk changes")

    def __str__(self) -> str:
        return f"{self.action} {self.agent_id} · {self.search}"


class BulkChangeEntry(models.Model):
    """One query of a bulk change, and what undoing it needs to know: `before`, as its action returned it; null where the change did
    nothing to the query."""

    change = models.ForeignKey(BulkChange, on_delete=models.CASCADE, related_name="entries")
    query = models.ForeignKey("datasets_app.Query", on_delete=models.CASCADE, related_name="+")
    before = models.JSONField(null=True)
    holds = Holds(neither=[before])

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("change", "query"), name="bulk_change_touches_a_query_once"),)

    def __str__(self) -> str:
        return f"{self.change_id}: {self.query_id}"
