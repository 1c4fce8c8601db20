"""How agents are called."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent
from routerweb.database.checks import check
from routerweb.holds import Holds


class Executor(models.Model):
    """How an agent is called: by whom, where, and within which bounds. An agent without one can be chosen, but not called.

    `secret` is sealed (`sealing`). Costs and prices are in the pool's currency; a price is for a million tokens. `options` are what
    only its kind has (`executors.OPTIONS`). `approval` says which calls a person approves first, `approval_above` the amount.
    """

    class Kind(models.TextChoices):
        CHAT = "chat", _("Chat completion")
        WEBHOOK = "webhook", _("Webhook")
        CALLABLE = "callable", _("Python function")
        SCRIPTED = "scripted", _("Scripted")
        A2A = "a2a", _("A2A agent")
        MCP = "mcp", _("MCP tools")
        RESPONSES = "responses", _("Responses API")
        HTTP = "http", _("HTTP request")

    class Approval(models.TextChoices):
        NEVER = "never", _("No")
        ALWAYS = "always", _("Every call")
        ABOVE = "above", _("Calls about an amount above the limit")

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, related_name="executor")
    kind = models.CharField(_("kind"), max_length=12, choices=Kind.choices)
    active = models.BooleanField(_("active"), default=True, help_text=_("Off: the agent is not called."))
    address = models.CharField(_("address"), max_length=500, blank=True)
    model = models.CharField(_("model"), max_length=200, blank=True)
    instruction = models.TextField(_("instruction"), blank=True)
    tools = models.JSONField(_("tools"), default=list, blank=True)
    function = models.CharField(_("function"), max_length=200, blank=True)
    script = models.JSONField(_("script"), default=dict, blank=True)
    options = models.JSONField(_("options"), default=dict, blank=True)
    reads_others = models.BooleanField(
        _("needs other agents' output"),
        default=False,
        help_text=_(
            "It is called after those that do not. Agents that do not need each other's output are called at the same time."
        ),
    )
    approval = models.CharField(
        _("a person approves calls first"), max_length=6, choices=Approval.choices, default=Approval.NEVER
    )
    approval_above = models.FloatField(
        _("limit"),
        default=0.0,
        help_text=_("The largest amount in the task decides. A task without one needs approval."),
    )
    secret = models.TextField(editable=False, blank=True)
    price_in = models.FloatField(_("price of a million tokens in"), default=0.0)
    price_out = models.FloatField(_("price of a million tokens out"), default=0.0)
    most_tokens = models.PositiveIntegerField(_("most tokens of an answer"), default=1_024)
    most_cost = models.FloatField(
        _("most that a call costs"), null=True, blank=True, help_text=_("Blank: the agent's cost.")
    )
    seconds = models.FloatField(_("seconds for a call"), default=30.0)
    retries = models.PositiveSmallIntegerField(_("retries of a failed call"), default=2)
    repeatable = models.BooleanField(
        _("may be called again"),
        default=False,
        help_text=_("A call without an answer is made again with the same Idempotency-Key."),
    )
    most_kb = models.PositiveIntegerField(_("largest answer in KiB"), default=1_024)
    at_once = models.PositiveIntegerField(_("calls at once"), default=0, help_text=_("0: no limit."))
    per_minute = models.PositiveIntegerField(_("calls a minute"), default=0, help_text=_("0: no limit."))
    changed_at = models.DateTimeField(auto_now=True)
    holds = Holds(
        shared=[instruction, script],
        setting=[address, model, tools, function, options],
        neither=[approval],
        secret=[secret],
    )

    class Meta:
        verbose_name = _("executor")
        verbose_name_plural = _("executors")
        constraints = (
            check(
                "executor_kind_known",
                kind__in=("chat", "webhook", "callable", "scripted", "a2a", "mcp", "responses", "http"),
            ),
            check("executor_approval_known", approval__in=("never", "always", "above"), approval_above__gte=0),
            check("executor_numbers_positive", price_in__gte=0, price_out__gte=0, seconds__gt=0),
        )

    def __str__(self) -> str:
        return f"{self.agent}: {self.get_kind_display()}"

    @property
    def is_language_model(self) -> bool:
        """Whether it is paid by tokens, and can be run on backends."""
        return self.kind in LANGUAGE_MODELS

    @property
    def dearest(self) -> float:
        """The most that a call without a price by tokens costs."""
        return self.agent.cost if self.most_cost is None else self.most_cost


#: Kinds that are asked with messages and paid by tokens.
LANGUAGE_MODELS = frozenset({Executor.Kind.CHAT, Executor.Kind.RESPONSES})
