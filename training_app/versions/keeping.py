"""Which old models keep their artifacts. Scorecards, promotions and runs stay for ever; the bytes of old retired models do not.

Of a pool's retired models of one kind the KEEP_MODELS that were in use last keep theirs, and so does any that is pinned, that a
roll-back would make active, or that has decisions, whose replay needs it. Of the others the pages announce for a week that they
will go, and then they go.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, QuerySet
from django.utils import timezone

from agents_app import audit
from agents_app.audit import Actor, Who
from agents_app.models import Pool
from training_app.models import Artifact, Canary, Decision, RouterModel
from training_app.versions import registry

log = logging.getLogger(__name__)
#: How long a model's pruning is announced before it happens.
NOTICE = timedelta(days=7)


def look(now: datetime | None = None) -> int:
    """The daily job: announce what is to go, take back what is not any more, prune what was announced long enough; how many went."""
    now = now or timezone.now()
    gone = 0
    for pool in Pool.objects.filter(models__state=RouterModel.State.RETIRED).distinct():
        due = [model.pk for model in to_prune(pool)]
        models = RouterModel.objects.filter(pool=pool)
        models.exclude(pk__in=due).filter(prune_at__isnull=False).update(prune_at=None)
        models.filter(pk__in=due, prune_at=None).update(prune_at=now + NOTICE)
        gone += sum(prune(model) for model in models.filter(pk__in=due, prune_at__lte=now).select_related("pool"))
    return gone


def to_prune(pool: Pool) -> Sequence[RouterModel]:
    """The pool's models whose artifacts are not to be kept, by version."""
    keep: set[int] = set()
    for kind in set(_retired(pool).order_by().values_list("kind", flat=True)):
        in_use_last = _retired(pool).filter(kind=kind).annotate(last=Max("promotions__pk")).order_by("-last")
        keep.update(in_use_last.values_list("pk", flat=True)[: settings.KEEP_MODELS])
        if target := registry.rollback_target(pool, kind):
            keep.add(target.pk)
    decided = Exists(Decision.objects.filter(model=OuterRef("pk")))
    models = _retired(pool).filter(~decided, pinned=False).exclude(pk__in=keep)
    return list(models.order_by("version"))


def announced(pool: Pool) -> QuerySet[RouterModel]:
    """The models whose pruning is announced, soonest first."""
    models = RouterModel.objects.filter(pool=pool, prune_at__isnull=False).select_related("pool")
    return models.order_by("prune_at", "version")


def prune(model: RouterModel) -> bool:
    """Delete the artifact of a retired model that is not pinned; whether it was."""
    with transaction.atomic():
        # Under the lock that promotions take: what becomes active at this moment keeps its artifact.
        Pool.objects.select_for_update(no_key=True).get(pk=model.pool_id)
        if not _retired(model.pool).filter(pk=model.pk, pinned=False).update(pruned_at=timezone.now(), prune_at=None):
            return False
        Artifact.objects.filter(model=model).delete()
        audit.record(
            "model.pruned",
            actor=Actor("daily tidy"),
            target=model.name,
            pool=model.pool,
            detail={"bytes": model.artifact_bytes},
        )
    log.info("the artifact of %s was pruned, %d bytes", model.name, model.artifact_bytes)
    return True


def pin(model: RouterModel, on: bool, *, actor: Who) -> None:
    """Keep the model's artifact whatever comes, or let it grow old like others. Raises RegistryError for one that is pruned."""
    if on and model.pruned_at:
        registry.artifact_bytes(model)  # refuses, and says since when
    with transaction.atomic():
        changed = RouterModel.objects.filter(pk=model.pk, pinned=not on)
        if changed.update(pinned=on, **({"prune_at": None} if on else {})):
            audit.record(
                "model.pinned" if on else "model.unpinned",
                actor=actor,
                target=model.name,
                pool=model.pool,
            )
    model.pinned = on


def _retired(pool: Pool) -> QuerySet[RouterModel]:
    # A retired model may answer a share again, as a canary.
    answering = Canary.objects.running().filter(pool=pool).values("model")
    models = RouterModel.objects.filter(pool=pool, state=RouterModel.State.RETIRED, pruned_at=None)
    return models.exclude(pk__in=answering)
