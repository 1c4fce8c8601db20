"""Queries that an LLM wrote for agents, and the jobs in which it was asked for them."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.background_work.jobs import Job
from agents_app.models import Pool
from routerweb.database.checks import check
from routerweb.holds import Holds


class WritingJob(Job):
    """One request to an LLM to write queries for a pool's agents: the calls that it takes, how many are done, what they cost.

    `plan` are the calls, see `prelabeling.writing.Step`. `problems` are what could not be used: reason → how many queries or answers.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="writing_jobs")
    status = models.CharField(_("status"), max_length=9, choices=Status.choices, default=Status.QUEUED, db_index=True)
    base_url = models.CharField(_("base URL"), max_length=400)
    model = models.CharField(_("model"), max_length=120)
    plan = models.JSONField(_("calls"), default=list)
    steps_done = models.PositiveIntegerField(_("calls that are done"), default=0)
    problems = models.JSONField(_("problems"), default=dict)
    price_in = models.FloatField(_("price of a million input tokens"), default=0.0)
    price_out = models.FloatField(_("price of a million output tokens"), default=0.0)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    cancel_asked = models.BooleanField(default=False, editable=False)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    holds = Holds(setting=[base_url, model], neither=[plan, problems])

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("writing job")
        verbose_name_plural = _("writing jobs")
        constraints = (check("writing_status_known", status__in=("queued", "running", "done", "failed", "cancelled")),)

    def __str__(self) -> str:
        return f"{self.pool.slug} · {self.model} · {self.pk}"

    @property
    def calls(self) -> int:
        """How many calls it takes in all."""
        return len(self.plan)

    @property
    def cost(self) -> float:
        """What the tokens so far cost, in the currency of the prices."""
        return (self.tokens_in * self.price_in + self.tokens_out * self.price_out) / 1e6


class WrittenQuery(models.Model):
    """A query that an LLM wrote, and the ids of the agents that it is for; none for one that needs nobody. It is no query of the
    pool: it has no label and no split, and only ever teaches. `key` is the same for texts that say the same."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="written_queries")
    job = models.ForeignKey(WritingJob, on_delete=models.SET_NULL, null=True, related_name="queries")
    text = models.TextField(_("text"))
    key = models.CharField(max_length=64, editable=False)
    agents = models.JSONField(_("agents"), default=list)
    language = models.CharField(_("language"), max_length=20)
    model = models.CharField(_("model"), max_length=120)
    rejected = models.BooleanField(_("rejected"), default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(query=[text], setting=[model], neither=[key, agents, language])

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("written query")
        verbose_name_plural = _("written queries")
        constraints = (models.UniqueConstraint(fields=("pool", "key"), name="written_query_once_in_pool"),)

    def __str__(self) -> str:
        return self.text[:60]
