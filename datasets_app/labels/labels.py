"""Writing labels: a new one supersedes its source's and author's current one, and nothing is ever overwritten."""

import json
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
from agents_app.checks import FieldError
from agents_app.models import Agent, Pool
from datasets_app.labels import gold
from datasets_app.models import Label, inserting

BATCH = 1_000


class LabelError(FieldError, ValueError):
    """A label that cannot be recorded; `field` names the argument."""


#: Characters of a note that somebody leaves with their label.
LONGEST_NOTE = 500


@dataclass(frozen=True, slots=True)
class NewLabel:
    """One label to be recorded: who says which agents a query needs, among those that were `asked`. All agents by id.

    `partial`: it speaks of `asked` beside what stands, as a question about one agent does, and replaces nothing else.
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
    partial: bool = False
    note: str = ""


def record(statement: NewLabel) -> Label:
    """Record one label: in one transaction it supersedes what its source (for people, its author) said before, gold is composed
    again and the query's state set; a `partial` one supersedes only what it repeats. A person's leaves an audit entry. Returns the
    label; raises LabelError."""
    author = statement.author
    with transaction.atomic():
        label = record_many([statement])[0]
        if author is not None:
            action = "label.adjudicated" if statement.source == Label.Source.ADJUDICATION else "label.submitted"
            key = statement.provenance.get("api_key")
            by = audit.Actor(f"{author.get_username()} by key {key}", author) if key else author
            _audit(action, statement.query_id, by, {"required": sorted(statement.required), "label": label.pk})
    return label


def _audit(action: str, query_id: int, actor: audit.Who, detail: dict[str, Any]) -> None:
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


def record_first(pool: Pool, statements: Sequence[NewLabel], states: Mapping[int, str]) -> list[int]:
    """Record the first label of queries that were added in this very transaction, one each, whole, and of agents of this pool;
    returns their keys. `states`: query key → the state it was added with. The gold of what nobody else has spoken of needs nothing
    read."""
    if not statements:
        return []
    columns = ("query_id", "source", "author_id", "required", "asked", "provenance")
    texts: dict[frozenset[int], str] = {}  # most labels say what another one said

    def text(agents: Collection[int]) -> str:
        kind = frozenset(agents)
        if kind not in texts:
            texts[kind] = json.dumps(sorted(kind))
        return texts[kind]

    keys = inserting.insert(
        Label,
        columns,
        [
            (
                statement.query_id,
                statement.source,
                statement.author.pk if statement.author else None,
                text(statement.required),
                text(statement.asked),
                json.dumps(dict(statement.provenance)),
            )
            for statement in statements
        ],
    )
    gold.store_first(
        pool, [(statement.query_id, key, statement) for statement, key in zip(statements, keys, strict=True)], states
    )
    return keys


def withdraw(label: Label, actor: User | None) -> Label | None:
    """Undo a label, whatever was said after it: nothing of it counts any more, and what only it had superseded is current again.

    Returns the latest label that came back, if any. The withdrawn one keeps who withdrew it. Raises LabelError when it was
    withdrawn before.
    """
    with transaction.atomic():
        gold.lock([label.query_id])
        rows = Label.objects.filter(pk=label.pk)
        if not rows.exclude(pk__in=rows.withdrawn().values("pk")).exists():
            raise LabelError(_("This label was already withdrawn."))
        restored = withdraw_many(list(rows), actor)
        gold.recompose([label.query_id])
        _audit("label.withdrawn", label.query_id, actor, {"label": label.pk})
    label.refresh_from_db(fields=("superseded_at", "superseded_by", "provenance"))
    return max(restored, key=lambda label_: label_.pk) if restored else None


def withdraw_many(withdrawn: Sequence[Label], actor: User | None) -> list[Label]:
    """Take these labels out, of which no two may be of one slot; returns what is current again. To be called with their queries
    locked, within a transaction, and gold composed again afterwards.

    A withdrawn label leaves the chain of what superseded what: what it had superseded is from now on superseded by what superseded
    it, or by nothing. So undoing two changes leaves the same, whichever is undone first.
    """
    now = timezone.now()
    by_key = {label.pk: label for label in withdrawn}
    below = list(Label.objects.filter(superseded_by__in=by_key))
    restored = []
    for label in below:
        assert label.superseded_by_id is not None
        over = by_key[label.superseded_by_id]
        label.superseded_by_id = over.superseded_by_id
        if over.superseded_by_id is None:
            label.superseded_at = None
            restored.append(label)
    for label in withdrawn:
        label.superseded_at, label.superseded_by = label.superseded_at or now, None
        label.provenance = {
            **label.provenance,
            "withdrawn_by": actor.get_username() if actor is not None else "system",
            "restored": max((label_.pk for label_ in restored if label_.query_id == label.query_id), default=None),
        }
    # First out, then back in: a whole label is alone in its slot at every moment.
    Label.objects.bulk_update(withdrawn, ["superseded_at", "superseded_by", "provenance"])
    Label.objects.bulk_update(below, ["superseded_at", "superseded_by"])
    return restored


def annotate(label: Label, note: str) -> None:
    """Change what the author of a label wants reviewers to know; what the label says stands. Raises LabelError."""
    note = " ".join(note.split())
    _check_note(note)
    Label.objects.filter(pk=label.pk).update(note=note)


def _check_note(note: str) -> None:
    if len(note) > LONGEST_NOTE:
        raise LabelError(_("The note is longer than %(most)d characters.") % {"most": LONGEST_NOTE}, "note")


# ---------------------------------------------------------------------------------------------------- one batch

Slot = tuple[int, str, int | None]


def _slot(query_id: int, source: str, author_id: int | None) -> Slot:
    """What a whole label is alone in: its query and source, and for people also its author."""
    return (query_id, source, author_id if source == Label.Source.HUMAN else None)


def _record_batch(batch: Sequence[NewLabel]) -> list[Label]:
    keys = sorted({statement.query_id for statement in batch})
    queries = {query.pk: query for query in gold.lock(keys)}
    pools = {query.dataset.pool_id for query in queries.values()}
    numbers: dict[int, set[int]] = defaultdict(set)
    for pool, number in Agent.objects.filter(pool__in=pools).values_list("pool_id", "number"):
        numbers[pool].add(number)
    current: dict[int, list[Label]] = defaultdict(list)
    in_slot: dict[Slot, list[Label]] = defaultdict(list)
    for label in Label.objects.current().filter(query__in=keys).order_by("pk"):
        current[label.query_id].append(label)
        in_slot[_slot(label.query_id, label.source, label.author_id)].append(label)

    new: list[Label] = []
    superseded: list[tuple[Label, Label]] = []
    slots: set[Slot] = set()
    for statement in batch:
        query = queries.get(statement.query_id)
        if query is None:
            raise LabelError(_("The query %(key)s does not exist.") % {"key": statement.query_id}, "query")
        slot = _slot(query.pk, statement.source, statement.author.pk if statement.author else None)
        if slot in slots:
            raise LabelError(_("Two labels of one source for the query %(key)s.") % {"key": query.pk}, "source")
        slots.add(slot)
        label = _checked(statement, numbers[query.dataset.pool_id])
        new.append(label)
        for before in in_slot[slot]:
            if not label.partial or (before.partial and set(before.asked) <= set(label.asked)):
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


def _checked(statement: NewLabel, numbers: set[int]) -> Label:
    """The label to be written, or LabelError with what is wrong."""
    if statement.source not in Label.Source.values:
        raise LabelError(_("%(source)s is not a source for labels.") % {"source": statement.source}, "source")
    if statement.source == Label.Source.HUMAN and statement.author is None:
        raise LabelError(_("A person's label needs its author."), "author")
    required, asked = set(statement.required), set(statement.asked)
    for name, agents_named in (("required", required), ("asked", asked)):
        unknown = sorted(agents_named - numbers)
        if unknown:
            raise LabelError(_("Agent %(id)s is not in this pool.") % {"id": unknown[0]}, name)
    if not asked:
        raise LabelError(_("A label needs at least one agent that was asked about."), "asked")
    stray = sorted(required - asked)
    if stray:
        raise LabelError(
            _("Agent %(id)s is required but not among the agents asked about.") % {"id": stray[0]}, "required"
        )
    if len(statement.reason) > 200:
        raise LabelError(_("The reason is longer than 200 characters."), "reason")
    _check_note(statement.note)
    scores = statement.scores
    return Label(
        query_id=statement.query_id,
        source=statement.source,
        author=statement.author,
        required=sorted(required),
        asked=sorted(asked),
        scores=None if scores is None else {str(agent): float(scores[agent]) for agent in sorted(scores)},
        partial=statement.partial,
        unsure=statement.unsure,
        reason=statement.reason,
        note=statement.note,
        provenance=dict(statement.provenance),
    )
