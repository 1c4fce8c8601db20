"""Files on their way in, and what was wrong with their rows."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.background_work.jobs import Job
from datasets_app.models.queries import Dataset, Split
from routerweb.database.checks import check
from routerweb.holds import Holds

FORMATS = (("jsonl", "JSONL"), ("csv", "CSV"), ("txt", "TXT"), ("json", "JSON"), ("xlsx", "Excel"), ("zip", "ZIP"))


class Import(Job):
    """One file that was read in: what went in, what did not, and why."""

    class Status(models.TextChoices):
        CHOOSING = "choosing", _("Choosing columns")
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="imports")
    file_name = models.CharField(_("file"), max_length=255)
    format = models.CharField(_("format"), max_length=5, choices=FORMATS)
    reading = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text=_("How a file in another tool's format is read; empty: our own format."),
    )
    split = models.CharField(_("split"), max_length=5, choices=Split.choices, blank=True, default="")
    status = models.CharField(_("status"), max_length=9, choices=Status.choices, default=Status.QUEUED)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    cancel_requested = models.BooleanField(default=False, editable=False)
    last_line = models.PositiveIntegerField(
        default=0, editable=False, help_text=_("Where the last stored row begins: the next attempt goes on behind it.")
    )
    digest = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text=_(
            "SHA-256 of the file, so that one that comes again is known; empty for a file that a command read."
        ),
    )
    bytes_total = models.PositiveBigIntegerField(default=0)
    bytes_read = models.PositiveBigIntegerField(default=0)
    rows_read = models.PositiveIntegerField(default=0)
    queries_added = models.PositiveIntegerField(default=0)
    labels_added = models.PositiveIntegerField(default=0)
    unchanged = models.PositiveIntegerField(default=0)
    rejected = models.PositiveIntegerField(default=0)
    suggestions_added = models.PositiveIntegerField(default=0)
    undo = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text=_("What the import made beside queries and labels, by keys, so that all of it can be undone."),
    )
    holds = Holds(remark=[file_name, reading], neither=[undo, digest])

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("import")
        verbose_name_plural = _("imports")
        constraints = (
            check("import_status_known", status__in=("choosing", "queued", "running", "done", "failed", "cancelled")),
            check("import_format_known", format__in=tuple(name for name, _word in FORMATS)),
            check("running_import_has_attempt", ~models.Q(status="running") | models.Q(attempt__isnull=False)),
        )

    def __str__(self) -> str:
        return self.file_name

    @property
    def ended(self) -> bool:
        """Whether the import is done, failed or cancelled."""
        return self.status in (self.Status.DONE, self.Status.FAILED, self.Status.CANCELLED)

    def earlier(self) -> "Import | None":
        """The newest import of the same file into the same pool before this one that read rows, None where there is none."""
        same = Import.objects.filter(dataset__pool=self.dataset.pool_id, digest=self.digest, rows_read__gt=0)
        return same.filter(pk__lt=self.pk).select_related("dataset").first() if self.digest else None

    @property
    def known_changed(self) -> int:
        """How many rows added something to queries that were there."""
        return max(0, self.rows_read - self.queries_added - self.unchanged - self.rejected)


class LabelValue(models.Model):
    """What a label in files of this pool means, as somebody said when they imported one: “Labs” is the agent Lab results."""

    pool = models.ForeignKey("agents_app.Pool", on_delete=models.CASCADE, related_name="label_values")
    value = models.CharField(_("value"), max_length=200, help_text=_("In small letters, white space as one space."))
    agents = models.JSONField(
        _("agents"),
        null=True,
        blank=True,
        help_text=_("Their ids; [] is “none of these”, null leaves a query unlabeled."),
    )
    upload = models.ForeignKey(Import, on_delete=models.CASCADE, null=True, blank=True, related_name="label_values")
    holds = Holds(remark=[value], neither=[agents])

    class Meta:
        ordering = ("pool", "value")
        verbose_name = _("meaning of a label")
        verbose_name_plural = _("meanings of labels")
        constraints = (models.UniqueConstraint(fields=("pool", "value"), name="label_value_unique_in_pool"),)

    def __str__(self) -> str:
        return f"{self.value}: {self.agents}"


class ImportChunk(models.Model):
    """A piece of an uploaded file, kept in the database so that any worker on any machine can read it; gone when it is done."""

    upload = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="chunks")
    position = models.PositiveIntegerField()
    content = models.BinaryField()
    holds = Holds(query=[content])

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
    holds = Holds(remark=[field, reason, excerpt])

    class Meta:
        ordering = ("upload", "line", "pk")
        verbose_name = _("import problem")
        verbose_name_plural = _("import problems")

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"
