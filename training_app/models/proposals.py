"""What the pool may lack and where it overlaps: proposals for ops, which hold no query's words, only which decisions show it."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.holds import Holds


class AgentProposal(models.Model):
    """One thing to change about a pool's agents.

    `agents` are the ids that it is about, none for a missing agent. `decisions` are ids of answers that show it, the most typical
    first, and `keys` the hashes of all queries behind it, so that it does not come back for the same ones. `figures`: "count" and
    "share", and under "went" how often each agent answered these queries.
    """

    class Kind(models.TextChoices):
        MISSING = "missing", _("Missing agent")
        OVERLAP = "overlap", _("Overlapping agents")
        UNUSED = "unused", _("Nobody asks for it")
        TOGETHER = "together", _("Always together")
        ATTRACTS = "attracts", _("Attracts what it does not answer")

    class State(models.TextChoices):
        OPEN = "open", _("Open")
        ACCEPTED = "accepted", _("Accepted")
        DECLINED = "declined", _("Declined")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="agent_proposals")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    name = models.CharField(_("name"), max_length=120, blank=True)
    agents = models.JSONField(default=list)
    decisions = models.JSONField(default=list)
    keys = models.JSONField(default=list)
    size = models.PositiveIntegerField(_("queries"), default=0)
    figures = models.JSONField(default=dict)
    state = models.CharField(max_length=8, choices=State.choices, default=State.OPEN)
    created_at = models.DateTimeField(auto_now_add=True)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    holds = Holds(remark=[name], neither=[agents, decisions, keys, figures])

    class Meta:
        ordering = ("pk",)
        indexes = (models.Index(fields=("pool", "state")),)

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.name or self.agents}"
