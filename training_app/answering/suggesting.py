"""What the active model says of the queries that wait to be labeled, pushed to the labeling queue as suggestions.

A job of the default cluster does it: right after a promotion, and once a minute for what came in since. Only queries that the
present model has not spoken of are routed, so a minute without news costs one database query a pool.
"""

import logging
from collections.abc import Sequence
from itertools import islice

from django.db.models import Q, QuerySet

from agents_app.models import Pool
from datasets_app.labeling import orders, queue
from datasets_app.labels import suggestions
from datasets_app.models import Query
from training_app.answering import serving
from training_app.engine.data.artifact import ArtifactError
from training_app.engine.data.conversations import from_json
from training_app.engine.routing import holding
from training_app.models import RouterModel
from training_app.versions import registry

log = logging.getLogger(__name__)

BATCH = 500
#: Labeled texts that a waiting query is compared with, the newest ones, for its novelty.
COMPARED = 20_000


def suggest_all() -> int:
    """Suggest for every pool that has an active model; how many queries that was. A model that cannot be loaded is passed over."""
    count = 0
    for pool in Pool.objects.in_use().filter(models__in=RouterModel.objects.active()):
        try:
            count += suggest(pool.pk)
        except (registry.RegistryError, ArtifactError) as error:
            log.warning("no suggestions for %s: %s", pool.slug, error)
    return count


def suggest(pool_id: int) -> int:
    """Route a pool's waiting queries that its active model has not spoken of yet; how many that was.

    Raises RegistryError or ArtifactError where the model cannot be used.
    """
    pool = Pool.objects.get(pk=pool_id)
    queue.fill(pool, wait=False)
    model = registry.active(pool)
    if model is None or not waiting(pool, model.name).exists():
        return 0
    router = serving.router_of(model)
    available = set(pool.agents.routable().values_list("number", flat=True))
    compare = _Novelty(pool)
    queries = waiting(pool, model.name).values_list("pk", "text", "messages")
    rows = [(key, from_json(text, messages)) for key, text, messages in queries]
    pending, count = iter(rows), 0
    while batch := list(islice(pending, BATCH)):
        texts = [text for _key, text in batch]
        routes = holding.routes(router, texts, available)
        count += suggestions.push(
            pool,
            model.name,
            [
                suggestions.Scored(key, route.agents, route.scores, novelty)
                for (key, _text), route, novelty in zip(batch, routes, compare(texts), strict=True)
            ],
        )
    if count:
        orders.renew(pool)
    return count


def waiting(pool: Pool, version: str) -> "QuerySet[Query]":
    """Queries of the pool that somebody is still to be asked about and that this version has not spoken of."""
    return (
        Query.objects.of(pool)
        .filter(
            Q(suggestion__isnull=True) | ~Q(suggestion__version=version),
            erased_at__isnull=True,
            queue_items__agent__isnull=True,
            queue_items__wanted=True,
        )
        .exclude(state=Query.State.GOLD)
    )


class _Novelty:
    """How unlike the labeled queries a text is: 1 less the cosine to the nearest of them, over character n-grams.

    scikit-learn is imported here, inside the job: only workers make one.
    """

    def __init__(self, pool: Pool) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        gold = Query.objects.filter(dataset__pool=pool, state=Query.State.GOLD).order_by("-pk")
        texts = list(gold.values_list("text", flat=True)[:COMPARED])
        self._vectors = None
        if texts:
            self._tfidf = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), sublinear_tf=True)
            self._vectors = self._tfidf.fit_transform(texts)  # [labeled, features], rows of length 1

    def __call__(self, texts: Sequence[str]) -> list[float | None]:
        """One figure a text, between 0 (known to the letter) and 1 (nothing in common); None where nothing is labeled."""
        if self._vectors is None:
            return [None] * len(texts)
        nearest = (self._tfidf.transform(texts) @ self._vectors.T).max(axis=1).toarray().ravel()
        return [round(float(1 - value), 4) for value in nearest]
