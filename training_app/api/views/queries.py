"""Queries for the labeling queue."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.access import Role, roles_of
from datasets_app.labeling import bulk
from datasets_app.pages import browse
from datasets_app.queries import adding
from training_app.api import examples
from training_app.api.errors import Refused
from training_app.api.once import once
from training_app.api.schema import operation
from training_app.api.serializers import queries as shapes
from training_app.api.views.base import ApiView
from training_app.api.views.labeling import LabelingView


class AcceptView(LabelingView):
    """Suggestions become labels."""

    @operation(
        "acceptSuggestions", "Accept suggestions", of="Labeling", keyed=True, body=shapes.AcceptRequest,
        example={"pool": "support", "search": "refund source:llm"},
        answers={200: (shapes.AcceptedSerializer, "What became of them",
                       {"pool": "support", "queries": 120, "change": 3, "done": True})},
        errors=("no_person", "person_refused", "invalid", "too_long"),
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Make what an LLM or a model suggests the labels of queries without gold, as the decision of the key's person, who must be a
        reviewer or ops. The page Queries undoes it as one. More than 2,000 are left to a worker."""
        body = self.body(shapes.AcceptRequest)
        pool = self.pool(body["pool"])
        person = self.person(pool)
        if not {Role.REVIEWER, Role.OPS} & set(roles_of(person, pool)):
            raise Refused(
                403, "person_refused", f"This API key labels as {person.get_username()}, who is neither a reviewer nor ops."
            )  # fmt: skip
        results = browse.search(pool, body["search"])
        if results.problems:
            raise Refused(400, "invalid", f"search: {' '.join(results.problems)}", field="search")
        count = bulk.preview(results.queries, bulk.ACCEPT, None).changes
        accepted = {"pool": pool.slug, "queries": count, "change": None, "done": True}
        if count and not body["count_only"]:
            change = bulk.start(pool, results.queries, bulk.ACCEPT, None, author=person, search=body["search"])
            change = bulk.carry_out(change)
            accepted |= {"queries": change.total, "change": change.pk, "done": change.finished_at is not None}
        return Response(shapes.AcceptedSerializer(accepted).data)


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
        body = self.body(shapes.SendRequest)
        pool = self.pool(body["pool"])
        dataset, places = adding.send(pool, body["rows"], actor=self.access.actor, dataset=body["dataset"])
        sent = {
            "pool": pool.slug,
            "dataset": dataset.name,
            "new": len({place.pk for place in places if place.state}),
            "queries": places,
        }
        return Response(shapes.SendSerializer(sent).data, status=201)
