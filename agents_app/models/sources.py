"""Where agents describe themselves: an agent card of A2A, or the tools of an MCP server."""

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agents_app.models.pools import Agent, Pool
from routerweb.holds import Holds


class AgentSource(models.Model):
    """An address whose description becomes one agent, once somebody has approved it. A card from a file has no address to ask again.

    `taken` is what was decided on last, `offered` what it says now where that differs. `examples` are the queries that approved
    descriptions named: routing by descriptions reads them. `calling` says how it may be called, as
    `sources.described.Described` has it. `secret` is sealed (`sealing`). The address of one tool of a server ends in # and its name.
    """

    class Kind(models.TextChoices):
        CARD = "a2a", _("Agent card")
        TOOLS = "mcp", _("MCP server")

    class Signature(models.TextChoices):
        NONE = "none", _("Not signed")
        VALID = "valid", _("Signature holds")
        UNKNOWN = "unknown", _("Signature could not be checked")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="agent_sources")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, null=True, related_name="sources")
    kind = models.CharField(_("kind"), max_length=3, choices=Kind.choices)
    address = models.CharField(_("address"), max_length=500)
    secret = models.TextField(editable=False, blank=True)
    taken = models.JSONField(default=dict, blank=True)
    offered = models.JSONField(null=True, blank=True)
    examples = models.JSONField(
        default=list, db_default=models.Value([], models.JSONField()), blank=True, editable=False
    )
    calling = models.JSONField(default=dict, blank=True, editable=False)
    signature = models.CharField(max_length=7, choices=Signature.choices, default=Signature.NONE)
    signer = models.CharField(max_length=300, blank=True)
    problem = models.CharField(max_length=300, blank=True)
    checked_at = models.DateTimeField(null=True)
    holds = Holds(
        shared=[taken, offered, examples], remark=[problem], setting=[address, signer, calling], secret=[secret]
    )

    class Meta:
        ordering = ("pool", "address")
        verbose_name = _("source of agents")
        verbose_name_plural = _("sources of agents")
        constraints = (models.UniqueConstraint(fields=("pool", "address"), name="source_address_unique_in_pool"),)

    def __str__(self) -> str:
        return self.address

    @property
    def described_in(self) -> str:
        """What described the agent, in words: a list of agents names no way to call them, as a card does."""
        listed = self.kind == self.Kind.CARD and not self.can_be_asked and not self.calling
        return gettext("List of agents") if listed else self.get_kind_display()

    @property
    def can_be_asked(self) -> bool:
        """Whether there is an address to ask again."""
        return self.address.startswith(("https://", "http://"))
