"""Rules that launch runs: every night, after new gold labels, or when drift is found.

A job of the default cluster looks once a minute (`evaluate`); what finds drift calls `on_drift`. A rule never launches while a run of
its own is queued or running. Whoever moves `last_fired_at` has the launch, so that several processes that look at once launch one run.
"""

import logging
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app import audit
from agents_app.audit import Actor, Who, actor_of
from agents_app.models import Pool
from datasets_app.models import Gold
from training_app.engine.config import ConfigError
from training_app.models import LaunchRule, Run
from training_app.training import runs
from training_app.versions import kinds

log = logging.getLogger(__name__)
Trigger = LaunchRule.Trigger
UNENDED = (Run.Status.QUEUED, Run.Status.RUNNING)


class Outlook(NamedTuple):
    """What a rule waits for: in words, and the time of its next launch where that is known."""

    text: str
    at: datetime | None = None


# ---------------------------------------------------------------------------------------------------- asked for by people


def save(rule: LaunchRule, *, actor: Who) -> LaunchRule:
    """Store a new or an edited rule. A new one counts nights and labels from now on."""
    new = rule.pk is None
    with transaction.atomic():
        if new:
            rule.author = actor_of(actor).user
        rule.problem = ""
        rule.save()
        detail = {"kind": rule.model_kind, "when": rule.trigger, "config": rule.config, "promote": rule.promote}
        _record("rule.created" if new else "rule.edited", rule, actor, detail)
    return rule


def switch(rule: LaunchRule, on: bool, *, actor: Who) -> None:
    """Pause a rule, or let it go on."""
    with transaction.atomic():
        if LaunchRule.objects.filter(pk=rule.pk, active=not on).update(active=on):
            _record("rule.resumed" if on else "rule.paused", rule, actor, None)
    rule.active = on


def delete(rule: LaunchRule, *, actor: Who) -> None:
    """Delete a rule; its runs stay."""
    with transaction.atomic():
        detail = {"kind": rule.model_kind, "when": rule.trigger, "config": rule.config, "promote": rule.promote}
        _record("rule.deleted", rule, actor, detail)
        rule.delete()


def _record(action: str, rule: LaunchRule, actor: Who, detail: dict[str, Any] | None) -> None:
    audit.record(action, actor=actor, target=rule.name, pool=rule.pool, detail=detail)


# ---------------------------------------------------------------------------------------------------- looked at by the clock


def evaluate(now: datetime | None = None) -> int:
    """Launch a run for each rule whose time has come; how many that was. One that cannot takes no other with it."""
    now = now or timezone.now()
    launched = 0
    for rule in list(_watching().exclude(trigger=Trigger.DRIFT)):
        reason = due(rule, now)
        if reason and fire(rule, reason, now):
            launched += 1
    return launched


def on_drift(pool: Pool, reason: str = "") -> int:
    """Launch a run for each of the pool's rules that wait for drift; how many that was. `reason` says what has drifted.

    A rule that launched within its rest, or whose run is still going, is passed over, so the caller need not count.
    """
    now = timezone.now()
    words = reason.strip() or _("Drift was found")
    rules = list(_watching().filter(pool=pool, trigger=Trigger.DRIFT))
    return sum(fire(rule, words, now) is not None for rule in rules if _rested(rule, now))


def due(rule: LaunchRule, now: datetime) -> str:
    """Why a rule by night or by labels is to launch now, or "" where it is not; a night without new labels is passed over by a
    kind of model that learns from labels."""
    if rule.trigger == Trigger.NIGHTLY:
        if now < next_night(rule):
            return ""
        changed = new_labels(rule)
        if not kinds.of(rule.model_kind).labels:
            return _("Nightly run")
        if rule.only_new and not changed:
            # The night is over for this rule: a label of the next afternoon must not launch it in daylight.
            LaunchRule.objects.filter(pk=rule.pk).update(passed_at=now)
            return ""
        words = ngettext("Nightly run: %(count)d new gold label", "Nightly run: %(count)d new gold labels", changed)
        return words % {"count": changed}
    if rule.trigger == Trigger.LABELS and _rested(rule, now):
        changed = new_labels(rule)
        if changed >= rule.labels:
            return _("%(count)d new gold labels") % {"count": changed}
    return ""


def fire(rule: LaunchRule, reason: str, now: datetime) -> Run | None:
    """Launch the rule's run; None where another process did, a run of the rule is not over yet, or nothing can be trained on.

    Why it could not is kept in `rule.problem`.
    """
    claim = LaunchRule.objects.filter(pk=rule.pk, active=True, last_fired_at=rule.last_fired_at)
    if not claim.exclude(runs__status__in=UNENDED).exists() or not claim.update(last_fired_at=now):
        return None
    try:
        run = runs.launch(
            rule.pool,
            kind=rule.model_kind,
            config=rule.config,
            promote=rule.promote,
            author=Actor(f"rule {rule.name}", rule.author),
            include_llm=rule.include_llm or None,
            rule=rule,
        )
    except (ConfigError, kinds.UnknownKind, runs.RunError) as error:
        log.warning("the rule %s of %s could not launch: %s", rule.name, rule.pool.slug, error)
        LaunchRule.objects.filter(pk=rule.pk).update(problem=str(error)[:400])
        return None
    LaunchRule.objects.filter(pk=rule.pk).update(last_reason=reason[:300], problem="")
    return run


def _watching() -> Any:
    waiting = LaunchRule.objects.filter(active=True, pool__in=Pool.objects.in_use()).exclude(runs__status__in=UNENDED)
    return waiting.select_related("pool", "author").distinct()


# ---------------------------------------------------------------------------------------------------- what it waits for


def outlook(rule: LaunchRule, now: datetime | None = None) -> Outlook:
    """What the rule waits for, for the page of ops."""
    now = now or timezone.now()
    if not rule.active:
        return Outlook(_("Paused"))
    if rule.runs.filter(status__in=UNENDED).exists():
        return Outlook(_("Its run is not over yet"))
    if rule.trigger == Trigger.NIGHTLY:
        waits_for_gold = rule.only_new and kinds.of(rule.model_kind).labels
        return Outlook(_("If gold has changed by then") if waits_for_gold else "", next_night(rule))
    rested = _rest_ends(rule)
    if rested and rested > now:
        return Outlook(_("It rests"), rested)
    if rule.trigger == Trigger.LABELS:
        return Outlook(_("%(count)d of %(all)d new gold labels") % {"count": new_labels(rule), "all": rule.labels})
    return Outlook(_("It waits for drift"))


def next_night(rule: LaunchRule) -> datetime:
    """The first time at which it is the rule's hour here, after it was made, launched and passed over a night."""
    moments = (rule.created_at, rule.last_fired_at, rule.passed_at)
    return _coming_hour(max(at for at in moments if at), rule.hour)


def new_labels(rule: LaunchRule) -> int:
    """Gold labels of the pool that are new or changed since the rule launched last, or was made."""
    since = rule.last_fired_at or rule.created_at
    gold = Gold.objects.filter(query__dataset__pool_id=rule.pool_id, query__deleted_at=None, composed_at__gt=since)
    return gold.count()


def _coming_hour(after: datetime, hour: int) -> datetime:
    local = timezone.localtime(after)
    moment = local.replace(hour=hour, minute=0, second=0, microsecond=0)
    # Days are added to the wall clock, so that the hour stays the same when clocks change.
    return moment if moment > local else moment + timedelta(days=1)


def _rest_ends(rule: LaunchRule) -> datetime | None:
    return rule.last_fired_at + timedelta(hours=rule.rest_hours) if rule.last_fired_at else None


def _rested(rule: LaunchRule, now: datetime) -> bool:
    ends = _rest_ends(rule)
    return ends is None or now >= ends
