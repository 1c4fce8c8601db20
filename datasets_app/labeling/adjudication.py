"""Deciding what people disagree about: the queries by how far apart their labels are, agent by agent, and the decision's label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app.models import Agent, Pool
from datasets_app.labeling import sending
from datasets_app.labels import disagreement, gold, labels, peers, suggestions, voices
from datasets_app.models import Assignment, Label, Query, QueueItem

#: Labels that somebody was unsure of which are looked at for the first open cases.
LOOKED_AT = 200
REASONS = {
    "ambiguous": gettext_lazy("The query is ambiguous"),
    "guideline": gettext_lazy("The guidelines leave a gap"),
    "mistake": gettext_lazy("A label was a mistake"),
}


class DecisionError(ValueError):
    """A decision that cannot be recorded; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One column of the table: who says what. `needed` holds agent ids; agents outside `asked` were not asked about."""

    key: str
    name: str
    kind: str
    required: frozenset[int]
    asked: frozenset[int]
    scores: dict[int, float]
    unsure: bool = False
    notes: tuple[str, ...] = ()

    def mark(self, agent: int) -> str:
        """ "yes", "no", or "" where it was not asked."""
        if agent not in self.asked:
            return ""
        return "yes" if agent in self.required else "no"


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One agent: what each voice says of it, whether people differ, and what is proposed as the decision."""

    agent: Agent
    marks: Sequence[tuple[Voice, str, float | None]]
    disputed: bool
    proposed: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A query with everything that was said about it. `people`: the voices that may be taken whole."""

    query: Query
    voices: Sequence[Voice]
    people: Sequence[Voice]
    rows: Sequence[CaseRow]
    union: frozenset[int]
    standing: Label | None


def disputes(pool: Pool) -> "QuerySet[Query]":
    """Queries about which people disagree, the furthest apart first. One that has just come in has no item of the queue yet: it is
    among them once all that have one are decided."""
    disputed = Query.objects.of(pool).filter(state=Query.State.DISAGREEMENT)
    measured = disputed.filter(queue_items__pool=pool, queue_items__agent=None, queue_items__disagreement__gt=0)
    if measured.exists():
        return measured.order_by("-queue_items__disagreement", "pk")  # in the order of an index
    apart = QueueItem.objects.filter(query=OuterRef("pk"), agent__isnull=True).values("disagreement")[:1]
    return disputed.annotate(apart=Subquery(apart)).order_by(F("apart").desc(nulls_last=True), "pk")


def doubts(pool: Pool) -> "QuerySet[Query]":
    """Queries that somebody was unsure of and that have no gold."""
    open_ones = Query.objects.of(pool).filter(state=Query.State.LABELED)
    return open_ones.filter(pk__in=_unsure().values("query")).order_by("pk")


def first_doubts(pool: Pool, size: int) -> list[Query]:
    """The first of `doubts`. PostgreSQL expects so few that it looks at them all and sorts; they are mostly among the first of their
    index."""
    keys = list(_unsure().order_by("query").values_list("query", flat=True)[:LOOKED_AT])
    first = list(doubts(pool).filter(pk__in=keys)[:size])
    return first if len(first) == size or len(keys) < LOOKED_AT else list(doubts(pool)[:size])


def _unsure() -> "QuerySet[Label]":
    return Label.objects.current().filter(source=Label.Source.HUMAN, unsure=True).order_by()


def passed(pool: Pool) -> "QuerySet[Query]":
    """Queries that somebody skipped and nobody has answered since; an LLM's label is no answer."""
    skips = Assignment.objects.filter(item__pool=pool, state=Assignment.State.SKIPPED)
    answers = Label.objects.current().filter(query=OuterRef("pk")).exclude(source=Label.Source.LLM)
    by_llm_alone = Q(state=Query.State.LABELED) & ~Exists(answers)
    unlabeled = Q(state__in=(Query.State.UNLABELED, Query.State.DRAFT))
    open_ones = Query.objects.of(pool).filter(unlabeled | by_llm_alone)
    return open_ones.filter(pk__in=skips.values("item__query")).order_by("pk")


def case(pool: Pool, query: Query, viewer: User | None = None) -> Case:
    """The query's table: rows in dispute first. A `viewer` has seen what people said from then on."""
    agents = list(pool.agents.all())
    merged = voices.merges([pool.pk])[pool.pk]
    current = list(Label.objects.current().filter(query=query).select_related("author").order_by("pk"))
    if viewer is not None:
        peers.note(query, viewer, current)
    heard = voices.decide(voices.listen(current), merged)
    people = [
        _voice(of, merged, heard)
        for of in voices.by_person(label for label in current if label.source == Label.Source.HUMAN).values()
    ]
    people += [_voice([label], merged, heard) for label in current if label.source == Label.Source.IMPORT]
    people.sort(key=lambda voice: int(voice.key))
    columns = list(people)
    for offer in suggestions.offers([query.pk]).get(query.pk, []):
        scores = dict(offer.scores)
        columns.append(Voice(offer.source, offer.called, offer.source, frozenset(offer.required), offer.asked, scores))
    adjudicated = [label for label in current if label.source == Label.Source.ADJUDICATION]
    standing = voices.answers(adjudicated, merged)
    humans = [voice for voice in people if voice.kind == Label.Source.HUMAN] or people
    rows = []
    for agent in agents:
        marks = [(voice, voice.mark(agent.number), voice.scores.get(agent.number)) for voice in columns]
        marked = [voice.mark(agent.number) for voice in humans if voice.mark(agent.number)]
        if agent.state != Agent.State.ACTIVE and "yes" not in marked:
            continue
        proposed = standing.get(agent.number, marked.count("yes") * 2 > len(marked))
        rows.append(CaseRow(agent, marks, len(set(marked)) > 1, proposed))
    rows.sort(key=lambda row: (not row.disputed, not row.proposed))
    union = frozenset().union(*(voice.required for voice in humans)) if humans else frozenset()
    return Case(query, columns, people, rows, union, adjudicated[-1] if adjudicated else None)


def _voice(labels: Sequence[Label], merged: voices.Merges, heard: voices.Heard) -> Voice:
    """One column of a person's labels, or of the import's; its key is that of the latest. Of agents of which `heard`, all voices
    together, has this one, it says what is heard there: what a decision overruled of a merged agent does not count."""
    last = labels[-1]
    name = (last.author.get_short_name() or last.author.get_username()) if last.author else last.get_source_display()
    if last.source == Label.Source.IMPORT:
        name = str(last.get_source_display())
    required, asked = voices.answer(labels, merged)
    who = voices.who(last)
    judged = {agent: of[who].needed for agent, of in heard.items() if who in of}
    required = (required - judged.keys()) | {agent for agent, needed in judged.items() if needed}
    unsure, notes = any(label.unsure for label in labels), tuple(label.note for label in labels if label.note)
    return Voice(str(last.pk), name, last.source, required, asked, {}, unsure, notes)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a reviewer decides.

    `took`: what the reviewer took, "edit", "union" or a label's key. `reason`: a key of REASONS. `asked`: the agents that the
    reviewer had before them, those of the case when left out; an agent that was added since is not decided. `seen_at`: where the
    reviewer saw an answer that is corrected so.
    """

    required: frozenset[int]
    took: str
    reason: str
    remark: str = ""
    asked: frozenset[int] | None = None
    seen_at: str = ""


def decide(pool: Pool, query: Query, ruling: Ruling, *, author: User) -> Label:
    """Record a reviewer's decision; every label that it decides between stays as it is. Raises DecisionError."""
    if ruling.reason not in REASONS:
        if query.state == Query.State.DISAGREEMENT:
            raise DecisionError(_("Choose why people differed. The reason is stored with the gold label."))
        raise DecisionError(_("Choose why it was difficult. The reason is stored with the gold label."))
    remark = ruling.remark.strip()
    words = str(REASONS[ruling.reason]) + (f": {remark}" if remark else "")
    with transaction.atomic():
        if any(locked.deleted_at for locked in gold.lock([query.pk])):
            raise DecisionError(_("This query was deleted meanwhile. Restore it first."))
        asked = ruling.asked
        if asked is None:
            asked = frozenset(row.agent.number for row in case(pool, query).rows)
        human_labels = Label.objects.current().filter(query=query, source=Label.Source.HUMAN)
        provenance: dict[str, Any] = {
            "via": "review",
            "took": ruling.took,
            "between": list(human_labels.order_by("pk").values_list("pk", flat=True)),
            "reason": ruling.reason,
            "closed_before": sending.decide(query),
            **({"seen_at": ruling.seen_at} if ruling.seen_at else {}),
        }
        label = labels.record(
            labels.NewLabel(
                query.pk,
                source=Label.Source.ADJUDICATION,
                author=author,
                required=ruling.required,
                asked=asked | ruling.required,
                reason=words[:200],
                provenance=provenance,
            )
        )
        disagreement.measure([query.pk])
    return label


def take_back(label: Label, actor: User) -> None:
    """Undo a decision: what stood before it stands again, and the query is asked about as before. Raises DecisionError."""
    with transaction.atomic():
        query = gold.lock([label.query_id])[0]
        if query.erased_at is not None:
            raise DecisionError(_("This query's text was erased. Its gold label stays."))
        label.refresh_from_db(fields=("provenance",))  # an earlier decision may have been taken back since it was read
        labels.withdraw(label, actor)
        sending.reopen(query.dataset.pool, [label])
        disagreement.measure([label.query_id])
