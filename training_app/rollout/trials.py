"""Trying a model on live traffic before it answers all of it: as a shadow that answers nothing, or as a canary that answers a share.

A set router is tried on queries, an orchestrator on episodes; each kind has its own shadows and canary.

Every change is one transaction under the pool's row lock, bumps the version stamp, so that every process follows within two seconds,
and leaves an audit entry. A promotion or a roll-back ends the canary, whichever model it was: it was compared with the model before.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who
from agents_app.models import Pool, Stamp
from training_app.models import SET_ROUTER, Artifact, Canary, LiveSettings, Promotion, PromotionRequest, RouterModel
from training_app.models.live import MOST_CANARY
from training_app.versions import approvals, gate, kinds, registry
from training_app.versions.registry import RegistryError

#: Shadows of one pool: each holds a model in every web process and scores every text.
MOST_SHADOWS = 3
State = RouterModel.State


def settings_of(pool: Pool) -> LiveSettings:
    """The pool's live settings; with everything off, and not stored, where there are none yet."""
    return LiveSettings.objects.select_related("pool").filter(pool=pool).first() or LiveSettings(pool=pool)


def stored_settings(pool: Pool) -> LiveSettings:
    """The pool's live settings, stored where they were not yet."""
    return LiveSettings.objects.select_related("pool").get_or_create(pool=pool)[0]


def canary_of(pool: Pool, kind: str = SET_ROUTER) -> Canary | None:
    """The pool's canary of that kind, or None."""
    return Canary.objects.running(kind).filter(pool=pool).select_related("pool", "model__pool", "against__pool").first()


def shadows_of(pool: Pool, kind: str = SET_ROUTER) -> list[RouterModel]:
    """The pool's shadows of that kind, oldest first."""
    return list(registry.models(pool).filter(kind=kind, state=State.SHADOW).order_by("pk"))


@dataclass(frozen=True, slots=True)
class Answering:
    """Who answers a pool's requests: the active model (None: nobody does), the canary with its share, and the shadows beside them."""

    active: RouterModel | None
    canary: Canary | None
    shadows: tuple[RouterModel, ...]


def answering(pool: Pool, kind: str = SET_ROUTER) -> Answering:
    """Who answers the pool's requests now, or decides its episodes. A shadow that has become the canary is the canary."""
    return answering_with(pool, registry.active(pool, kind), shadows_of(pool, kind), kind)


def answering_with(
    pool: Pool, active: RouterModel | None, shadows: Iterable[RouterModel], kind: str = SET_ROUTER
) -> Answering:
    """The same where somebody has read the active model and the shadows."""
    canary = canary_of(pool, kind)
    return Answering(active, canary, tuple(model for model in shadows if canary is None or model.pk != canary.model_id))


def start_shadow(model: RouterModel, *, actor: Who) -> None:
    """Let the model score live texts. Raises RegistryError where its kind cannot be tried, where it is active or a shadow already,
    where there is no active model, where the pool has MOST_SHADOWS, or where its artifact cannot be loaded."""
    _may_answer(model)
    registry.load_model(model)
    with transaction.atomic():
        pool = Pool.objects.select_for_update(no_key=True).get(pk=model.pool_id)
        now = RouterModel.objects.get(pk=model.pk)
        if now.state == State.ACTIVE:
            raise RegistryError(_("%(model)s is the active model already.") % {"model": model.name})
        if now.state == State.SHADOW:
            raise RegistryError(_("%(model)s is a shadow already.") % {"model": model.name})
        if registry.active(pool, model.kind) is None:
            raise RegistryError(_("%(pool)s has no active model to compare with. Promote one.") % {"pool": pool.slug})
        if len(shadows_of(pool, model.kind)) >= MOST_SHADOWS:
            raise RegistryError(
                _("%(pool)s has %(most)d shadows already. Stop one first.") % {"pool": pool.slug, "most": MOST_SHADOWS}
            )
        _still_there(model)
        RouterModel.objects.filter(pk=model.pk).update(state=State.SHADOW)
        Stamp.bump()
        audit.record("shadow.started", actor=actor, target=model.name, pool=pool)
    model.state = State.SHADOW


def stop_shadow(model: RouterModel, *, actor: Who) -> None:
    """Let the model score no more; what it scored is kept. Raises RegistryError where it is not a shadow."""
    with transaction.atomic():
        pool = Pool.objects.select_for_update(no_key=True).get(pk=model.pool_id)
        # Whether it answered before decides what it is again.
        state = State.RETIRED if model.promotions.exists() else State.CANDIDATE
        if not RouterModel.objects.filter(pk=model.pk, state=State.SHADOW).update(state=state):
            raise RegistryError(_("%(model)s is not a shadow.") % {"model": model.name})
        Stamp.bump()
        audit.record("shadow.stopped", actor=actor, target=model.name, pool=pool)
    model.state = state


def start_canary(
    model: RouterModel, share: float, *, actor: Who, reason: str = "", override: str = ""
) -> Canary | PromotionRequest:
    """Let the model answer a share of the pool's traffic, up to a half; for the present canary, change its share.

    The gate is asked as for a promotion; what it found, and why it was overridden, is kept. Where promotions need a second person this
    only asks for it, as a canary answers real requests, and a PromotionRequest comes back: `approve` does the rest. A share that is no
    larger than the present one needs nobody. Page, command and API call this. Raises GateRefused, and RegistryError where there is no
    active model, another canary runs, the share is out of range, or the artifact cannot be loaded.
    """
    if not 0 < share <= MOST_CANARY:
        raise RegistryError(
            _("A canary's share lies above 0 and is at most %(most).0f %%.") % {"most": 100 * MOST_CANARY}
        )
    _may_answer(model)
    override = override.strip()[:400]
    verdict = _judged(model, override)
    with transaction.atomic():
        canary = _locked(verdict)
        if approvals.needed(model.pool) and (canary is None or canary.share < share):
            return approvals.ask(model, actor=actor, reason=reason, override=override, share=share)
        return _let_answer(verdict, canary, share, actor, reason, override)


def approve(asked: PromotionRequest, *, actor: Who, note: str = "") -> Promotion | Canary:
    """Do what somebody else asked for: promote the model, or let it answer that share. Page and API call this.

    The gate is asked again. Raises RegistryError as `gate.approve` and `start_canary` do, and GateRefused where the model no longer
    passes and the request has no override.
    """
    if asked.share is None:
        return gate.approve(asked, actor=actor, note=note)
    verdict = _judged(asked.model, asked.override)
    with transaction.atomic():
        canary = _locked(verdict)
        approvals.approved(asked, actor=actor, note=note)
        return _let_answer(verdict, canary, asked.share, actor, asked.reason, asked.override)


def _judged(model: RouterModel, override: str) -> gate.Verdict:
    """What the gate says of a model that shall be the canary. Raises GateRefused without an override, and RegistryError."""
    registry.load_model(model)
    verdict = gate.judge_for_the_record(model)
    if verdict.active is None:
        raise RegistryError(
            _("%(pool)s has no active model that would answer the rest. Promote one.") % {"pool": model.pool.slug}
        )
    if verdict.active.pk == model.pk:
        raise RegistryError(_("%(model)s is the active model already.") % {"model": model.name})
    if not verdict.passed and not override:
        raise gate.GateRefused(gate.judge(model))
    return verdict


def _locked(verdict: gate.Verdict) -> Canary | None:
    """Lock the pool and look again: the present canary, None where there is none. Raises RegistryError where the judged model may not
    be it."""
    model = verdict.model
    pool = Pool.objects.select_for_update(no_key=True).get(pk=model.pool_id)
    if registry.active(pool, model.kind) != verdict.active:
        raise RegistryError(_("The active model of %(pool)s has just changed. Look again.") % {"pool": pool.slug})
    _still_there(model)
    canary = canary_of(pool, model.kind)
    if canary is not None and canary.model_id != model.pk:
        raise RegistryError(
            _("%(other)s is the canary of %(pool)s. Stop it first.") % {"other": canary.model.name, "pool": pool.slug}
        )
    return canary


def _let_answer(
    verdict: gate.Verdict, canary: Canary | None, share: float, actor: Who, reason: str, override: str
) -> Canary:
    """Under the pool's lock: begin the canary, or change its share."""
    model, pool = verdict.model, verdict.model.pool
    assert verdict.active is not None
    stored_settings(pool)  # its salt decides who meets the canary
    before = canary.share if canary else None
    if canary is None:
        canary = Canary(pool=pool, kind=model.kind, model=model, against=verdict.active)
    if before != share:
        canary.shares = [*canary.shares, [timezone.now().isoformat(), share]]
    canary.share, canary.reason, canary.author = share, reason[:400], audit.actor_of(actor).user
    canary.passed, canary.override = verdict.passed, "" if verdict.passed else override
    canary.findings = [asdict(finding) for finding in verdict.findings]
    canary.save()
    Stamp.bump()
    audit.record(
        "canary.started" if before is None else "canary.share",
        actor=actor,
        target=model.name,
        pool=pool,
        detail={"share": share, "before": before, "reason": reason, "override": canary.override},
    )
    if canary.override:
        audit.record(
            "gate.overridden",
            actor=actor,
            target=model.name,
            pool=pool,
            detail={
                "reason": canary.override,
                "failed": [f.text for f in verdict.findings if f.passed is False],
                "for": "canary",
            },
        )
    return canary


def stop_canary(pool: Pool, kind: str = SET_ROUTER, *, actor: Who) -> Canary:
    """Let the active model answer everything again. Raises RegistryError where there is no canary."""
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        canary = canary_of(pool, kind)
        if canary is None:
            raise RegistryError(_("%(pool)s has no canary.") % {"pool": pool.slug})
        canary.ended_at, canary.ended = timezone.now(), Canary.Ended.STOPPED
        canary.save(update_fields=("ended_at", "ended"))
        Stamp.bump()
        audit.record("canary.stopped", actor=actor, target=canary.model.name, pool=pool)
    return canary


def change_settings(pool: Pool, changes: Iterable[tuple[str, object]], *, actor: Who) -> LiveSettings:
    """Set fields of the pool's live settings that were checked before; nothing is written where nothing changes."""
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        settings = stored_settings(pool)
        detail = {}
        for name, value in changes:
            if getattr(settings, name) != value:
                detail[name] = [getattr(settings, name), value]
                setattr(settings, name, value)
        if detail:
            settings.save(update_fields=list(detail))
            Stamp.bump()
            audit.record("live.settings", actor=actor, target=pool.slug, pool=pool, detail=detail)
    return settings


def _may_answer(model: RouterModel) -> None:
    kind = kinds.of(model.kind)
    if not kind.tried:
        raise RegistryError(
            _("%(model)s answers no queries, so it cannot be tried on them: its kind is %(kind)s.")
            % {"model": model.name, "kind": kind.label}
        )


def _still_there(model: RouterModel) -> None:
    """Under the pool's lock: an old model's artifact may have been pruned since it was loaded."""
    if not Artifact.objects.filter(model=model).exists():
        raise RegistryError(_("The artifact of %(model)s has just been pruned.") % {"model": model.name})
