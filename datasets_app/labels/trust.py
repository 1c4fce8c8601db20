"""How far each source of suggestions has agreed with people in a pool: what it says weighs as much when sources differ."""

from collections import defaultdict

from django.core.cache import caches

from agents_app.models import Pool
from datasets_app.labels import suggestions
from datasets_app.labels.disagreement import jaccard
from datasets_app.models import Label, Suggestion

#: The latest labels by people that are looked at, and for how long what was found is kept.
RECENT, SECONDS = 300, 300
#: Before anything is measured a source counts as if it had agreed half on so many queries.
PRIOR = 5
#: A labeler is told how far a source has agreed with people from so many queries on: "100 %, over one" would only persuade.
SHOWN_FROM = 10


def of_sources(pool: Pool) -> dict[str, tuple[float, int]]:
    """Source ("llm", "model", "traffic") → (its mean Jaccard with people, over how many queries); no entry where nothing was measured.

    Measured on the pool's latest whole labels by people, against what each source says of the same query about the agents that both
    were asked about. Kept for five minutes in this process.
    """
    cache, key = caches["process"], f"trust:{pool.pk}"
    weights: dict[str, tuple[float, int]] | None = cache.get(key)
    if weights is None:
        weights = _measure(pool)
        cache.set(key, weights, SECONDS)
    return weights


def weights(pool: Pool) -> dict[str, float]:
    """Source → what it weighs, 0 to 1: its agreement, drawn towards one half while few queries tell."""
    return {
        source: (mean * queries + 0.5 * PRIOR) / (queries + PRIOR)
        for source, (mean, queries) in of_sources(pool).items()
    }


def _measure(pool: Pool) -> dict[str, tuple[float, int]]:
    people = Label.objects.current().filter(
        source=Label.Source.HUMAN,
        unsure=False,
        partial=False,
        query__dataset__pool=pool,
        query__deleted_at__isnull=True,
    )
    answers = {
        query: (frozenset(required), frozenset(asked))
        for query, required, asked in people.order_by("-pk").values_list("query", "required", "asked")[:RECENT]
    }
    if not answers:
        return {}
    llm = Label.objects.current().filter(query__in=answers, source=Label.Source.LLM)
    offered: list[tuple[str, int, frozenset[int], frozenset[int]]] = [
        ("llm", query, frozenset(required), frozenset(asked))
        for query, required, asked, provenance in llm.values_list("query", "required", "asked", "provenance")
        if not provenance.get("fallback")
    ]
    for query, required, scores in Suggestion.objects.filter(query__in=answers).values_list(
        "query", "required", "scores"
    ):
        offered.append(("model", query, frozenset(required), frozenset(map(int, scores)) | frozenset(required)))
    for query, (_source, agents) in suggestions.who_answered(answers).items():
        offered.append(("traffic", query, frozenset(agents), answers[query][1]))
    measured: dict[str, list[float]] = defaultdict(list)
    for source, query, theirs, asked in offered:
        ours, truth = answers[query]
        if both := truth & asked:
            measured[source].append(jaccard(ours & both, theirs & both))
    return {source: (sum(each) / len(each), len(each)) for source, each in measured.items()}
