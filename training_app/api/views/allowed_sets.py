"""Which sets of agents a route may answer with: read, replace."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import allowed_sets
from agents_app.checks import PoolError
from agents_app.models import Pool
from training_app.api.errors import refused_as
from training_app.api.once import once
from training_app.api.schema import operation
from training_app.api.serializers import allowed_sets as shapes
from training_app.api.views.runs import OpsView
from training_app.engine.routing.allowed import Rules

OF = "Agents"
EXAMPLE: dict[str, Any] = {
    "pool": "support", "requires": [[3, 1]], "excludes": [[0, 4]], "groups": [{"name": "refunds", "agents": [0, 2]}],
    "most": 3, "budget": 2.5,
}  # fmt: skip


class AllowedSetsView(OpsView):
    """A pool's rules."""

    @operation(
        "allowedSets", "Which sets of agents may be chosen", of=OF, query_string=shapes.AllowedSetsParameters,
        answers={200: (shapes.AllowedSetsSerializer, "The pool's rules", EXAMPLE)},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """What agents require and exclude, groups of which one may serve, the largest set and the budget."""
        return _told(self.pool(self.query_string(shapes.AllowedSetsParameters)["pool"]))

    @operation(
        "setAllowedSets", "Say which sets of agents may be chosen", of=OF, keyed=True, body=shapes.SetAllowedSets, example=EXAMPLE,
        answers={200: (shapes.AllowedSetsSerializer, "Every process obeys them after two seconds", EXAMPLE)},
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Replace all rules of the pool: every route obeys them at once, and the next model is trained under them."""
        body = self.body(shapes.SetAllowedSets)
        pool = self.pool(body["pool"])
        with refused_as(400, "invalid", PoolError):
            allowed_sets.set_rules(pool, Rules.from_config(body), actor=self.access.actor)
        return _told(pool)


def _told(pool: Pool) -> Response:
    return Response({"pool": pool.slug, **_plain(Rules.from_config(pool.allowed_sets or {}))})


def _plain(rules: Rules) -> dict[str, Any]:
    config = rules.config()
    del config["costs"]
    return config
