"""API keys, and the audit trail."""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents_app.models.pools import Pool
from agents_app.models.secrets import RotatingSecret
from routerweb.database.checks import check
from routerweb.holds import Holds


class PoolRole(models.Model):
    """What a person is in one pool, beside what their group makes them in all of them."""

    class Role(models.TextChoices):
        LABELER = "labeler", _("Labeler")
        REVIEWER = "reviewer", _("Reviewer")
        OPS = "ops", _("Ops")

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="pool_roles")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="roles")
    role = models.CharField(_("role"), max_length=8, choices=Role.choices)

    class Meta:
        ordering = ("pool__name",)
        verbose_name = _("role in a pool")
        verbose_name_plural = _("roles in pools")
        constraints = (
            models.UniqueConstraint(fields=("user", "pool"), name="one_role_in_a_pool"),
            check("pool_role_known", role__in=("labeler", "reviewer", "ops")),
        )

    def __str__(self) -> str:
        return f"{self.get_role_display()}: {self.pool}"


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def live(self) -> "ApiKeyQuerySet":
        """Keys that are neither revoked nor expired, of people whose accounts are open."""
        return (
            self.filter(revoked_at__isnull=True)
            .filter(models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=timezone.now()))
            .exclude(created_by__is_active=False)
            .exclude(person__is_active=False)
        )

    def expiring(self, within: timedelta) -> "ApiKeyQuerySet":
        """Live keys that end by themselves within that time, the next one first."""
        return self.live().filter(expires_at__lte=timezone.now() + within).order_by("expires_at", "pk")


class ApiKey(RotatingSecret):
    """A key for the API. A rotated one has two secrets for a while: they are one key in every count and every list."""

    class Scope(models.TextChoices):
        ROUTE = "route", _("Route")
        LABEL = "label", _("Label")
        OPS = "ops", _("Operate")
        TRACES = "traces", _("Send traces")

    BEGINS: ClassVar[str] = "rw_"
    SHOWN: ClassVar[int] = 8  # "rw_" and five more: enough to tell keys apart, 226 of the 256 bits stay unknown

    scopes = models.JSONField(_("scopes"), default=list)
    pools = models.ManyToManyField(Pool, related_name="api_keys", verbose_name=_("pools"))
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
        verbose_name=_("labels as"),
        help_text=_("The person whose labels are made with this key: the one who created it."),
    )
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    rotated_at = models.DateTimeField(_("rotated"), null=True, blank=True, editable=False)
    old_prefix = models.CharField(max_length=12, blank=True, editable=False)
    monthly_queries = models.PositiveBigIntegerField(_("queries a month"), null=True, blank=True)
    monthly_characters = models.PositiveBigIntegerField(_("characters a month"), null=True, blank=True)
    holds = Holds(neither=[scopes, old_prefix])

    objects: ClassVar[Any] = ApiKeyQuerySet.as_manager()

    class Meta(RotatingSecret.Meta):
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")

    def renew(self, old_until: datetime | None = None) -> str:
        """As of any secret; what the old one begins with is kept while it works."""
        self.old_prefix = self.prefix if old_until else ""
        return super().renew(old_until)

    @property
    def quota(self) -> tuple[int | None, int | None] | None:
        """Queries and characters that it may send in a calendar month, each None for no limit; None where neither has one."""
        both = (self.monthly_queries, self.monthly_characters)
        return None if both == (None, None) else both


class KeyMonth(models.Model):
    """What one key with a quota has sent in a calendar month (UTC), as web processes have told; `shares` are the processes that hold
    some of what is left: by name, when each was last heard of (seconds since 1970) and what it holds."""

    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="months")
    month = models.DateField(_("month"), help_text=_("Its first day."))
    queries = models.PositiveBigIntegerField(_("queries"), default=0)
    characters = models.PositiveBigIntegerField(_("characters"), default=0)
    shares = models.JSONField(default=dict)
    holds = Holds(neither=[shares])

    class Meta:
        ordering = ("-month",)
        verbose_name = _("month of a key")
        verbose_name_plural = _("months of keys")
        constraints = (models.UniqueConstraint(fields=("api_key", "month"), name="one_row_a_key_and_month"),)

    def __str__(self) -> str:
        return f"{self.api_key}, {self.month:%Y-%m}"

    @staticmethod
    def span(at: float) -> tuple[datetime, datetime]:
        """The beginning of the calendar month (UTC) that holds a time, in seconds since 1970, and that of the next."""
        begins = datetime.fromtimestamp(at, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        return begins, (begins + timedelta(days=32)).replace(day=1)


class AuditEntry(models.Model):
    """Who did what to which object, and when. Entries are only ever added."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    actor_name = models.CharField(
        max_length=150, help_text=_("Kept when the account is deleted; for commands, the command's name.")
    )
    action = models.CharField(max_length=60, db_index=True)
    pool = models.ForeignKey(Pool, on_delete=models.SET_NULL, null=True, related_name="+")
    target = models.CharField(max_length=200, blank=True)
    detail = models.JSONField(default=dict)
    holds = Holds(person=[actor_name, target, detail], remark=[target, detail], neither=[action])

    class Meta:
        ordering = ("-at", "-pk")
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit trail")

    def __str__(self) -> str:
        return f"{self.actor_name}: {self.action} {self.target}"
