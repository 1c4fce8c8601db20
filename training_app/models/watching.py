"""What watches an installation and tells of it: drift over time, alarms, whom they are told to, and signs of life of its processes."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.database.checks import check
from routerweb.holds import Holds


class DriftReference(models.Model):
    """What a model's traffic looks like when all is well: counts by measure, and which words and parts of words training held.

    `counts` is {measure: [count, …]} over the bins of `drift.MEASURES`; `means` is {measure: mean}. `words` and `grams` are ascending
    uint32 hashes, little-endian; empty where nothing is known of the training texts.
    """

    class Source(models.TextChoices):
        SNAPSHOT = "snapshot", _("The snapshot's validation and test queries")
        DECISIONS = "decisions", _("The model's first decisions")
        ACCEPTED = "accepted", _("Traffic that was accepted as the new reference")

    model = models.OneToOneField("training_app.RouterModel", on_delete=models.CASCADE, related_name="drift_reference")
    source = models.CharField(max_length=9, choices=Source.choices)
    texts = models.PositiveIntegerField(_("texts"))
    counts = models.JSONField(default=dict)
    means = models.JSONField(default=dict)
    words = models.BinaryField(default=bytes)
    grams = models.BinaryField(default=bytes)
    at = models.DateTimeField(auto_now=True)
    holds = Holds(neither=[counts, means, words, grams])

    def __str__(self) -> str:
        return f"{self.model_id} {self.source}"


class DriftPoint(models.Model):
    """What one look at a pool's recent decisions found: {measure: {live, reference, distance, limit, drifts}} and the newest words."""

    model = models.ForeignKey("training_app.RouterModel", on_delete=models.CASCADE, related_name="drift_points")
    at = models.DateTimeField(default=timezone.now)
    since = models.DateTimeField(_("oldest decision"))
    texts = models.PositiveIntegerField(_("texts"))
    measures = models.JSONField(default=dict)
    words = models.JSONField(default=list)
    drifts = models.BooleanField(default=False)
    holds = Holds(remark=[words], neither=[measures])

    class Meta:
        ordering = ("-at",)
        indexes = (models.Index(fields=("model", "-at")),)

    def __str__(self) -> str:
        return f"{self.model_id} {self.at:%Y-%m-%d %H:%M}"


class Alarm(models.Model):
    """Something that somebody has to look at, with its evidence; open until it has passed. `pool` is None for the whole site."""

    class Kind(models.TextChoices):
        DRIFT = "drift", _("Drift")
        PROMISE = "promise", _("Quality is below its promise")
        RUNS = "runs", _("Runs fail")
        QUEUE = "queue", _("Jobs wait")
        SCHEDULE = "schedule", _("A scheduled job fails or does not run")
        DROPPED = "dropped", _("Decisions were dropped")
        WORKERS = "workers", _("Workers are missing")
        CLUSTER = "cluster", _("A job cluster stands still")
        REFUSED = "refused", _("A model cannot be loaded")
        LABELING = "labeling", _("Labeling queue")
        APPROVAL = "approval", _("A promotion or a canary waits for approval")
        KEYS = "keys", _("An API key expires")
        QUOTA = "quota", _("A key's month is nearly used up")
        SPENT = "spent", _("A key's month is used up")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, blank=True, related_name="alarms")
    kind = models.CharField(_("kind"), max_length=8, choices=Kind.choices)
    sentence = models.CharField(_("what"), max_length=500)
    evidence = models.JSONField(_("evidence"), default=list, help_text=_("Rows of a name and a value."))
    opened_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(_("last seen"), default=timezone.now)
    resolved_at = models.DateTimeField(null=True, blank=True)
    holds = Holds(remark=[sentence, evidence])

    class Meta:
        ordering = ("-opened_at", "-pk")
        verbose_name = _("alarm")
        verbose_name_plural = _("alarms")
        constraints = (
            models.UniqueConstraint(
                fields=("pool", "kind"), condition=Q(resolved_at__isnull=True), name="one_open_alarm_per_pool_and_kind"
            ),
            models.UniqueConstraint(
                fields=("kind",),
                condition=Q(resolved_at__isnull=True, pool__isnull=True),
                name="one_open_alarm_of_the_site",
            ),
        )

    def __str__(self) -> str:
        return self.sentence


class AlarmMute(models.Model):
    """Alarms of one kind are not told to anybody until then; they stay on the page."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, related_name="+")
    kind = models.CharField(max_length=8, choices=Alarm.Kind.choices)
    until = models.DateTimeField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")

    def __str__(self) -> str:
        return f"{self.kind} {self.until}"


class AlarmReceiverQuerySet(models.QuerySet["AlarmReceiver"]):
    """Filters of the receivers."""

    def kept(self) -> "AlarmReceiverQuerySet":
        """Those that nobody has removed."""
        return self.filter(removed_at=None)

    def of_alarms(self) -> "AlarmReceiverQuerySet":
        """Those kept that are told of alarms, not of decisions."""
        return self.kept().exclude(kind=AlarmReceiver.Kind.UNSURE)


class AlarmReceiver(models.Model):
    """Whom a pool's alarms, and the site's, are told to: a webhook, a channel of a chat, or an e-mail address; or the webhook that is
    told of each decision that is left to people. Decisions until `looked_until` were looked at for it.

    A webhook's signing secret is not kept: it is made from SECRET_KEY and `nonce`, so that a copy of the database signs nothing.
    """

    class Kind(models.TextChoices):
        WEBHOOK = "webhook", _("Webhook")
        EMAIL = "email", _("E-mail")
        SLACK = "slack", _("Slack or Mattermost")
        TEAMS = "teams", _("Microsoft Teams")
        UNSURE = "unsure", _("Webhook for unsure decisions")

    #: Kinds whose requests are signed and hold what programs read.
    SIGNED = (Kind.WEBHOOK, Kind.UNSURE)

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="alarm_receivers")
    kind = models.CharField(max_length=7, choices=Kind.choices)
    address = models.CharField(_("address"), max_length=500)
    nonce = models.CharField(max_length=32, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    removed_at = models.DateTimeField(null=True)
    looked_until = models.DateTimeField(default=timezone.now, db_default=Now(), editable=False)
    holds = Holds(person=[address], secret=[nonce])

    objects = AlarmReceiverQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(
                fields=("pool", "kind", "address"),
                condition=Q(removed_at__isnull=True),
                name="one_receiver_per_address",
            ),
        )

    def __str__(self) -> str:
        return self.address


class AlarmDelivery(models.Model):
    """One message on its way to one receiver. `log` holds each attempt: [{at, code, said, ms}, …]. Of a decision only the id is
    stored, and `body` is empty: what is sent is read from the decision at each attempt."""

    class Status(models.TextChoices):
        WAITING = "waiting", _("Waiting")
        DELIVERED = "delivered", _("Delivered")
        FAILED = "failed", _("Given up")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    receiver = models.ForeignKey(AlarmReceiver, on_delete=models.CASCADE, related_name="deliveries")
    alarm = models.ForeignKey(Alarm, on_delete=models.SET_NULL, null=True, related_name="deliveries")
    decision_id = models.UUIDField(_("decision"), null=True, editable=False)
    event = models.CharField(max_length=20)
    body = models.TextField()
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(default=timezone.now)
    log = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(remark=[body, log], neither=[event])

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("status", "next_at")),)
        constraints = (
            models.UniqueConstraint(
                fields=("receiver", "decision_id"),
                condition=Q(decision_id__isnull=False),
                name="one_delivery_per_decision",
            ),
        )

    def __str__(self) -> str:
        return str(self.id)


class ProcessSign(models.Model):
    """A sign of life of one process of the installation, written a few times a minute; silent ones are deleted after a day.

    `part` is one of `Part` or of `agents_app.background_work.processes`. `memory` is resident bytes; `loaded` are the names of the
    versions that it keeps loaded, `state` what else it holds: rows of [name, how many, at most how many] of `routerweb.state`."""

    class Part(models.TextChoices):
        WEB = "web", _("Web")
        JOBS = "default", _("Jobs")
        TRAINING = "train", _("Training")

    name = models.CharField(max_length=120, primary_key=True)
    part = models.CharField(max_length=20)
    machine = models.CharField(max_length=100)
    started_at = models.DateTimeField(default=timezone.now)
    at = models.DateTimeField(db_index=True)
    waiting = models.PositiveIntegerField(_("decisions waiting"), default=0)
    dropped = models.PositiveBigIntegerField(_("decisions dropped"), default=0)
    dropped_at = models.DateTimeField(_("last dropped"), null=True)
    problems = models.JSONField(default=dict)
    memory = models.PositiveBigIntegerField(_("bytes of memory"), default=0, db_default=0)
    loaded = models.JSONField(default=list, db_default=[])
    state = models.JSONField(default=list, db_default=[])
    holds = Holds(remark=[problems], neither=[name, part, machine, loaded, state], backup=False)

    class Meta:
        ordering = ("part", "machine", "name")

    def __str__(self) -> str:
        return self.name


class WatchTurn(models.Model):
    """Whose turn it is to look for alarms: of many processes the one that moves `next_at` does it."""

    next_at = models.DateTimeField(default=timezone.now)
    holds = Holds(backup=False)

    class Meta:
        constraints = (check("watch_turn_is_one_row", id=1),)

    def __str__(self) -> str:
        return str(self.next_at)
