"""A pool's answer rule and what it learns from episodes: what may be set, and that running processes hear of a change."""

from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.models import Agent, Pool, Stamp
from orchestration_app.models import AnswerRule, EpisodeLearning, Executor


def save_learning(row: EpisodeLearning, *, actor: audit.Who) -> None:
    """Explore and judge the pool's episodes like this from now on."""
    with transaction.atomic():
        row.save()
        detail = {"exploration": row.exploration, "judge_a_day": row.judge_a_day}
        audit.record("episodes.learning", actor=actor, target=str(row.pool), pool=row.pool, detail=detail)
        Stamp.bump()


class AnswerRuleError(ValueError):
    """A rule that cannot be kept; the message says why, `field` names the input at fault."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


def save(pool: Pool, rule: str, composer: Agent | None, *, actor: audit.Who) -> AnswerRule:
    """Make answers by this rule from now on; episodes under way keep theirs. Raises AnswerRuleError."""
    if rule not in AnswerRule.Rule.values:
        words = _("Choose one of: %(rules)s.") % {"rules": ", ".join(AnswerRule.Rule.values)}
        raise AnswerRuleError(words, "rule")
    if rule != AnswerRule.Rule.COMPOSER:
        composer = None
    elif composer is not None and not Executor.objects.filter(agent=composer, active=True).exists():
        words = _("%(agent)s has no executor yet: set first how it is called.") % {"agent": composer.name}
        raise AnswerRuleError(words, "composer")
    with transaction.atomic():
        row, _new = AnswerRule.objects.update_or_create(pool=pool, defaults={"rule": rule, "composer": composer})
        detail = {"rule": rule, "composer": composer.number if composer else None}
        audit.record("answers.saved", actor=actor, target=str(pool), pool=pool, detail=detail)
        Stamp.bump()
    return row
