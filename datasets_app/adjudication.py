"""Deciding what people disagree about: the queries by how far apart their labels are, agent by agent, and the decision's label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app.models import Agent, Pool
from datasets_app import disagreement, labels, suggestions
from datasets_app.models import Assignment, Label, Query, QueueItem

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

    def mark(self, agent: int) -> str:
        """ "yes", "no", or "" where it was not asked."""
        if agent not in self.asked:
            return ""
        return "yes" if agent in self.required else "no"


@dataclass(frozen=True, slots=True)
class Row:
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
    rows: Sequence[Row]
    union: frozenset[int]
    standing: Label | None


def disputes(pool: Pool) -> "QuerySet[Query]":
    """Queries about which people disagree, the furthest apart first."""
    disputed = Query.objects.filter(dataset__pool=pool, state=Query.State.DISAGREEMENT, deleted_at__isnull=True)
    return disputed.order_by("-queue_items__disagreement", "pk").filter(queue_items__agent__isnull=True)


def doubts(pool: Pool) -> "QuerySet[Query]":
    """Queries that somebody was unsure of and that have no gold."""
    unsure = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.HUMAN, unsure=True)
    open_ones = Query.objects.filter(dataset__pool=pool, deleted_at__isnull=True, state=Query.State.LABELED)
    return open_ones.filter(Exists(unsure)).order_by("pk")


def passed(pool: Pool) -> "QuerySet[Query]":
    """Queries that somebody skipped and nobody has answered since."""
    skips = Assignment.objects.filter(item__query=OuterRef("pk"), state=Assignment.State.SKIPPED)
    unlabeled = (Query.State.UNLABELED, Query.State.DRAFT)
    open_ones = Query.objects.filter(dataset__pool=pool, deleted_at__isnull=True, state__in=unlabeled)
    return open_ones.filter(Exists(skips)).order_by("pk")


def case(pool: Pool, query: Query) -> Case:
    """The query's table: rows in dispute first."""
    agents = list(pool.agents.all())
    current = list(Label.objects.current().filter(query=query).select_related("author").order_by("pk"))
    voices = [_voice(label) for label in current if label.source in (Label.Source.HUMAN, Label.Source.IMPORT)]
    people = list(voices)
    active = frozenset(agent.number for agent in agents)
    for offer in suggestions.offers([query.pk]).get(query.pk, []):
        name = _("LLM") if offer.source == "llm" else _("Model")
        scores = dict(offer.scores)
        voices.append(Voice(offer.source, name, offer.source, frozenset(offer.required), active, scores))
    standing = next((label for label in current if label.source == Label.Source.ADJUDICATION), None)
    humans = [voice for voice in people if voice.kind == Label.Source.HUMAN] or people
    rows = []
    for agent in agents:
        marks = [(voice, voice.mark(agent.number), voice.scores.get(agent.number)) for voice in voices]
        said = [voice.mark(agent.number) for voice in humans if voice.mark(agent.number)]
        if agent.state != Agent.State.ACTIVE and "yes" not in said:
            continue
        if standing is not None and agent.number in standing.asked:
            proposed = agent.number in standing.required
        else:
            proposed = said.count("yes") * 2 > len(said)
        rows.append(Row(agent, marks, len(set(said)) > 1, proposed))
    rows.sort(key=lambda row: (not row.disputed, not row.proposed))
    union = frozenset().union(*(voice.required for voice in humans)) if humans else frozenset()
    return Case(query, voices, people, rows, union, standing)


def _voice(label: Label) -> Voice:
    name = (
        (label.author.get_short_name() or label.author.get_username()) if label.author else label.get_source_display()
    )
    return Voice(str(label.pk), name, label.source, frozenset(label.required), frozenset(label.asked), {}, label.unsure)


def decide(
    pool: Pool, query: Query, *, author: User, required: frozenset[int], took: str, reason: str, remark: str = ""
) -> Label:
    """Record a reviewer's decision about all active agents; every label that it decides between stays as it is.

    `took`: what the reviewer took, "edit", "union" or a label's key. `reason`: a key of REASONS. Raises DecisionError.
    """
    if reason not in REASONS:
        raise DecisionError(_("Say why people differed: the reason goes with the gold label."))
    asked = frozenset(pool.agents.active().values_list("number", flat=True)) | required
    between = list(Label.objects.current().filter(query=query, source=Label.Source.HUMAN).values_list("pk", flat=True))
    words = str(REASONS[reason]) + (f": {remark.strip()}" if remark.strip() else "")
    provenance: dict[str, Any] = {"via": "review", "took": took, "between": between, "reason": reason}
    with transaction.atomic():
        label = labels.record(
            query,
            source=Label.Source.ADJUDICATION,
            author=author,
            required=required,
            asked=asked,
            reason=words[:200],
            provenance=provenance,
        )
        QueueItem.objects.filter(query=query, agent__isnull=True).update(wanted=False, needed=0)
        disagreement.measure([query.pk])
    return label


def take_back(label: Label, actor: User) -> None:
    """Undo a decision: what stood before it stands again."""
    with transaction.atomic():
        labels.withdraw(label, actor)
        disagreement.measure([label.query_id])
