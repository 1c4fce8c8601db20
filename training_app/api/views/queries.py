"""Queries for the labeling queue."""

from rest_framework.request import Request
from rest_framework.response import Response

from datasets_app.queries import queries
from training_app.api import examples
from training_app.api.once import once
from training_app.api.schema import operation
from training_app.api.serializers import queries as shapes
from training_app.api.views.base import ApiView


class QueriesView(ApiView):
    """Queries to be labeled."""

    scope = "label"

    @operation(
        "sendQueries", "Send queries to be labeled", of="Labeling", keyed=True, body=shapes.SendRequest,
        example={"pool": "support", "queries": ["I was charged twice", {"query": "Where is my parcel?", "id": "ticket-4711"}]},
        answers={201: (shapes.SendSerializer, "They are in the dataset, and wait in the queue", examples.SENT)},
        errors=("blank", "too_long", "too_many"),
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Put queries into a dataset of the pool, where people find them to label. A text that is there already is the same query, so
        a call may be sent again. If one query is bad, none is taken and the error names it."""
        told = self.body(shapes.SendRequest)
        pool = self.pool(told["pool"])
        dataset, places = queries.send(pool, told["rows"], actor=self.access.actor, dataset=told["dataset"])
        sent = {
            "pool": pool.slug,
            "dataset": dataset.name,
            "new": len({one.pk for one in places if one.state}),
            "queries": places,
        }
        return Response(shapes.SendSerializer(sent).data, status=201)
