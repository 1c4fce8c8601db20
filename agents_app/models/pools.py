"""Pools, their agents and how those are called, and the version stamp."""

from typing import Any, ClassVar

from django.core.validators import RegexValidator
from django.db import models, transaction
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _

from routerweb.database.checks import check
from routerweb.holds import Holds
from training_app.engine.data.folders import AGENT_KEY


class PoolQuerySet(models.QuerySet["Pool"]):
    def in_use(self) -> "PoolQuerySet":
        """Pools that are neither archived nor deleted."""
        return self.filter(archived_at=None, deleted_at=None)

    def put_away(self) -> "PoolQuerySet":
        """The others: nobody routes, labels or trains in them until they are brought back."""
        return self.exclude(archived_at=None, deleted_at=None)


class Pool(models.Model):
    """The agents that one routing problem chooses from; everything else belongs to one pool.

    An archived pool can be read. A deleted one can be brought back until it is purged (`agents_app.archive`).
    """

    slug = models.SlugField(_("slug"), unique=True, help_text=_("The pool's name in URLs, commands and the API."))
    name = models.CharField(_("name"), max_length=120)
    description = models.TextField(_("description"), blank=True)
    guidelines = models.TextField(
        _("labeling guidelines"), blank=True, help_text=_("Markdown, shown beside every query that is labeled.")
    )
    currency = models.CharField(
        _("currency"),
        max_length=3,
        default="USD",
        validators=[RegexValidator(r"^[A-Z]{3}$", _("Three capital letters, such as USD."))],
        help_text=_("The currency of all costs in this pool, as a three-letter code."),
    )
    four_eyes = models.BooleanField(
        _("promotions need a second person"),
        default=False,
        help_text=_("A promotion by one person takes effect after another person has approved it."),
    )
    allowed_sets = models.JSONField(
        _("allowed sets"),
        default=dict,
        blank=True,
        editable=False,
        help_text=_("What agents require and exclude, by their ids."),
    )
    next_agent_number = models.PositiveIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(_("archived"), null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(_("deleted"), null=True, blank=True, editable=False)
    holds = Holds(shared=[name, description, guidelines, allowed_sets], setting=[slug], neither=[currency])

    objects: ClassVar[Any] = PoolQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        verbose_name = _("pool")
        verbose_name_plural = _("pools")

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        """ "active", "archived" or "deleted"."""
        return "deleted" if self.deleted_at else "archived" if self.archived_at else "active"

    def take_agent_number(self) -> int:
        """The next free agent id of this pool; an id is never handed out twice, whatever happens to its agent."""
        with transaction.atomic():
            pool = Pool.objects.select_for_update(no_key=True).get(pk=self.pk)
            number = pool.next_agent_number
            Pool.objects.filter(pk=self.pk).update(next_agent_number=number + 1)
        self.next_agent_number = number + 1
        return number


class AgentQuerySet(models.QuerySet["Agent"]):
    def active(self) -> "AgentQuerySet":
        """Agents that new labels are asked for and that a route may name."""
        return self.filter(state=Agent.State.ACTIVE)

    def routable(self) -> "AgentQuerySet":
        """Active agents that are not marked unavailable."""
        return self.active().filter(available=True)


class Agent(models.Model):
    """One specialised agent. `number` is its id everywhere outside the database: stable, and never reused."""

    class State(models.TextChoices):
        ACTIVE = "active", _("Active")
        RETIRED = "retired", _("Retired")

    class Cold(models.TextChoices):
        POOL = "pool", _("As the pool says")
        ALWAYS = "always", _("Always")
        NEVER = "never", _("Never")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="agents")
    number = models.PositiveIntegerField(_("id"), help_text=_("The agent's id in this pool; it never changes meaning."))
    code = models.CharField(
        _("code"),
        max_length=2,
        validators=[RegexValidator(r"^[A-Z0-9]{2}$", _("Two capital letters or digits."))],
        help_text=_("Two letters that stand for the agent on screen and on the keyboard."),
    )
    key = models.CharField(
        _("key"),
        max_length=60,
        editable=False,
        validators=[RegexValidator(AGENT_KEY, _("Small letters, digits, - and _, a letter among them."))],
        help_text=_("The agent's name in programs, made from its first name; it stays when the agent is renamed."),
    )
    name = models.CharField(_("name"), max_length=120)
    description = models.TextField(_("description"), blank=True)
    keywords = models.JSONField(_("keywords"), default=list, blank=True)
    cost = models.FloatField(_("cost"), default=0.0, help_text=_("Cost of one call, in any unit that the pool shares."))
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.ACTIVE)
    available = models.BooleanField(_("available"), default=True, help_text=_("If off, no query is routed to it."))
    unavailable_since = models.DateTimeField(_("unavailable since"), null=True, blank=True, editable=False)
    unavailable_why = models.CharField(_("why it is unavailable"), max_length=200, blank=True, editable=False)
    paused_by_check = models.BooleanField(
        default=False, editable=False, help_text=_("Paused by its health check, which also resumes it.")
    )
    cold = models.CharField(
        _("routed before a model is trained on it"),
        max_length=6,
        choices=Cold.choices,
        default=Cold.POOL,
        help_text=_("By its description, until a model that was trained on it is promoted."),
    )
    merged_into = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="merged_from")
    merged_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    holds = Holds(shared=[name, description, keywords, unavailable_why], setting=[key], neither=[code])

    objects: ClassVar[Any] = AgentQuerySet.as_manager()

    class Meta:
        ordering = ("pool", "number")
        verbose_name = _("agent")
        verbose_name_plural = _("agents")
        constraints = (
            models.UniqueConstraint(fields=("pool", "number"), name="agent_number_unique_in_pool"),
            models.UniqueConstraint(fields=("pool", "code"), name="agent_code_unique_in_pool"),
            models.UniqueConstraint(fields=("pool", "key"), name="agent_key_unique_in_pool"),
            models.UniqueConstraint("pool", Lower("name"), name="agent_name_unique_in_pool"),
            check("agent_state_known", state__in=("active", "retired")),
            check("agent_cost_not_negative", cost__gte=0),
            check("agent_cold_routing_known", cold__in=("pool", "always", "never")),
            check("merged_agent_is_retired", models.Q(merged_into__isnull=True) | models.Q(state="retired")),
        )

    def __str__(self) -> str:
        return f"{self.code} {self.name}"

    @property
    def hue(self) -> int:
        """A colour angle in degrees that never changes: successive ids lie a golden angle apart."""
        return round(self.number * 137.508) % 360


class HealthCheck(models.Model):
    """An address that tells whether an agent can work. The check pauses the agent after some failures and brings it back."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, related_name="health")
    url = models.URLField(_("address"), max_length=500)
    failures = models.PositiveIntegerField(_("failures in a row"), default=0)
    checked_at = models.DateTimeField(null=True)
    ok = models.BooleanField(null=True)
    said = models.CharField(_("what it said"), max_length=200, blank=True)
    holds = Holds(setting=[url], remark=[said])

    def __str__(self) -> str:
        return self.url


class Stamp(models.Model):
    """One row whose value grows with every change that a running process has to notice within two seconds."""

    value = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = (check("stamp_is_one_row", id=1),)

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def bump(cls) -> None:
        """Tell every process that roster, keys or active models changed; call it inside the change's transaction."""
        cls.objects.get_or_create(pk=1)
        cls.objects.filter(pk=1).update(value=models.F("value") + 1)

    @classmethod
    def current(cls) -> int:
        """The stamp's value, 0 before the first change."""
        return cls.objects.filter(pk=1).values_list("value", flat=True).first() or 0
