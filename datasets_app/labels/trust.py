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
    together: dict[str, list[float]] = defaultdict(list)
    for (source, _version), each in _measured(pool).items():
        together[source] += each
    return {source: (sum(each) / len(each), len(each)) for source, each in together.items()}


def of_versions(pool: Pool) -> dict[tuple[str, str], tuple[float, int]]:
    """The same by (source, version): of each LLM and prompt, of each model and of each origin of traces alone. A pool's people may
    have agreed with predictions that a file brought, which says nothing of another LLM."""
    return {which: (sum(each) / len(each), len(each)) for which, each in _measured(pool).items()}


def _measured(pool: Pool) -> dict[tuple[str, str], list[float]]:
    cache, key = caches["process"], f"trust:{pool.pk}"
    measured: dict[tuple[str, str], list[float]] | None = cache.get(key)
    if measured is None:
        measured = _measure(pool)
        cache.set(key, measured, SECONDS)
    return measured


def weights(pool: Pool) -> dict[str, float]:
    """Source → what it weighs, 0 to 1: its agreement, drawn towards one half while few queries tell."""
    return {
        source: (mean * queries + 0.5 * PRIOR) / (queries + PRIOR)
        for source, (mean, queries) in of_sources(pool).items()
    }


def _measure(pool: Pool) -> dict[tuple[str, str], list[float]]:
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
    offered: list[tuple[str, str, int, frozenset[int], frozenset[int]]] = [
        ("llm", suggestions.llm_version(provenance), query, frozenset(required), frozenset(asked))
        for query, required, asked, provenance in llm.values_list("query", "required", "asked", "provenance")
        if not provenance.get("fallback")
    ]
    for query, version, required, scores in Suggestion.objects.filter(query__in=answers).values_list(
        "query", "version", "required", "scores"
    ):
        offered.append(
            ("model", version, query, frozenset(required), frozenset(map(int, scores)) | frozenset(required))
        )
    for query, (version, agents) in suggestions.who_answered(answers).items():
        offered.append(("traffic", version, query, frozenset(agents), answers[query][1]))
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    for source, version, query, theirs, asked in offered:
        ours, truth = answers[query]
        if both := truth & asked:
            measured[source, version].append(jaccard(ours & both, theirs & both))
    return dict(measured)
