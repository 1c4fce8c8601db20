"""Backends: who runs an agent. A provider has an address and a secret; a backend is one agent on one model of one provider."""

from typing import Any, ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from routerweb.database.checks import check
from routerweb.holds import Holds

NOT_NEGATIVE = [MinValueValidator(0)]


def share(highest: float) -> list[Any]:
    """The validators of a share from 0 to `highest`."""
    return [*NOT_NEGATIVE, MaxValueValidator(highest)]


class Provider(models.Model):
    """Whom calls go to. `secret` is sealed (`sealing`) and never shown again."""

    pool = models.ForeignKey("agents_app.Pool", on_delete=models.CASCADE, related_name="providers")
    name = models.CharField(_("name"), max_length=80)
    address = models.CharField(_("address"), max_length=500, blank=True, help_text=_("Of its OpenAI-compatible API."))
    secret = models.TextField(editable=False, blank=True)
    holds = Holds(setting=[name, address], secret=[secret])

    class Meta:
        ordering = ("pool", "name")
        verbose_name = _("provider")
        verbose_name_plural = _("providers")
        constraints = (models.UniqueConstraint(fields=("pool", "name"), name="provider_name_unique_in_pool"),)

    def __str__(self) -> str:
        return self.name


class BackendQuerySet(models.QuerySet["Backend"]):
    def in_use(self) -> "BackendQuerySet":
        """Those that may be chosen, of agents that may be routed to, each with its agent and provider."""
        return self.filter(active=True, agent__state="active").select_related("agent", "provider")


class Backend(models.Model):
    """One way to run an agent. Prices are for a million tokens, as of `priced_on`; a limit of 0 is none, `context` 0 is not known.

    Prices, limits and context belong to the model at its provider: `providers.save_terms` keeps them the same for all agents, and
    the limits are shared by them. `quality`, `latency` and the tokens are what a backend counts as until calls say more.
    """

    agent = models.ForeignKey("agents_app.Agent", on_delete=models.CASCADE, related_name="backends")
    provider = models.ForeignKey(
        Provider, on_delete=models.PROTECT, related_name="backends", verbose_name=_("provider")
    )
    model = models.CharField(_("model"), max_length=200)
    active = models.BooleanField(_("active"), default=True)
    order = models.PositiveSmallIntegerField(
        _("order"), default=0, help_text=_("Among equals, and after a failure, the lowest comes first.")
    )
    price_in = models.FloatField(_("price of a million tokens in"), default=0.0, validators=NOT_NEGATIVE)
    price_out = models.FloatField(_("price of a million tokens out"), default=0.0, validators=NOT_NEGATIVE)
    priced_on = models.DateField(_("prices as of"), null=True, blank=True)
    context = models.PositiveIntegerField(_("context in tokens"), default=0)
    tokens_in = models.PositiveIntegerField(_("tokens in of a call"), default=500)
    tokens_out = models.PositiveIntegerField(_("tokens out of a call"), default=300)
    quality = models.FloatField(_("expected success"), default=0.8, validators=share(1))
    latency = models.FloatField(_("expected latency in ms"), default=1_000.0, validators=NOT_NEGATIVE)
    requests_per_minute = models.PositiveIntegerField(_("requests a minute"), default=0)
    tokens_per_minute = models.PositiveIntegerField(_("tokens a minute"), default=0)
    at_once = models.PositiveIntegerField(_("calls at once"), default=0)
    health_url = models.URLField(_("health check"), max_length=500, blank=True)
    healthy = models.BooleanField(_("healthy"), default=True, editable=False)
    health_said = models.CharField(max_length=200, blank=True, editable=False)
    failures = models.PositiveIntegerField(_("failures in a row"), default=0, editable=False)
    cooling_until = models.DateTimeField(_("cools down until"), null=True, editable=False)
    holds = Holds(setting=[model, health_url], remark=[health_said])

    objects: ClassVar[Any] = BackendQuerySet.as_manager()

    class Meta:
        ordering = ("agent", "order", "pk")
        verbose_name = _("backend")
        verbose_name_plural = _("backends")
        constraints = (
            models.UniqueConstraint(fields=("agent", "provider", "model"), name="backend_unique_of_agent"),
            check(
                "backend_figures_in_range",
                price_in__gte=0,
                price_out__gte=0,
                latency__gte=0,
                quality__gte=0,
                quality__lte=1,
            ),
        )

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """What a call of so many tokens costs."""
        return (self.price_in * tokens_in + self.price_out * tokens_out) / 1e6


class BackendSettings(models.Model):
    """How a pool chooses: the preference of requests that bring none, a budget, what may be tried out, and who learns.

    `point` is the operating point that the weights were chosen for on the log, None where a person chose them; `study` is what the log
    said last of every point (`backends.savings`). A learner counts calls from `learning_since` on; `learning_stopped` is when it was
    stopped for doing worse, `learning_said` why.
    """

    class Learner(models.TextChoices):
        UCB1 = "ucb1", _("UCB1")
        THOMPSON = "thompson", _("Thompson sampling")
        LINUCB = "linucb", _("LinUCB")
        TABLE = "table", _("Q-table as published")

    pool = models.OneToOneField("agents_app.Pool", on_delete=models.CASCADE, related_name="backend_settings")
    quality = models.FloatField(_("quality"), default=0.7, validators=NOT_NEGATIVE)
    cost = models.FloatField(_("cost"), default=0.2, validators=NOT_NEGATIVE)
    latency = models.FloatField(_("speed"), default=0.1, validators=NOT_NEGATIVE)
    budget = models.FloatField(
        _("budget of a day"),
        null=True,
        blank=True,
        validators=NOT_NEGATIVE,
        help_text=_("From 80 % of it on, the cheapest backend is used; once it is spent, none. Blank: no budget."),
    )
    spread = models.BooleanField(
        _("spread the load"),
        default=False,
        help_text=_("A backend that recently got far more than its share is used less."),
    )
    exploration = models.FloatField(
        _("share that is explored"),
        default=0.0,
        validators=share(0.1),
        help_text=_(
            "Share of the assignments, 0 to 0.1, that go to any allowed backend, so that others are measured too."
        ),
    )
    pairs = models.BooleanField(
        _("count who works well after whom"),
        default=False,
        help_text=_("In episodes, a backend that did well after the previous one is used more."),
    )
    learner = models.CharField(
        _("learner"),
        max_length=8,
        blank=True,
        choices=Learner.choices,
        help_text=_("Learns from reported calls and decides a share of the assignments. Blank: no learner."),
    )
    learning_share = models.FloatField(
        _("share that the learner decides"),
        default=0.1,
        validators=share(0.5),
        help_text=_("0 to 0.5. The direct estimate decides the rest, and the learner is compared with it."),
    )
    learning_within = models.FloatField(
        _("at most so much below"),
        default=0.1,
        validators=share(1),
        help_text=_("The learner uses no backend whose success is further below that of the direct estimate's choice."),
    )
    point = models.FloatField(
        _("quality at least"),
        null=True,
        blank=True,
        validators=share(1),
        help_text=_("The share of the best single backend's quality that choosing keeps; blank: the weights above."),
    )
    study = models.JSONField(default=dict, editable=False)
    learning_since = models.DateTimeField(null=True, editable=False)
    learning_stopped = models.DateTimeField(null=True, editable=False)
    learning_said = models.CharField(max_length=200, blank=True, editable=False)
    holds = Holds(remark=[learning_said], neither=[study])

    class Meta:
        constraints = (
            check("backend_weights_not_negative", quality__gte=0, cost__gte=0, latency__gte=0),
            check(
                "backend_learning_within_rails",
                models.Q(learning_share__gte=0, learning_share__lte=0.5)
                & models.Q(learning_within__gte=0, learning_within__lte=1),
            ),
            check("backend_exploration_is_small", exploration__gte=0, exploration__lte=0.1),
        )

    def __str__(self) -> str:
        return str(self.pool)
