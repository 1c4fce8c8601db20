"""Check 30 answers: a random sample of what a model answered, for people who do not see what it was. That is the delivered quality.

A round is drawn of the decisions of the active model in the last week. What a person says is kept as their label, too.
"""

import random
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.models import Pool
from datasets_app.labeling import corrections
from training_app.models import CheckedAnswer, Decision, RouterModel
from training_app.versions import registry

#: Answers of one round, and decisions that it is drawn of, the newest ones.
ROUND, OF = 30, 20_000
WINDOW = timedelta(days=7)
FEWEST = 5
SEEN_AT = "check"  # in the labels that come of it
#: Answers of a round that wait longer than this are given up: somebody began it and went.
GIVEN_UP = timedelta(days=14)


class CheckError(Exception):
    """A round that cannot be drawn, or an answer that cannot be kept; the message says why."""


def waiting(pool: Pool) -> list[CheckedAnswer]:
    """The answers of the pool that were drawn and wait to be checked, in their order."""
    return list(CheckedAnswer.objects.filter(pool=pool).waiting().select_related("model__pool"))


def possible(pool: Pool) -> bool:
    """Whether answers wait to be checked, or a round can be drawn."""
    model = registry.active(pool)
    if model is None:
        return False
    since = timezone.now() - WINDOW
    return (
        CheckedAnswer.objects.filter(pool=pool).waiting().exists()
        or Decision.objects.filter(model=model, at__gte=since)[:FEWEST].count() == FEWEST
    )


def draw(pool: Pool, *, actor: User) -> int:
    """Draw a round of the active model's answers, each as likely as any other; how many there are. Raises CheckError."""
    model = registry.active(pool)
    if model is None:
        raise CheckError(_("No model is active, so there is no answer to check."))
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        _give_up(pool)
        if CheckedAnswer.objects.filter(pool=pool).waiting().exists():
            raise CheckError(_("A round is being checked already."))
        drawn = _sample(model)
        if len(drawn) < FEWEST:
            raise CheckError(
                _("%(model)s has answered too little in a week: there is nothing to draw from.") % {"model": model.name}
            )
        last = CheckedAnswer.objects.filter(pool=pool).aggregate(last=Max("round"))["last"] or 0
        CheckedAnswer.objects.bulk_create(
            CheckedAnswer(
                pool=pool,
                model=model,
                round=last + 1,
                decision_id=decision.pk,
                answered=decision.agents,
                decided_at=decision.at,
            )
            for decision in drawn
        )
        audit.record("checks.drawn", actor=actor, target=model.name, pool=pool, detail={"answers": len(drawn)})
    return len(drawn)


def _sample(model: RouterModel) -> list[Decision]:
    since = timezone.now() - WINDOW
    newest = Decision.objects.filter(model=model, at__gte=since).order_by("-at").values_list("pk", flat=True)[:OF]
    before = set(CheckedAnswer.objects.filter(model=model).values_list("decision_id", flat=True))
    open_ = [pk for pk in newest if pk not in before]
    chosen = random.SystemRandom().sample(open_, min(ROUND, len(open_)))
    decisions = list(Decision.objects.filter(pk__in=chosen).only("pk", "agents", "at"))
    random.SystemRandom().shuffle(decisions)
    return decisions


def _give_up(pool: Pool) -> None:
    """Leave out what was drawn and not checked for long, and what no decision stands behind any more."""
    open_ = CheckedAnswer.objects.filter(pool=pool).waiting()
    open_.filter(drawn_at__lt=timezone.now() - GIVEN_UP).delete()
    kept = set(
        Decision.objects.filter(pk__in=list(open_.values_list("decision_id", flat=True))).values_list("pk", flat=True)
    )
    open_.exclude(decision_id__in=kept).delete()


def decision_of(check: CheckedAnswer) -> Decision | None:
    """The decision, with the query; None where it was pruned or erased meanwhile."""
    return Decision.objects.filter(pool=check.pool_id, pk=check.decision_id).first()


def answer(check: CheckedAnswer, required: Collection[int], person: User) -> None:
    """Keep what a person says that the query needs, as their label too. Raises CheckError where it was checked meanwhile or the
    decision is gone, and ChoiceError for agents that the pool does not have."""
    made = decision_of(check)
    if made is None:
        raise CheckError(_("This answer is no longer stored."))
    with transaction.atomic():
        waiting_check = CheckedAnswer.objects.filter(pk=check.pk).waiting()
        if not waiting_check.update(required=sorted(required), author=person, checked_at=timezone.now()):
            raise CheckError(_("Somebody has checked this answer meanwhile."))
        corrections.correct(check.pool, made.routed_text, required, person, seen_at=SEEN_AT)


def last_of(pool: Pool, person: User) -> CheckedAnswer | None:
    """What this person checked last, while it is of the newest round."""
    newest = CheckedAnswer.objects.filter(pool=pool).aggregate(last=Max("round"))["last"]
    return CheckedAnswer.objects.filter(pool=pool, round=newest, author=person).done().order_by("checked_at").last()


def last_model(pool: Pool) -> RouterModel | None:
    """The model whose answers were checked last."""
    last = CheckedAnswer.objects.filter(pool=pool).done().select_related("model__pool").order_by("checked_at").last()
    return None if last is None else last.model


@dataclass(frozen=True, slots=True)
class Mistake:
    """A checked answer that was not right: its decision and the query's text, the ids that were `answered` and `required`."""

    decision: uuid.UUID
    text: str
    answered: list[int]
    required: list[int]


def mistakes(model: RouterModel) -> list[Mistake]:
    """The wrong ones among the answers of the model's newest round, while their decisions are stored."""
    done = CheckedAnswer.objects.filter(model=model).done()
    newest = done.aggregate(last=Max("round"))["last"]
    wrong = [answered for answered in done.filter(round=newest) if not answered.right]
    decisions = Decision.objects.filter(pool=model.pool_id, pk__in=[answered.decision_id for answered in wrong])
    texts = {decision.pk: decision.text for decision in decisions}
    return [
        Mistake(row.decision_id, texts[row.decision_id], row.answered, row.required or [])
        for row in wrong
        if row.decision_id in texts
    ]


def take_back(check: CheckedAnswer, person: User) -> None:
    """Have an answer that this person checked wait again, and withdraw the label that came of it. Raises CheckError where they did
    not, or the decision is gone, and ChoiceError where the label cannot be withdrawn."""
    made = decision_of(check)
    if made is None:
        raise CheckError(_("This answer is no longer stored."))
    with transaction.atomic():
        own = CheckedAnswer.objects.filter(pk=check.pk, author=person).done()
        if not own.update(required=None, author=None, checked_at=None):
            raise CheckError(_("This was undone already."))
        label = corrections.last_of(check.pool, made.routed_text, person, seen_at=SEEN_AT)
        if label is not None:
            corrections.take_back(check.pool, label.pk, person)


def leave_out(check: CheckedAnswer) -> None:
    """Take an answer that nobody can judge out of its round."""
    CheckedAnswer.objects.filter(pk=check.pk).waiting().delete()
