"""Four eyes: where a pool or the site says so, a promotion that one person asks for is approved by another, and so is a canary.

`gate.promote` and `trials.start_canary` ask here, and `trials.approve` lets a request through. Roll-back, a canary's end and a smaller
share of it need no second person: they go back to what was approved before, and whoever sees harm on live traffic must not wait.
"""

from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who
from agents_app.models import Pool
from routerweb import hooks
from training_app.models import Promotion, PromotionRequest, RouterModel
from training_app.versions import registry

State = PromotionRequest.State


def needed(pool: Pool) -> bool:
    """Whether promotions and canaries of the pool need a second person; read from the database, not from `pool`, which may be old."""
    return bool(settings.FOUR_EYES) or Pool.objects.filter(pk=pool.pk, four_eyes=True).exists()


def waiting_for(model: RouterModel) -> PromotionRequest | None:
    """The request for the model's promotion, or for its canary, that nobody has decided yet."""
    return PromotionRequest.objects.waiting().filter(model=model).select_related("author", "against__pool").first()


def ask(
    model: RouterModel, *, actor: Who, reason: str = "", override: str = "", share: float | None = None
) -> PromotionRequest:
    """Ask for the model's promotion, or with `share` for its canary. Raises RegistryError where either has been asked for already, or
    its artifact is gone."""
    by = audit.actor_of(actor)
    if model.pruned_at is not None:
        registry.artifact_bytes(model)  # refuses, and says why
    try:
        with transaction.atomic():
            request = PromotionRequest.objects.create(
                pool=model.pool,
                model=model,
                against=registry.active(model.pool, model.kind),
                share=share,
                author=by.user,
                author_name=by.name[:150],
                reason=reason.strip()[:400],
                override=override.strip()[:400],
            )
            _tell("asked", request, actor, {"reason": request.reason, "override": request.override})
    except IntegrityError:
        waits = waiting_for(model)
        problem = _("The promotion of %(model)s has been asked for already, and waits for approval.")
        if waits is not None and waits.share is not None:
            problem = _("A canary of %(model)s has been asked for already, and waits for approval.")
        raise registry.RegistryError(problem % {"model": model.name}) from None
    return request


def approved(request: PromotionRequest, *, actor: Who, note: str = "") -> None:
    """Note that a second person approves; the first may not, nor a command, which does not know who types it. Raises RegistryError."""
    user = audit.actor_of(actor).user
    if user is None:
        raise registry.RegistryError(_("An approval needs a person: approve on the model's page, or with an API key."))
    if user.pk == request.author_id:
        raise registry.RegistryError(_("You asked for it yourself: another person approves it."))
    _settle(request, State.APPROVED, actor, note)


def decline(request: PromotionRequest, *, actor: Who, note: str = "") -> None:
    """Refuse what somebody else asked for; `note` says why. Raises RegistryError."""
    user = audit.actor_of(actor).user
    if user is not None and user.pk == request.author_id:
        raise registry.RegistryError(_("You asked for it yourself: withdraw it."))
    _settle(request, State.DECLINED, actor, note)


def withdraw(request: PromotionRequest, *, actor: Who, note: str = "") -> None:
    """Take one's own request back; one that a command made, by a command. Raises RegistryError."""
    user = audit.actor_of(actor).user
    if request.author_id != (user.pk if user else None):
        raise registry.RegistryError(
            _("%(name)s asked for it, and alone can withdraw it. You can decline it.") % {"name": request.author_name}
        )
    _settle(request, State.WITHDRAWN, actor, note)


def carried_out(request: PromotionRequest, promotion: Promotion) -> None:
    """Note which promotion came of it."""
    PromotionRequest.objects.filter(pk=request.pk).update(promotion=promotion)


def _settle(request: PromotionRequest, state: str, actor: Who, note: str) -> None:
    by, note = audit.actor_of(actor), note.strip()[:400]
    decision = {"decided_by": by.user, "decided_by_name": by.name[:150], "decided_at": timezone.now(), "note": note}
    with transaction.atomic():
        if not PromotionRequest.objects.waiting().filter(pk=request.pk).update(state=state, **decision):
            raise registry.RegistryError(_("This request has just been decided. Look again."))
        _tell(state, request, actor, {"asked_by": request.author_name, "note": note})
    request.state = state


def _tell(what: str, request: PromotionRequest, actor: Who, detail: dict[str, Any]) -> None:
    subject, share = ("promotion", {}) if request.share is None else ("canary", {"share": request.share})
    audit.record(f"{subject}.{what}", actor=actor, target=request.model.name, pool=request.pool, detail=detail | share)
    hooks.promotion_requests_changed(request.pool)
