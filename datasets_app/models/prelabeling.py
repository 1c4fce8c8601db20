"""Pre-labeling by an LLM: versioned prompts, jobs that can be paused and resumed, and every answer that was paid for."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.background_work.jobs import Job
from agents_app.models import Pool
from routerweb.database.checks import check
from routerweb.holds import Holds


class PromptTemplate(models.Model):
    """One version of a pool's prompt; a Jinja2 template that `prompts.render` draws. Kept for ever."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="prompts")
    version = models.PositiveIntegerField(_("version"))
    text = models.TextField(_("template"))
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(shared=[text])

    class Meta:
        ordering = ("pool", "-version")
        verbose_name = _("prompt")
        verbose_name_plural = _("prompts")
        constraints = (models.UniqueConstraint(fields=("pool", "version"), name="prompt_version_unique_in_pool"),)

    def __str__(self) -> str:
        return f"prompt {self.version}"


class PrelabelJob(Job):
    """One pass of an LLM over queries: what was asked for, how far it is, what it cost."""

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        PAUSED = "paused", _("Paused")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    class Fallback(models.TextChoices):
        SKIP = "skip", _("Leave it without a suggestion")
        KEYWORD = "keyword", _("Suggest by keywords")
        ALL = "all-agents", _("Suggest all agents")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="prelabel_jobs")
    status = models.CharField(_("status"), max_length=9, choices=Status.choices, default=Status.QUEUED, db_index=True)
    base_url = models.CharField(_("base URL"), max_length=400)
    model = models.CharField(_("model"), max_length=120)
    prompt = models.ForeignKey(PromptTemplate, on_delete=models.PROTECT, related_name="+")
    minimum = models.PositiveSmallIntegerField(_("fewest agents"), default=0)
    maximum = models.PositiveSmallIntegerField(_("most agents"), default=0, help_text=_("0: as many as there are."))
    batch_size = models.PositiveSmallIntegerField(
        _("queries per call"), default=1, validators=(MinValueValidator(1), MaxValueValidator(50))
    )
    concurrency = models.PositiveSmallIntegerField(
        _("calls at once"), default=4, validators=(MinValueValidator(1), MaxValueValidator(64))
    )
    temperature = models.FloatField(_("temperature"), default=0.0)
    fallback = models.CharField(
        _("when an answer cannot be read"), max_length=10, choices=Fallback, default=Fallback.SKIP
    )
    price_in = models.FloatField(_("price of a million input tokens"), default=0.0)
    price_out = models.FloatField(_("price of a million output tokens"), default=0.0)
    budget = models.FloatField(
        _("budget"),
        null=True,
        blank=True,
        validators=(MinValueValidator(0.0),),
        help_text=_("The job pauses once so much is spent, in the currency of the prices. Blank: no limit."),
    )
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    wish = models.CharField(max_length=6, blank=True, editable=False)  # "pause" or "cancel", until the worker obeys
    calls = models.PositiveIntegerField(default=0)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    settled_before = models.PositiveIntegerField(default=0, editable=False)  # queries that earlier turns had done with
    holds = Holds(setting=[base_url, model], neither=[wish])

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("pre-labeling job")
        verbose_name_plural = _("pre-labeling jobs")
        constraints = (
            check("prelabel_status_known", status__in=("queued", "running", "paused", "done", "failed", "cancelled")),
        )

    def __str__(self) -> str:
        return f"{self.pool.slug} · {self.model} · {self.pk}"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen unless somebody asks for it."""
        return self.status in (self.Status.DONE, self.Status.FAILED, self.Status.CANCELLED)

    @property
    def cost(self) -> float:
        """What the tokens so far cost, in the currency of the prices."""
        return (self.tokens_in * self.price_in + self.tokens_out * self.price_out) / 1e6

    @property
    def left(self) -> float | None:
        """What is left of the budget, 0 where more is spent; None without a budget."""
        return None if self.budget is None else max(0.0, self.budget - self.cost)


class PrelabelItem(models.Model):
    """One query of a job and what became of it."""

    class Status(models.TextChoices):
        WAITING = "waiting", _("Waiting")
        ANSWERED = "answered", _("Answered")
        CACHED = "cached", _("Answered before")
        FALLBACK = "fallback", _("Fallback")
        FAILED = "failed", _("Failed")

    job = models.ForeignKey(PrelabelJob, on_delete=models.CASCADE, related_name="items")
    query = models.ForeignKey("datasets_app.Query", on_delete=models.CASCADE, related_name="prelabel_items")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.WAITING)
    error = models.CharField(max_length=300, blank=True)
    call = models.UUIDField(
        null=True, editable=False, help_text=_("The call that asks about it, until that is answered.")
    )
    holds = Holds(remark=[error])

    class Meta:
        constraints = (models.UniqueConstraint(fields=("job", "query"), name="prelabel_item_unique_in_job"),)
        indexes = (models.Index(fields=("job", "status", "id")),)

    def __str__(self) -> str:
        return f"{self.job_id}: {self.query_id} {self.status}"


class LlmAnswer(models.Model):
    """One answer that an LLM gave and that was paid for, under the key of everything that shaped it."""

    key = models.CharField(max_length=64, unique=True, help_text=_("SHA-256 of text, model, prompt and roster."))
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="+")
    model = models.CharField(max_length=120)
    required = models.JSONField()
    scores = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(setting=[model], neither=[key, required, scores])

    def __str__(self) -> str:
        return f"{self.model}: {self.required}"
