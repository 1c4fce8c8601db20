"""What is suggested to a labeler: an LLM's and a model's scores per agent, and who answered in traces. Never itself an answer."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import log2
from typing import Any

from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from datasets_app.labels import voices
from datasets_app.labels.voices import Merge, Merges
from datasets_app.models import Label, Query, QueueItem, QueueSettings, Suggestion, TracedTurn

BATCH = 1_000
#: How pages call who suggests.
SOURCES = {"llm": _("LLM"), "model": _("model"), "traffic": _("answered until now")}


@dataclass(frozen=True, slots=True)
class Offer:
    """One source's suggestion for one query. `scores`: agent id → probability, where the source gives any. `asked`: the agents that
    it speaks of. `fallback` names what stood in when the LLM's answer could not be read."""

    source: str
    version: str
    required: tuple[int, ...]
    scores: Mapping[int, float]
    asked: frozenset[int]
    fallback: str = ""

    @property
    def called(self) -> str:
        """How pages call its source."""
        return str(SOURCES[self.source])

    def score(self, agent: int) -> float:
        """p(needed) of an agent; a source without a score for it says 1 or 0 by its set."""
        return self.scores.get(agent, 1.0 if agent in self.required else 0.0)

    def as_json(self) -> dict[str, Any]:
        """What is kept of it with the label that was made beside it."""
        return {"source": self.source, "version": self.version, "required": list(self.required)} | (
            {"fallback": self.fallback} if self.fallback else {}
        )


@dataclass(frozen=True, slots=True)
class Scored:
    """What a trained model says of one query: its set, p(needed) per agent id, and how unlike the labeled queries the text is."""

    query_id: int
    required: Collection[int]
    scores: Mapping[int, float]
    novelty: float | None = None


def offers(query_ids: Collection[int], about: int | None = None) -> dict[int, list[Offer]]:
    """Query key → what is suggested for it: the LLM's, the model's, who answered it until now. Of `about` an agent, only by who knew
    it. What was said of a merged agent is said of the one that took it over. Four database queries."""
    by_query: dict[int, list[Offer]] = defaultdict(list)
    labels = list(Label.objects.current().filter(query__in=query_ids, source=Label.Source.LLM))
    models = list(Suggestion.objects.filter(query__in=query_ids))
    traced = who_answered(query_ids)
    if not labels and not models and not traced:
        return by_query
    merged: dict[int, Merge] = {}
    for steps in voices.merges(
        Pool.objects.filter(datasets__queries__in=query_ids).values_list("pk", flat=True)
    ).values():
        merged |= steps
    for label in labels:
        provenance = label.provenance
        version = llm_version(provenance)
        fallback = str(provenance.get("fallback") or "")
        by_query[label.query_id].append(
            _offer("llm", version, label.required, label.asked, label.scores or {}, merged, fallback)
        )
    for model in models:
        asked = {*map(int, model.scores), *model.required}
        by_query[model.query_id].append(_offer("model", model.version, model.required, asked, model.scores, merged))
    for query, (source, agents) in traced.items():
        by_query[query].append(_offer("traffic", source, agents, agents, {}, merged))
    if about is not None:
        return {
            query: offers_about
            for query, of in by_query.items()
            if (offers_about := [offer for offer in of if about in offer.asked])
        }
    return by_query


def llm_version(provenance: Mapping[str, Any]) -> str:
    """Which LLM said so, and by which prompt, as pages name it."""
    return " · ".join(str(provenance[key]) for key in ("model", "prompt") if provenance.get(key))


def who_answered(query_ids: Collection[int]) -> dict[int, tuple[str, list[int]]]:
    """Query key → (source, agents that answered) of those that traces have with agents of the pool; of several, the latest."""
    rows = TracedTurn.objects.filter(query__in=query_ids).exclude(agents=[]).order_by("at", "pk")
    return {query: (source, agents) for query, source, agents in rows.values_list("query_id", "source", "agents")}


def _offer(
    source: str,
    version: str,
    required: Iterable[int],
    asked: Iterable[int],
    scores: Mapping[str, float],
    merged: Merges,
    fallback: str = "",
) -> Offer:
    numbers = _numbers(scores)
    if not merged:
        return Offer(source, version, tuple(required), numbers, frozenset(asked), fallback)
    ended: dict[int, float] = {}
    for agent, score in numbers.items():
        end = voices.end_of(agent, merged)
        ended[end] = max(score, ended.get(end, 0.0))
    wanted = frozenset(voices.end_of(agent, merged) for agent in required)
    return Offer(
        source, version, tuple(sorted(wanted)), ended, wanted | {a for a in asked if a not in merged}, fallback
    )


def _numbers(scores: Mapping[str, float]) -> dict[int, float]:
    return {int(agent): float(score) for agent, score in scores.items()}


def mean_score(offers: Sequence[Offer], agent: int, weights: Mapping[str, float] | None = None) -> float:
    """The mean of what the sources that speak of one agent say of it, each by its weight; 0 without such a source."""
    scored = [(offer.score(agent), _weight(offer, weights)) for offer in offers if agent in offer.asked]
    total = sum(weight for _score, weight in scored)
    return sum(score * weight for score, weight in scored) / total if total else 0.0


def _weight(offer: Offer, weights: Mapping[str, float] | None) -> float:
    # What stood in for an answer that could not be read knows next to nothing.
    return 0.05 if offer.fallback else max((weights or {}).get(offer.source, 0.5), 0.05)


def proposed(
    offers: Sequence[Offer], agents: Iterable[int], weights: Mapping[str, float] | None = None
) -> frozenset[int]:
    """The set that one key accepts: of one source its own set, of several the agents whose weighed mean score is at least one half.

    `weights`: source → how far it has agreed with people (`trust.weights`). None is proposed only where every source says so: where
    the mean reaches one half nowhere, the most trusted source that names agents decides.
    """
    agents = frozenset(agents)
    sets = [(_weight(offer, weights), frozenset(offer.required) & agents) for offer in offers]
    if len(sets) <= 1:
        return sets[0][1] if sets else frozenset()
    required = frozenset(agent for agent in agents if mean_score(offers, agent, weights) >= 0.5)
    return required or max(sets, key=lambda scored: (bool(scored[1]), scored[0]))[1]


def uncertainty(scores: Mapping[int, float]) -> float:
    """The entropy of independent yes-or-no questions, in bits, summed over agents: 0 when every answer is sure."""
    return sum(-p * log2(p) - (1 - p) * log2(1 - p) for p in scores.values() if 0 < p < 1)


def push(pool: Pool, version: str, rows: Iterable[Scored]) -> int:
    """Keep what a model says of queries, for labelers to see and for the queue to be ordered by; returns how many it was.

    training_app calls this; a later call replaces the scores of an earlier model. In batches of 1,000.
    """
    order = QueueSettings.objects.filter(pool=pool).values_list("order", flat=True).first()
    column = order if order in (QueueSettings.Order.UNCERTAINTY, QueueSettings.Order.NOVELTY) else None
    pending, count = iter(rows), 0
    while batch := list(islice(pending, BATCH)):
        stored = set(
            Query.objects.filter(pk__in=[row.query_id for row in batch], dataset__pool=pool).values_list(
                "pk", flat=True
            )
        )
        batch = [row for row in batch if row.query_id in stored]
        Suggestion.objects.bulk_create(
            [
                Suggestion(
                    query_id=row.query_id,
                    version=version,
                    required=sorted(row.required),
                    scores={str(agent): round(float(p), 4) for agent, p in sorted(row.scores.items())},
                )
                for row in batch
            ],
            update_conflicts=True,
            update_fields=("version", "required", "scores", "made_at"),
            unique_fields=("query",),
        )
        by_query = {row.query_id: row for row in batch}
        items = list(QueueItem.objects.filter(pool=pool, agent__isnull=True, query__in=by_query))
        for item in items:
            row = by_query[item.query_id]
            item.uncertainty, item.novelty = uncertainty(row.scores), row.novelty
            value = getattr(item, column) if column else None
            if value is not None:
                item.rank = -value
        QueueItem.objects.bulk_update(items, ["uncertainty", "novelty", "rank"])
        count += len(batch)
    return count
