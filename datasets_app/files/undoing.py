"""Undoing an import: the database is as it was before, but for what people have done since."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import ProtectedError, Q
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who
from agents_app.models import Agent, Pool
from datasets_app.labeling import sending
from datasets_app.labels import disagreement, gold, labels
from datasets_app.models import Import, Label, LabelValue, Query, QueueSettings, Snapshot, SplitGroup

BATCH = 500
#: A page undoes imports of so many queries and labels; the command any.
MOST_OF_A_PAGE = 20_000


class UndoError(Exception):
    """Why an import cannot be undone, in one sentence for whoever asked."""


@dataclass(frozen=True, slots=True)
class Undone:
    """What is gone, and how many queries stay because somebody has worked on them since."""

    queries: int
    labels: int
    kept: int


def undo(upload: Import, actor: Who) -> Undone:
    """Take out all that an import brought: its labels, the queries that nobody has worked on since, people, agents and meanings of
    labels that it made, and the import itself. Raises UndoError for one that is not over."""
    if not upload.ended:
        raise UndoError(_("This import is still running. Stop it first."))
    pool = upload.dataset.pool
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        brought = Query.objects.filter(dataset__pool=pool, origin=f"import {upload.pk}")
        imported = set(brought.values_list("pk", flat=True))
        groups = set(brought.values_list("group_id", flat=True))
        labels_made = _take_labels_out(upload, pool)
        gone = imported - _touched(imported)
        for keys in _batches(sorted(gone)):
            Query.objects.filter(pk__in=keys).delete()
        changed = {label.query_id for label in labels_made}
        remaining = sorted((changed | imported) - gone)
        gold.recompose(remaining)
        for closers in _batches(labels_made):
            sending.reopen(pool, closers)
        disagreement.measure(remaining)
        _take_back(upload, pool, groups)
        undone = Undone(len(gone), len(labels_made), len(imported) - len(gone))
        detail = {"import": upload.pk, "queries": undone.queries, "labels": undone.labels, "kept": undone.kept}
        audit.record("import.undone", actor=actor, target=upload.file_name, pool=pool, detail=detail)
        _forget(upload)
    return undone


def _take_labels_out(upload: Import, pool: Pool) -> list[Label]:
    """Delete the import's labels, and return them; what they superseded is current again."""
    labels_made = list(Label.objects.filter(query__dataset__pool=pool, provenance__import=upload.pk).order_by("-pk"))
    remaining = labels_made
    while remaining:
        # Of one slot the latest first: it hands on what it superseded.
        slots: set[tuple[int, str, int | None]] = set()
        now: list[Label] = []
        later: list[Label] = []
        for label in remaining:
            slot = (label.query_id, label.source, label.author_id if label.source == Label.Source.HUMAN else None)
            (later if slot in slots else now).append(label)
            slots.add(slot)
        for batch in _batches(now):
            fresh = list(Label.objects.filter(pk__in=[label.pk for label in batch]))
            labels.withdraw_many(fresh, None)
            Label.objects.filter(pk__in=[label.pk for label in batch]).delete()
        remaining = later
    return labels_made


def _touched(keys: set[int]) -> set[int]:
    """Those of these queries that somebody has worked on: labeled, drafted, been given, changed, sent to an LLM."""
    work = (
        Q(labels__isnull=False)
        | Q(drafts__isnull=False)
        | Q(queue_items__assignments__isnull=False)
        | Q(deleted_at__isnull=False)
    )
    touched: set[int] = set()
    for batch in _batches(sorted(keys)):
        touched |= set(Query.objects.filter(pk__in=batch).filter(work).values_list("pk", flat=True))
    return touched


def _take_back(upload: Import, pool: Pool, groups: set[int]) -> None:
    """What the import made beside queries and labels."""
    undo_data = upload.undo
    for keys in _batches(sorted(groups)):
        SplitGroup.objects.filter(pk__in=keys, queries__isnull=True).delete()
    if not Snapshot.objects.filter(pool=pool, created_at__gt=upload.created_at).exists():
        for keys in _batches(undo_data.get("splits", [])):
            SplitGroup.objects.filter(pk__in=keys).update(split="")
    for key in undo_data.get("users", []):
        user = User.objects.filter(pk=key, is_active=False, last_login=None).first()
        if user is not None and not user.labels.exists():
            user.delete()
    for value, agents in undo_data.get("values", {}).items():
        LabelValue.objects.filter(pool=pool, value=value).update(agents=agents, upload=None)
    # Whoever has labeled since has been asked about these agents too.
    spoken = Label.objects.filter(query__dataset__pool=pool, created_at__gte=upload.created_at).exists()
    for number in sorted(undo_data.get("agents", []), reverse=True):
        agent = Agent.objects.filter(pool=pool, number=number).first()
        try:
            with transaction.atomic():
                if agent is not None and not spoken:
                    agent.delete()
                    Pool.objects.filter(pk=pool.pk, next_agent_number=number + 1).update(next_agent_number=number)
        except ProtectedError:
            continue  # it is in use by now
    if "filled_to" in undo_data:
        QueueSettings.objects.filter(pool=pool).update(filled_to=undo_data["filled_to"])


def _forget(upload: Import) -> None:
    dataset = upload.dataset
    created = upload.undo.get("dataset", False)
    upload.delete()
    if created and not dataset.queries.exists() and not dataset.imports.exists():
        dataset.delete()


def _batches(keys: Sequence[Any]) -> Iterator[list[Any]]:
    pending = iter(keys)
    while batch := list(islice(pending, BATCH)):
        yield batch
