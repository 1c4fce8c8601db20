"""A model on the queries that were drawn at random for evaluation: what people send, not what was worth labeling.

Where the queue chooses what is labeled, test queries are a biased sample, and so is what a scorecard says. The evaluation share of the
queue comes in random order only and is marked (`Assignment.drawn`); of it all counts that no training row shares its group with.
"""

from typing import Any

import numpy as np

from datasets_app.models import Gold, Label, Snapshot
from training_app.engine.data import metrics
from training_app.engine.data.conversations import from_json
from training_app.engine.routing import holding
from training_app.versions import registry

#: Newest queries of the sample that are routed.
MOST = 2_000


def measure(artifact: bytes, snapshot: Snapshot) -> dict[str, Any] | None:
    """{"queries", "jaccard", "exact": intervals} of an artifact on its pool's evaluation sample, None without a query of it.

    Raises RegistryError for an artifact that cannot be used.
    """
    drawn = Label.objects.current().filter(
        query__dataset__pool=snapshot.pool, query__deleted_at__isnull=True, provenance__evaluation=True
    )
    gold = Gold.objects.filter(query__in=drawn.values("query")).exclude(query__group__split="train")
    rows = list(gold.order_by("-query").values_list("query__text", "query__messages", "required", "asked")[:MOST])
    router = registry.load(artifact)
    covered = frozenset(agent.id for agent in router.agents)
    whole = [
        (from_json(text, messages), required) for text, messages, required, asked in rows if covered <= frozenset(asked)
    ]
    if not whole:
        return None
    routes = holding.routes(router, [text for text, _required in whole], covered)
    ids = sorted(covered.union(*(required for _text, required in whole)))
    chosen = np.array([[agent in route.agents for agent in ids] for route in routes])
    needed = np.array([[agent in required for agent in ids] for _text, required in whole])
    measures = metrics.per_query(chosen, needed)
    return {"queries": len(whole), **{name: metrics.interval(measures[name], name) for name in ("jaccard", "exact")}}
