"""Immutable copies of gold that runs train on."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.holds import Holds


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
    judges = models.JSONField(
        _("who judged"),
        default=dict,
        editable=False,
        help_text=_("Split → who said what its queries need (people, import, llm) → how many queries."),
    )
    written = models.PositiveIntegerField(
        _("written queries"), default=0, editable=False, help_text=_("They teach beside the rows and are none of them.")
    )
    erased_rows = models.PositiveIntegerField(
        default=0,
        editable=False,
        help_text=_("Rows whose text was erased since: with any, equal data is another snapshot."),
    )
    note = models.CharField(_("note"), max_length=200, blank=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(shared=[roster], remark=[note], neither=[digest, split_sizes, judges])

    class Meta:
        ordering = ("pool", "-number")
        verbose_name = _("snapshot")
        verbose_name_plural = _("snapshots")
        constraints = (
            models.UniqueConstraint(fields=("pool", "number"), name="snapshot_number_unique_in_pool"),
            models.UniqueConstraint(
                fields=("pool", "digest"),
                condition=models.Q(erased_rows=0),
                name="whole_snapshot_digest_unique_in_pool",
            ),
        )

    def __str__(self) -> str:
        return f"{self.pool.slug}-s{self.number}"

    @property
    def measured_on(self) -> str:
        """The split that a router's figures are of: test, or validation where there is no test query."""
        return "test" if self.split_sizes.get("test") else "val"

    @property
    def judged_by(self) -> str:
        """Who judges a router that learns from it: "llm" where an LLM alone labeled some of the queries that it is measured on, else
        "people", or "import" where a file named the answers of all; "" where that was not kept."""
        of: dict[str, int] = self.judges.get(self.measured_on) or {}
        return next((who for who in ("llm", "people", "import") if of.get(who)), "")


class SnapshotContent(models.Model):
    """A snapshot's rows, gzipped JSON lines `{query, id, text, required, asked, split, sha256}`, of turns also `messages` and
    `conversation`, apart from its figures. Rows of written queries, which stand last, have `written` and no query."""

    snapshot = models.OneToOneField(Snapshot, on_delete=models.CASCADE, related_name="content")
    rows_gzip = models.BinaryField()
    holds = Holds(query=[rows_gzip])
