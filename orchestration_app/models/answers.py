"""How a pool makes one answer of what its agents said."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent, Pool
from routerweb.database.checks import check


class AnswerRule(models.Model):
    """A pool's rule. `composer` is the agent that writes the answer under the rule of that name; none: the LLM of the settings."""

    class Rule(models.TextChoices):
        JOINED = "joined", _("Every agent's output, under headings")
        LAST = "last", _("The last output")
        COMPOSER = "composer", _("One text, written from all outputs")
        MAJORITY = "majority", _("The answer that most paths gave")

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="answer_rule")
    rule = models.CharField(_("answer"), max_length=8, choices=Rule.choices, default=Rule.JOINED)
    composer = models.ForeignKey(
        Agent, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("written by")
    )

    class Meta:
        verbose_name = _("answer rule")
        verbose_name_plural = _("answer rules")
        constraints = (check("answer_rule_known", rule__in=("joined", "last", "composer", "majority")),)

    def __str__(self) -> str:
        return f"{self.pool}: {self.get_rule_display()}"
