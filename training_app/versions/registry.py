"""The registry of models: what was made, which one answers, and how that changed.

A pool has at most one active model of each kind; the database holds that. Every change of it is one transaction under the pool's
row lock, is recorded as a `Promotion`, bumps the version stamp that running processes watch, and leaves an audit entry.
"""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, checks
from agents_app.audit import Who
from agents_app.files import artifacts, limited
from agents_app.files.formats import Unreadable
from agents_app.files.limited import Limits
from agents_app.models import Pool, Stamp
from routerweb import hooks
from training_app.engine.data.artifact import ArtifactError, read
from training_app.models import (
    SET_ROUTER,
    Artifact,
    Canary,
    LearntRoster,
    Promotion,
    PromotionRequest,
    RouterModel,
    Run,
    Scorecard,
)
from training_app.versions import kinds

#: Bytes that checking an artifact from elsewhere may take at least, and for each byte of it.
CHECK_MEMORY, CHECK_MEMORY_FOR_EACH_BYTE = 500_000_000, 6


class RegistryError(Exception):
    """Why a model cannot be registered, promoted or rolled back to, in words for whoever asked for it."""


def models(pool: Pool) -> QuerySet[RouterModel]:
    """The pool's models, newest first, without their artifacts."""
    return RouterModel.objects.filter(pool=pool).select_related("pool").order_by("-version")


def active(pool: Pool, kind: str = SET_ROUTER) -> RouterModel | None:
    """The pool's model of that kind that is in use, or None; the set router is the one that answers requests."""
    return RouterModel.objects.active(kind).filter(pool=pool).select_related("pool").first()


def find(name: str) -> RouterModel:
    """The model of that name, for example `support-3`. Raises RegistryError where there is none."""
    slug, _dash, version = name.strip().rpartition("-")
    if slug and version.isascii() and version.isdecimal() and len(version) < 10:
        model = RouterModel.objects.select_related("pool").filter(pool__slug=slug, version=int(version)).first()
        if model:
            return model
    raise RegistryError(
        _("There is no model %(name)s. list_models --pool shows the names, which read like support-3.") % {"name": name}
    )


def chosen(pool: Pool, name: str | None) -> RouterModel:
    """The pool's model of that name, or its active one where no name is given. Raises RegistryError."""
    model = find(name) if name else active(pool)
    if model is None:
        raise RegistryError(_("%(pool)s has no active model. Train one, or promote one.") % {"pool": pool.slug})
    if model.pool_id != pool.pk:
        raise RegistryError(
            _("%(model)s is a model of another pool than %(pool)s.") % {"model": model.name, "pool": pool.slug}
        )
    return model


def import_artifact(pool: Pool, artifact: bytes, *, actor: Who) -> RouterModel:
    """Keep an artifact from elsewhere as a candidate, its scorecard with it.

    Raises RegistryError where it cannot be loaded, or knows an agent that this pool does not have under that id.
    """
    _check_apart(artifact)
    names = {agent.number: agent.name for agent in pool.agents.all()}
    kind = kind_of(artifact)
    for agent in load(artifact, kind).agents:
        if agent.id not in names:
            raise RegistryError(
                _("The model knows agent %(id)d, %(name)s, which %(pool)s does not have.")
                % {"id": agent.id, "name": agent.name, "pool": pool.slug}
            )
        if not checks.same_agent(names[agent.id], agent.name):
            raise RegistryError(
                _("Agent %(id)d is %(theirs)s in the model and %(ours)s in %(pool)s.")
                % {"id": agent.id, "theirs": agent.name, "ours": names[agent.id], "pool": pool.slug}
            )
    scorecard = read(artifact).metrics
    return register(None, pool, artifact, scorecard, kind=kind, actor=actor)


def _check_apart(artifact: bytes) -> None:
    """Read an artifact from elsewhere in a process with limits, before this one does. Raises RegistryError."""
    memory = CHECK_MEMORY + CHECK_MEMORY_FOR_EACH_BYTE * len(artifact)
    limits = Limits(cpu_seconds=300, silent_seconds=300, memory_bytes=memory)
    try:
        list(limited.run(artifacts.check, io.BytesIO(artifact), limits=limits))
    except Unreadable as error:
        raise RegistryError(str(error)) from None


def register(
    run: Run | None,
    pool: Pool,
    artifact: bytes,
    scorecard: Mapping[str, Any],
    *,
    kind: str = SET_ROUTER,
    actor: Who = None,
) -> RouterModel:
    """Keep an artifact as the pool's next version, a candidate.

    `run` is None for an imported model; otherwise the kind is the run's. Raises RegistryError for an artifact that cannot be loaded.
    """
    kind = run.kind if run else kind
    loaded = load(artifact, kind)
    digest = hashlib.sha256(artifact).hexdigest()
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        newest = RouterModel.objects.filter(pool=pool).aggregate(newest=Max("version"))["newest"]
        model = RouterModel.objects.create(
            pool=pool,
            kind=kind,
            version=(newest or 0) + 1,
            run=run,
            artifact_digest=digest,
            artifact_bytes=len(artifact),
        )
        Artifact.objects.create(model=model, content=artifact)
        Scorecard.of(model, scorecard).save()
        roster = [{**agent.facts, "keywords": list(agent.keywords)} for agent in loaded.agents]
        LearntRoster.objects.create(model=model, agents=roster)
        audit.record("model.registered", actor=actor, target=model.name, pool=pool)
    return model


def artifact_bytes(model: RouterModel) -> bytes:
    """The model's artifact as it was registered. Raises RegistryError where it is gone or its digest no longer fits."""
    stored = Artifact.objects.filter(model=model).values_list("content", flat=True).first()
    if stored is None and model.pruned_at:
        raise RegistryError(
            _(
                "The artifact of %(model)s was pruned on %(day)s, as one of an old model. Train again with the same settings."
            )
            % {"model": model.name, "day": timezone.localdate(model.pruned_at)}
        )
    if stored is None:
        raise RegistryError(_("The artifact of %(model)s is missing from the database.") % {"model": model.name})
    content = bytes(stored)
    if hashlib.sha256(content).hexdigest() != model.artifact_digest:
        raise RegistryError(
            _("The artifact of %(model)s is damaged: its checksum does not fit. Import it again or train again.")
            % {"model": model.name}
        )
    return content


def exported(model: RouterModel) -> bytes:
    """The model's artifact for use outside: with the keys that its agents have, which change no answer. Raises RegistryError."""
    parts = read(artifact_bytes(model))
    keys = dict(model.pool.agents.values_list("number", "key"))
    agents = [agent | {"key": keys.get(agent["id"], "")} for agent in parts.config["agents"]]
    return replace(parts, config=parts.config | {"agents": agents}).to_bytes()


def promote(model: RouterModel, *, actor: Who, reason: str = "") -> Promotion:
    """Make the model the one that answers; the one before it is retired. `gate.promote` asks first whether it may.

    Raises RegistryError where the model is active already or its artifact cannot be loaded; nothing changes then.
    """
    return _activate(model, actor=actor, reason=reason)


def rollback(pool: Pool, kind: str = SET_ROUTER, *, actor: Who, reason: str = "") -> Promotion:
    """Go back to the model of that kind that was active before the present one. Again: one further back, and before the first model
    of a kind that answers no queries to none, as before it was promoted.

    Raises RegistryError where there is nothing to go back to.
    """
    target = rollback_target(pool, kind)
    if target is None and may_stop(pool, kind):
        return _stop(pool, kind, actor=actor, reason=reason)
    if target is None:
        raise RegistryError(_("%(pool)s has no earlier model to go back to.") % {"pool": pool.slug})
    return _activate(target, actor=actor, reason=reason, back=True)


def rollback_target(pool: Pool, kind: str = SET_ROUTER) -> RouterModel | None:
    """The model that a roll-back of that kind would make active.

    Promotions are a stack: each puts a model on top, each roll-back takes one off, and so does a stop. So two roll-backs go two models
    back, not to and fro.
    """
    stack: list[int] = []
    past = Promotion.objects.filter(pool=pool, model_kind=kind).order_by("pk")
    for how, model_id in past.values_list("kind", "model_id"):
        if how in (Promotion.Kind.ROLLBACK, Promotion.Kind.STOPPED):
            stack.pop()
        else:
            stack.append(model_id)
    return RouterModel.objects.select_related("pool").get(pk=stack[-2]) if len(stack) > 1 else None


def may_stop(pool: Pool, kind: str) -> bool:
    """Whether a roll-back would leave no active model of that kind: the only one that was promoted decides, and queries are answered
    without it."""
    return not kinds.of(kind).answers and active(pool, kind) is not None and rollback_target(pool, kind) is None


def _stop(pool: Pool, kind: str, *, actor: Who, reason: str) -> Promotion:
    with transaction.atomic():
        pool = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        model = RouterModel.objects.active(kind).select_for_update().filter(pool=pool).first()
        if model is None or not may_stop(pool, kind):
            raise RegistryError(_("The active model of %(pool)s has just changed. Look again.") % {"pool": pool.slug})
        RouterModel.objects.filter(pk=model.pk).update(state=RouterModel.State.RETIRED)
        return _changed(model, model, Promotion.Kind.STOPPED, actor, reason)


def _activate(model: RouterModel, *, actor: Who, reason: str, back: bool = False) -> Promotion:
    # An artifact never changes, so it is checked before the lock is taken.
    load(artifact_bytes(model), model.kind)
    with transaction.atomic():
        pool = Pool.objects.select_for_update(no_key=True).get(pk=model.pool_id)
        if back and rollback_target(pool, model.kind) != model:
            raise RegistryError(_("The active model of %(pool)s has just changed. Look again.") % {"pool": pool.slug})
        if RouterModel.objects.filter(pk=model.pk, pruned_at__isnull=False).exists():
            raise RegistryError(_("The artifact of %(model)s has just been pruned.") % {"model": model.name})
        previous = RouterModel.objects.active(model.kind).select_for_update().filter(pool=pool).first()
        if previous == model:
            raise RegistryError(_("%(model)s is the active model already.") % {"model": model.name})
        if previous:
            RouterModel.objects.filter(pk=previous.pk).update(state=RouterModel.State.RETIRED)
        RouterModel.objects.filter(pk=model.pk).update(state=RouterModel.State.ACTIVE, prune_at=None)
        how = Promotion.Kind.PROMOTION
        if back:
            how = Promotion.Kind.ROLLBACK
        elif not Promotion.objects.filter(pool=pool, model_kind=model.kind).exists():
            how = Promotion.Kind.FIRST
        promotion = _changed(model, previous, how, actor, reason)
    model.state = RouterModel.State.ACTIVE
    return promotion


def _changed(
    model: RouterModel, previous: RouterModel | None, how: Promotion.Kind, actor: Who, reason: str
) -> Promotion:
    """Keep that another model of its kind is active from now on, or none, in the transaction that makes it so."""
    pool, back = model.pool, how in (Promotion.Kind.ROLLBACK, Promotion.Kind.STOPPED)
    _end_canary(pool, model, back)
    # What waits for approval was compared with the model that was active until now.
    PromotionRequest.objects.waiting().filter(pool=pool, model__kind=model.kind).update(
        state=PromotionRequest.State.LAPSED, decided_at=timezone.now()
    )
    promotion = Promotion.objects.create(
        pool=pool, model=model, model_kind=model.kind, previous=previous, kind=how, author=audit.actor_of(actor).user,
        reason=reason[:400],
    )  # fmt: skip
    Stamp.bump()
    hooks.model_activated(promotion)
    audit.record(
        "model.rolled_back" if back else "model.promoted",
        actor=actor,
        target=model.name,
        pool=pool,
        detail={"previous": previous.name if previous else None, "kind": str(how), "reason": reason},
    )
    return promotion


def _end_canary(pool: Pool, model: RouterModel, back: bool) -> None:
    """A canary is compared with the model that was active: with another one active, or none, there is nothing left to compare."""
    for canary in Canary.objects.running(model.kind).filter(pool=pool):
        canary.ended_at = timezone.now()
        canary.ended = Canary.Ended.OTHER
        if back:
            canary.ended = Canary.Ended.ROLLBACK
        elif canary.model_id == model.pk:
            canary.ended = Canary.Ended.PROMOTED
        canary.save(update_fields=("ended_at", "ended"))


def load(artifact: bytes, kind: str = SET_ROUTER) -> Any:
    """An artifact as its kind loads it: a `Router`, for a set router. Raises RegistryError where it cannot be used."""
    try:
        return kinds.of(kind).load(artifact)
    except (ArtifactError, kinds.UnknownKind) as error:
        raise RegistryError(_("The artifact cannot be used: %(why)s") % {"why": error}) from error


def load_model(model: RouterModel) -> Any:
    """The model, loaded as its kind is. Raises RegistryError where its artifact is gone, damaged or cannot be used."""
    return load(artifact_bytes(model), model.kind)


def kind_of(artifact: bytes) -> str:
    """The name of the kind that the artifact says it is. Raises RegistryError."""
    try:
        return kinds.of_artifact(artifact).name
    except (ArtifactError, kinds.UnknownKind) as error:
        raise RegistryError(_("The artifact cannot be used: %(why)s") % {"why": error}) from error
