"""Pools as catalogs that can be searched, by the draft of Agentic Resource Discovery; for the pools that ARD_POOLS names."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from training_app.api import ard, examples, route_requests
from training_app.api.errors import not_found, refusal_of
from training_app.api.keys import KeyThrottle
from training_app.api.schema import operation
from training_app.api.serializers.ard import ArdCatalogSerializer, ArdSearchRequest, ArdSearchSerializer
from training_app.api.views.base import ApiView

OF = "Agentic Resource Discovery"


class _Searched(NamedTuple):
    """What a search counts as: one text for each catalog that is looked through."""

    texts: list[str]


class _ArdView(ApiView):
    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        """Errors in the draft's words too."""

        def handle(error: Exception, context: dict[str, Any]) -> Response:
            refused = ard.InDraft(refusal_of(error, context["request"].path_info))
            return Response(refused.body, status=refused.status_code, headers=dict(refused.headers))

        return handle


class SearchView(_ArdView):
    """A search."""

    scope = "route"
    throttle_classes = [KeyThrottle]
    asks: _Searched

    @operation(
        "ardSearch", "Agents that fit a need, by the draft of Agentic Resource Discovery", of=OF, body=ArdSearchRequest,
        also_at="/search",
        example={"query": {"text": "I was charged twice"}, "pageSize": 5}, any_pool=False,
        answers={200: (ArdSearchSerializer, "Entries, best first", examples.ARD_FOUND)},
        errors=("not_found", "blank", "too_long", "too_many_requests", "quota_exhausted"),
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """The agents of the key's pools among ARD_POOLS as entries, each with how well it fits. It counts as one query for each of
        these pools, and is kept as no decision. `/search` at the root of the site answers the same."""
        pools = ard.pools_of(self.access)
        body = cast(dict[str, Any], request.data)
        ard.known_only(body, ("query", "federation", "pageSize", "pageToken"), "The body")
        query: Any = body.get("query")
        ard.known_only(query, ("text", "filter"), "query")
        text = route_requests.check_text(query.get("text"), "query.text")
        wanted = ard.filters(query.get("filter"))
        word, (first, size) = (
            ard.federation(body.get("federation")),
            ard.page(body.get("pageToken"), body.get("pageSize")),
        )
        self.asks = _Searched([text] * len(pools))
        self.check_throttles(request)
        results = ard.found_in(pools, text, wanted, request.build_absolute_uri("/"))
        answer: dict[str, Any] = {"results": results[first : first + size]}
        if word == "referrals":
            answer["referrals"] = []
        if first + size < len(results):
            answer["pageToken"] = ard.token(first + size)
        return Response(answer)


class CatalogView(_ArdView):
    """The site's manifest."""

    authentication_classes = []
    permission_classes = []

    @operation(
        "ardCatalog", "That this site has a search of agents", of=OF, public=True, any_pool=False,
        also_at="/.well-known/ai-catalog.json",
        answers={200: (ArdCatalogSerializer, "The manifest", examples.ARD_CATALOG)}, errors=("not_found",),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The manifest that the draft builds on, at `/.well-known/ai-catalog.json` too. It names the search, and no agent."""
        if not settings.ARD_POOLS:
            raise not_found(request.path_info)
        return Response(ard.manifest(request.build_absolute_uri("/")))
