"""What people, files and LLMs said of a query, and the gold that is composed of it."""

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent, Pool
from datasets_app.models.queries import Query
from routerweb.database.checks import check
from routerweb.holds import Holds


class LabelQuerySet(models.QuerySet["Label"]):
    def current(self) -> "LabelQuerySet":
        """Labels that stand: neither superseded by a later one of the same source and author, nor withdrawn."""
        return self.filter(superseded_at__isnull=True)

    def withdrawn(self) -> "LabelQuerySet":
        """Labels that were taken back: superseded by nothing, yet not current."""
        return self.filter(superseded_at__isnull=False, superseded_by__isnull=True)

    def not_withdrawn(self) -> "LabelQuerySet":
        """Labels that nobody took back, current or superseded."""
        return self.filter(models.Q(superseded_at__isnull=True) | models.Q(superseded_by__isnull=False))


class Label(models.Model):
    """One statement of a query's required set by one source. Kept for ever: a later one supersedes it, nothing overwrites it.

    A whole label supersedes all that its source (for people, its author) said before. A partial one speaks of some agents, as a bulk
    change or a question about one agent does: it stands beside the rest, and for each agent the latest speaks.
    """

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
    partial = models.BooleanField(
        _("partial"),
        default=False,
        help_text=_("Speaks of its agents beside what the same source or person said before; the rest of that stands."),
    )
    unsure = models.BooleanField(_("unsure"), default=False)
    reason = models.CharField(_("reason"), max_length=200, blank=True)
    note = models.CharField(
        _("note"),
        max_length=500,
        blank=True,
        help_text=_("What its author wants reviewers to know. It can be changed."),
    )
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
    holds = Holds(remark=[reason, note, provenance], person=[provenance], neither=[required, asked, scores])

    objects: ClassVar[Any] = LabelQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)
        verbose_name = _("label")
        verbose_name_plural = _("labels")
        constraints = (
            check("label_source_known", source__in=("import", "llm", "human", "adjudication")),
            models.UniqueConstraint(
                fields=("query", "source"),
                condition=models.Q(superseded_at__isnull=True, partial=False) & ~models.Q(source="human"),
                name="one_whole_label_per_source",
            ),
            models.UniqueConstraint(
                fields=("query", "author"),
                condition=models.Q(superseded_at__isnull=True, source="human", partial=False),
                name="one_whole_label_per_person",
            ),
            check("human_label_has_author", ~models.Q(source="human") | models.Q(author__isnull=False)),
        )
        indexes = (
            models.Index(
                fields=("-id",), condition=models.Q(source="human", superseded_at=None), name="labels_of_people"
            ),
            models.Index(
                fields=("query",),
                condition=models.Q(source="human", superseded_at=None, unsure=True),
                name="labels_unsure",
            ),
        )

    def __str__(self) -> str:
        return _t("%(source)s, query %(key)s") % {"source": self.get_source_display(), "key": self.query_id}


class GoldQuerySet(models.QuerySet["Gold"]):
    """Filters of the gold."""

    def of(self, pool: Pool | int) -> "GoldQuerySet":
        """That of the pool's queries that nobody has deleted."""
        return self.filter(query__dataset__pool=pool, query__deleted_at=None)


class Gold(models.Model):
    """What counts for training: the composed set, the agents that were asked, and the label that decided each agent."""

    query = models.OneToOneField(Query, on_delete=models.CASCADE, related_name="gold")
    required = models.JSONField(_("required agents"))
    asked = models.JSONField(_("asked agents"))
    decided_by = models.JSONField(_("decided by"), help_text=_("Agent id → id of the label that says so."))
    composed_at = models.DateTimeField(auto_now=True)
    holds = Holds(neither=[required, asked, decided_by])

    objects = GoldQuerySet.as_manager()

    class Meta:
        verbose_name = _("gold label")
        verbose_name_plural = _("gold labels")
        indexes = (models.Index(fields=("-composed_at",), name="gold_by_age"),)

    def __str__(self) -> str:
        return _t("Gold label of query %(key)s") % {"key": self.query_id}


class GoldAgent(models.Model):
    """The required agents of a gold label as rows, so that queries can be found by agent."""

    gold = models.ForeignKey(Gold, on_delete=models.CASCADE, related_name="members")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="gold_members")

    class Meta:
        constraints = (models.UniqueConstraint(fields=("gold", "agent"), name="gold_agent_unique"),)

    def __str__(self) -> str:
        return str(self.agent_id)
