"""Writing labels: a new one supersedes its source's and author's current one, and nothing is ever overwritten."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.models import Agent, Pool
from datasets_app import gold
from datasets_app.models import Label, Query

BATCH = 1_000


class LabelError(ValueError):
    """A label that cannot be recorded; the message says what is wrong with it and `field` names the argument."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class NewLabel:
    """One label to be recorded: who says which agents a query needs, among those that were `asked`. All agents by id.

    `extend`: agents that the superseded label spoke of and this one does not keep their old answer, as when one question about
    a new agent is asked of somebody who has labeled the query before.
    """

    query_id: int
    source: str
    required: Collection[int]
    asked: Collection[int]
    author: User | None = None
    scores: Mapping[int, float] | None = None
    unsure: bool = False
    reason: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    extend: bool = False


def record(
    query: Query,
    *,
    source: str,
    author: User | None = None,
    required: Collection[int],
    asked: Collection[int],
    scores: Mapping[int, float] | None = None,
    unsure: bool = False,
    reason: str = "",
    provenance: Mapping[str, Any] | None = None,
    extend: bool = False,
) -> Label:
    """Record one label: in one transaction it supersedes the current one of its source (of its author, for people), gold is
    composed anew and the query's state set. A person's leaves an audit entry. Returns the label; raises LabelError."""
    statement = NewLabel(
        query_id=query.pk,
        source=source,
        author=author,
        required=required,
        asked=asked,
        scores=scores,
        unsure=unsure,
        reason=reason,
        provenance=provenance or {},
        extend=extend,
    )
    with transaction.atomic():
        label = record_many([statement])[0]
        if author is not None:
            action = "label.adjudicated" if source == Label.Source.ADJUDICATION else "label.submitted"
            _audit(action, query.pk, author, {"required": sorted(required), "label": label.pk})
    return label


def _audit(action: str, query_id: int, actor: User | None, detail: dict[str, Any]) -> None:
    pool = Pool.objects.only("slug").get(datasets__queries=query_id)
    audit.record(action, actor=actor, target=f"query {query_id}", pool=pool, detail=detail)


def record_many(statements: Iterable[NewLabel]) -> list[Label]:
    """Record many labels, in transactions of at most 1,000; returns them in order.

    No database query per label. Two labels of one slot (query and source, or query and person) need two
    calls. Raises LabelError, and then the 1,000 with the bad one are not recorded.
    """
    recorded: list[Label] = []
    pending = iter(statements)
    while batch := list(islice(pending, BATCH)):
        with transaction.atomic():
            recorded.extend(_record_batch(batch))
    return recorded


def withdraw(label: Label, actor: User | None) -> Label | None:
    """Undo a label: it is superseded by nothing, and the label that it superseded, where there is one, is current again.

    Returns the restored label. The withdrawn one keeps who withdrew it and what came back. Raises LabelError when it is not
    current any more.
    """
    with transaction.atomic():
        gold.lock([label.query_id])
        current = Label.objects.current().filter(pk=label.pk).first()
        if current is None:
            raise LabelError(_("This label is not current any more: a later one has replaced it."))
        restored = Label.objects.filter(superseded_by=current).order_by("-pk").first()
        current.superseded_at = timezone.now()
        current.provenance = {
            **current.provenance,
            "withdrawn_by": actor.get_username() if actor is not None else "system",
            "restored": restored.pk if restored is not None else None,
        }
        current.save(update_fields=("superseded_at", "provenance"))
        if restored is not None:
            restored.superseded_at = restored.superseded_by = None
            restored.save(update_fields=("superseded_at", "superseded_by"))
        gold.recompose([label.query_id])
        _audit("label.withdrawn", label.query_id, actor, {"label": label.pk})
    label.superseded_at, label.provenance = current.superseded_at, current.provenance
    return restored


# ---------------------------------------------------------------------------------------------------- one batch

Slot = tuple[int, str, int | None]


def _slot(query_id: int, source: str, author_id: int | None) -> Slot:
    """What a current label is alone in: its query and source, and for people also its author."""
    return (query_id, source, author_id if source == Label.Source.HUMAN else None)


def _record_batch(batch: Sequence[NewLabel]) -> list[Label]:
    keys = sorted({statement.query_id for statement in batch})
    queries = {query.pk: query for query in gold.lock(keys)}
    pools = {query.dataset.pool_id for query in queries.values()}
    numbers: dict[int, set[int]] = defaultdict(set)
    for pool, number in Agent.objects.filter(pool__in=pools).values_list("pool_id", "number"):
        numbers[pool].add(number)
    current: dict[int, list[Label]] = defaultdict(list)
    in_slot: dict[Slot, Label] = {}
    for label in Label.objects.current().filter(query__in=keys).order_by("pk"):
        current[label.query_id].append(label)
        in_slot[_slot(label.query_id, label.source, label.author_id)] = label

    new: list[Label] = []
    superseded: list[tuple[Label, Label]] = []
    taken: set[Slot] = set()
    for statement in batch:
        query = queries.get(statement.query_id)
        if query is None:
            raise LabelError(_("The query %(key)s does not exist.") % {"key": statement.query_id}, "query")
        slot = _slot(query.pk, statement.source, statement.author.pk if statement.author else None)
        if slot in taken:
            raise LabelError(_("Two labels of one source for the query %(key)s.") % {"key": query.pk}, "source")
        taken.add(slot)
        before = in_slot.get(slot)
        label = _checked(statement, before, numbers[query.dataset.pool_id])
        new.append(label)
        if before is not None:
            superseded.append((before, label))
            current[query.pk].remove(before)

    if superseded:
        Label.objects.filter(pk__in=[before.pk for before, _label in superseded]).update(superseded_at=timezone.now())
    Label.objects.bulk_create(new)
    for before, label in superseded:
        before.superseded_by = label
    if superseded:
        Label.objects.bulk_update([before for before, _label in superseded], ["superseded_by"])
    for label in new:
        current[label.query_id].append(label)
    gold.store(list(queries.values()), current)
    return new


def _checked(statement: NewLabel, before: Label | None, numbers: set[int]) -> Label:
    """The label to be written, or LabelError with what is wrong."""
    if statement.source not in Label.Source.values:
        raise LabelError(_("%(source)s is not a source of labels.") % {"source": statement.source}, "source")
    if statement.source == Label.Source.HUMAN and statement.author is None:
        raise LabelError(_("A person's label needs its author."), "author")
    required, asked = set(statement.required), set(statement.asked)
    for name, found in (("required", required), ("asked", asked)):
        unknown = sorted(found - numbers)
        if unknown:
            raise LabelError(_("Agent %(id)s is not in this pool.") % {"id": unknown[0]}, name)
    if not asked:
        raise LabelError(_("A label needs at least one agent that was asked about."), "asked")
    stray = sorted(required - asked)
    if stray:
        raise LabelError(_("Agent %(id)s is required but was not asked about.") % {"id": stray[0]}, "required")
    if len(statement.reason) > 200:
        raise LabelError(_("The reason is longer than 200 characters."), "reason")
    if statement.extend and before is not None:
        required |= set(before.required) - asked
        asked |= set(before.asked)
    scores = statement.scores
    return Label(
        query_id=statement.query_id,
        source=statement.source,
        author=statement.author,
        required=sorted(required),
        asked=sorted(asked),
        scores=None if scores is None else {str(agent): float(scores[agent]) for agent in sorted(scores)},
        unsure=statement.unsure,
        reason=statement.reason,
        provenance=dict(statement.provenance),
    )
