"""Queries and what is known about them: labels, gold, splits, imports, snapshots."""

import hashlib
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent, Pool
from training_app.engine.data import group_key, normalise


def text_hash(text: str) -> str:
    """What makes a text unique within a dataset: SHA-256 of its normalised form, 64 hexadecimal digits."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()


def group_hash(text: str) -> str:
    """What puts two texts into the same split: SHA-256 of the text without case, punctuation and space."""
    return hashlib.sha256(group_key(text).encode()).hexdigest()


class Split(models.TextChoices):
    TRAIN = "train", _("Train")
    VAL = "val", _("Validation")
    TEST = "test", _("Test")


class Dataset(models.Model):
    """A named collection of queries within a pool."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="datasets")
    name = models.CharField(_("name"), max_length=120)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("pool", "name")
        verbose_name = _("dataset")
        verbose_name_plural = _("datasets")
        constraints = (models.UniqueConstraint("pool", Lower("name"), name="dataset_name_unique_in_pool"),)

    def __str__(self) -> str:
        return f"{self.pool.name} · {self.name}"


class SplitGroup(models.Model):
    """All queries of a pool that read the same but for case, punctuation and space. A split, once given, stays for ever."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="split_groups")
    key = models.CharField(max_length=64)
    split = models.CharField(max_length=5, choices=Split.choices, blank=True, default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("pool", "key"), name="split_group_unique_in_pool"),
            models.CheckConstraint(condition=models.Q(split__in=("", "train", "val", "test")), name="split_known"),
        )
        indexes = (models.Index(fields=("pool", "split")),)

    def __str__(self) -> str:
        return f"{self.key[:12]} {self.split}"


class Query(models.Model):
    """One text to route."""

    class State(models.TextChoices):
        UNLABELED = "unlabeled", _("Unlabeled")
        DRAFT = "draft", _("Draft")
        LABELED = "labeled", _("Labeled")
        DISAGREEMENT = "disagreement", _("Disagreement")
        GOLD = "gold", _("Gold")

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="queries")
    external_id = models.CharField(_("id in its source"), max_length=200, blank=True)
    text = models.TextField(_("text"))
    text_hash = models.CharField(max_length=64, editable=False)
    group = models.ForeignKey(SplitGroup, on_delete=models.PROTECT, related_name="queries")
    state = models.CharField(_("state"), max_length=12, choices=State.choices, default=State.UNLABELED, db_index=True)
    origin = models.CharField(_("origin"), max_length=60, blank=True, help_text=_("Where the query came from."))
    extra = models.JSONField(
        _("other keys"),
        default=dict,
        blank=True,
        help_text=_("What else stood in its row of the file; exported again."),
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True, db_index=True)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    erased_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("pk",)
        verbose_name = _("query")
        verbose_name_plural = _("queries")
        constraints = (
            models.UniqueConstraint(fields=("dataset", "text_hash"), name="query_text_unique_in_dataset"),
            models.CheckConstraint(
                condition=models.Q(state__in=("unlabeled", "draft", "labeled", "disagreement", "gold")),
                name="query_state_known",
            ),
        )
        indexes = (
            models.Index(fields=("dataset", "state")),
            models.Index(fields=("dataset", "external_id")),
        )

    def __str__(self) -> str:
        return self.text if len(self.text) <= 80 else self.text[:79] + "…"


class LabelQuerySet(models.QuerySet["Label"]):
    def current(self) -> "LabelQuerySet":
        """Labels that no later label of the same source and author has superseded."""
        return self.filter(superseded_at__isnull=True)


class Label(models.Model):
    """One statement of a query's required set by one source. Kept for ever: a later one supersedes it, nothing overwrites it."""

    class Source(models.TextChoices):
        IMPORT = "import", _("Import")
        LLM = "llm", _("LLM")
        HUMAN = "human", _("Human")
        ADJUDICATION = "adjudication", _("Adjudication")

    query = models.ForeignKey(Query, on_delete=models.CASCADE, related_name="labels")
    source = models.CharField(_("source"), max_length=12, choices=Source.choices)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="labels"
    )
    required = models.JSONField(_("required agents"), help_text=_("Sorted agent ids; [] is “none of these”."))
    asked = models.JSONField(_("asked agents"), help_text=_("Sorted ids of the agents that the label speaks of."))
    scores = models.JSONField(
        _("scores"), null=True, blank=True, help_text=_("Agent id → probability, where there are any.")
    )
    unsure = models.BooleanField(_("unsure"), default=False)
    reason = models.CharField(_("reason"), max_length=200, blank=True)
    provenance = models.JSONField(
        _("provenance"),
        default=dict,
        help_text=_("Model and prompt version, import file and line, or what was kept and changed."),
    )
    created_at = models.DateTimeField(auto_now_add=True)
    superseded_at = models.DateTimeField(null=True, blank=True, editable=False)
    superseded_by = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, editable=False, related_name="supersedes"
    )

    objects: ClassVar[Any] = LabelQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)
        verbose_name = _("label")
        verbose_name_plural = _("labels")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(source__in=("import", "llm", "human", "adjudication")), name="label_source_known"
            ),
            models.UniqueConstraint(
                fields=("query", "source"),
                condition=models.Q(superseded_at__isnull=True) & ~models.Q(source="human"),
                name="one_current_label_per_source",
            ),
            models.UniqueConstraint(
                fields=("query", "author"),
                condition=models.Q(superseded_at__isnull=True, source="human"),
                name="one_current_label_per_person",
            ),
            models.CheckConstraint(
                condition=~models.Q(source="human") | models.Q(author__isnull=False), name="human_label_has_author"
            ),
        )

    def __str__(self) -> str:
        return f"{self.get_source_display()}: {self.required}"


class Gold(models.Model):
    """What counts for training: the composed set, the agents that were asked, and the label that decided each agent."""

    query = models.OneToOneField(Query, on_delete=models.CASCADE, related_name="gold")
    required = models.JSONField(_("required agents"))
    asked = models.JSONField(_("asked agents"))
    decided_by = models.JSONField(_("decided by"), help_text=_("Agent id → id of the label that says so."))
    composed_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = _("gold label")
        verbose_name_plural = _("gold labels")

    def __str__(self) -> str:
        return str(self.required)


class GoldAgent(models.Model):
    """The required agents of a gold label as rows, so that queries can be found by agent."""

    gold = models.ForeignKey(Gold, on_delete=models.CASCADE, related_name="members")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="gold_members")

    class Meta:
        constraints = (models.UniqueConstraint(fields=("gold", "agent"), name="gold_agent_unique"),)

    def __str__(self) -> str:
        return str(self.agent_id)


class Import(models.Model):
    """One file that was read in: what went in, what did not, and why."""

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="imports")
    file_name = models.CharField(_("file"), max_length=255)
    format = models.CharField(_("format"), max_length=5, choices=(("jsonl", "JSONL"), ("csv", "CSV"), ("txt", "TXT")))
    split = models.CharField(_("split"), max_length=5, choices=Split.choices, blank=True, default="")
    status = models.CharField(_("status"), max_length=9, choices=Status.choices, default=Status.QUEUED)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    attempt = models.UUIDField(null=True, editable=False)
    attempts = models.PositiveIntegerField(default=0, editable=False)
    heartbeat_at = models.DateTimeField(null=True, editable=False)
    cancel_requested = models.BooleanField(default=False, editable=False)
    last_line = models.PositiveIntegerField(
        default=0, editable=False, help_text=_("Where the last stored row begins: the next attempt goes on behind it.")
    )
    bytes_total = models.PositiveBigIntegerField(default=0)
    bytes_read = models.PositiveBigIntegerField(default=0)
    rows_read = models.PositiveIntegerField(default=0)
    queries_added = models.PositiveIntegerField(default=0)
    labels_added = models.PositiveIntegerField(default=0)
    unchanged = models.PositiveIntegerField(default=0)
    rejected = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("import")
        verbose_name_plural = _("imports")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(status__in=("queued", "running", "done", "failed", "cancelled")),
                name="import_status_known",
            ),
            models.CheckConstraint(condition=models.Q(format__in=("jsonl", "csv", "txt")), name="import_format_known"),
            models.CheckConstraint(
                condition=~models.Q(status="running") | models.Q(attempt__isnull=False),
                name="running_import_has_attempt",
            ),
        )

    def __str__(self) -> str:
        return self.file_name

    @property
    def ended(self) -> bool:
        """Whether the import is done, failed or cancelled."""
        return self.status not in (self.Status.QUEUED, self.Status.RUNNING)


class ImportChunk(models.Model):
    """A piece of an uploaded file, kept in the database so that any worker on any machine can read it; gone when it is done."""

    upload = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="chunks")
    position = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        ordering = ("upload", "position")
        constraints = (models.UniqueConstraint(fields=("upload", "position"), name="import_chunk_unique"),)


class ImportProblem(models.Model):
    """One row that did not go in as it stood: its line and the reason. `rejected`: nothing of it was stored."""

    upload = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="problems")
    line = models.PositiveIntegerField(_("line"))
    field = models.CharField(_("field"), max_length=60, blank=True)
    reason = models.CharField(_("reason"), max_length=400)
    excerpt = models.CharField(_("excerpt"), max_length=200, blank=True)
    rejected = models.BooleanField(_("left out"), default=True)

    class Meta:
        ordering = ("upload", "line", "pk")
        verbose_name = _("import problem")
        verbose_name_plural = _("import problems")

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


class Snapshot(models.Model):
    """An immutable, hashed copy of a pool's gold rows and its roster: what a run trains on."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="snapshots")
    number = models.PositiveIntegerField(_("number"))
    digest = models.CharField(
        _("digest"), max_length=64, help_text=_("SHA-256 over the roster and each row's own SHA-256, in order.")
    )
    roster = models.JSONField(_("roster"))
    rows = models.PositiveIntegerField(_("rows"))
    split_sizes = models.JSONField(_("split sizes"))
    note = models.CharField(_("note"), max_length=200, blank=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("pool", "-number")
        verbose_name = _("snapshot")
        verbose_name_plural = _("snapshots")
        constraints = (
            models.UniqueConstraint(fields=("pool", "number"), name="snapshot_number_unique_in_pool"),
            models.UniqueConstraint(fields=("pool", "digest"), name="snapshot_digest_unique_in_pool"),
        )

    def __str__(self) -> str:
        return f"{self.pool.slug}-s{self.number}"


class SnapshotContent(models.Model):
    """A snapshot's rows, gzipped JSON lines `{query, id, text, required, asked, split, sha256}`, apart from its figures."""

    snapshot = models.OneToOneField(Snapshot, on_delete=models.CASCADE, related_name="content")
    rows_gzip = models.BinaryField()


from datasets_app.labeling_models import (  # noqa: E402, F401
    Assignment,
    BulkChange,
    BulkChangeEntry,
    Draft,
    QueueItem,
    QueueSettings,
    Submission,
    Suggestion,
)
from datasets_app.prelabel_models import LlmAnswer, PrelabelItem, PrelabelJob, PromptTemplate  # noqa: E402, F401
