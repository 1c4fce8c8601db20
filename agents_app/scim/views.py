"""/scim/v2/: what an identity provider asks and says (RFC 7644), under a token of its own.

Django REST framework's views with SCIM's media type and errors. Nothing here knows a session, and an API key opens none of it.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import IntegrityError
from django.db.models import QuerySet
from django.http import Http404
from django.http.request import UnreadablePostError
from django.utils.translation import override
from rest_framework import exceptions
from rest_framework.parsers import JSONParser
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents_app.audit import Actor
from agents_app.models import ScimGroup, ScimPerson
from agents_app.scim import documents, filters, groups, patching, people, schemas, tokens
from agents_app.scim.errors import ScimError, invalid, not_found
from training_app.engine.data import storable

MEDIA_TYPE = "application/scim+json"
log = logging.getLogger(__name__)


class ScimRenderer(JSONRenderer):
    media_type = MEDIA_TYPE
    charset = None


class ScimParser(JSONParser):
    """JSON that can be stored: no half of a surrogate pair, no number that no double holds, nothing that is nested too deep."""

    media_type = MEDIA_TYPE

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        """The JSON value of a body. Raises ParseError."""
        try:
            return storable.loads(stream.read().decode())
        except ValueError as error:
            raise exceptions.ParseError(f"The body is no JSON that can be read: {error}") from None


class PlainParser(ScimParser):
    """The same under JSON's own media type."""

    media_type = JSONParser.media_type


class ScimView(APIView):
    """A view for the bearer of a SCIM token; there is none while SCIM is off."""

    authentication_classes = []
    permission_classes = [AllowAny]
    renderer_classes = [ScimRenderer]
    parser_classes = [ScimParser, PlainParser]
    throttle_classes = []
    http_method_names = ["get", "post", "put", "patch", "delete", "head"]
    actor: Actor

    @property
    def base(self) -> str:
        """The address of /scim/v2."""
        return self.request.build_absolute_uri("/scim/v2")

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[Any, str]:
        """All is SCIM's JSON, whatever the request accepts."""
        return ScimRenderer(), MEDIA_TYPE

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """The setting, the token, then the method."""
        super().initial(request, *args, **kwargs)
        if not settings.SCIM:
            raise ScimError(404, "SCIM is off here; the setting SCIM turns it on.")
        token = tokens.of(request.META.get("HTTP_AUTHORIZATION", ""))
        if token is None:
            raise ScimError(401, "This address needs a SCIM token that is neither unknown nor revoked.")
        self.actor = tokens.actor(token)

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """In English: an identity provider's log reads it, not a person of this site."""
        with override("en"):
            return super().dispatch(request, *args, **kwargs)

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """SCIM's form of errors."""
        return respond

    def sent(self, urn: str) -> dict[str, Any]:
        """What the body holds, of that schema. Raises ScimError."""
        return documents.check_schema(self.request.data, urn)

    def shown(self, resource: dict[str, Any], parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A resource with the attributes that the request asks for."""
        query = self.request.query_params.dict() if parameters is None else parameters
        wanted, left_out = _names(query.get("attributes")), _names(query.get("excludedAttributes"))
        if wanted:
            names = {"id", "schemas", *wanted}
            return {key: _sub(value, key, wanted) for key, value in resource.items() if _top(key, names)}
        return {
            key: value for key, value in resource.items() if key in ("id", "schemas") or key.lower() not in left_out
        }

    def listed(
        self, answer: Mapping[str, Any], *resources: tuple[QuerySet[Any], Callable[[Any], dict[str, Any]]]
    ) -> Response:
        """One page of a list (RFC 7644, 3.4.2.4), of one kind of rows after another."""
        start, count = (
            max(_number(answer.get("startIndex"), 1), 1),
            max(min(_number(answer.get("count"), 100), schemas.MOST), 0),
        )
        skip, total = start - 1, 0
        shown: list[dict[str, Any]] = []
        for rows, as_json in resources:
            total_rows = rows.count()
            page = rows[max(skip - total, 0) :][: count - len(shown)] if count > len(shown) else ()
            shown += [self.shown(as_json(row), answer) for row in page]
            total += total_rows
        answer = {"totalResults": total, "startIndex": start, "itemsPerPage": len(shown), "Resources": shown}
        return Response({"schemas": [schemas.LIST], **answer})

    def people(self, query: Mapping[str, Any]) -> tuple[QuerySet[Any], Callable[[Any], dict[str, Any]]]:
        """The people that are asked for, and how each is shown."""
        rows = ScimPerson.objects.linked()
        if text := query.get("filter"):
            tree = filters.parse(str(text))
            people.look_up(tree)
            if tree[0] == "eq" and tree[1] in ("username", "emails", "emails.value"):
                rows = ScimPerson.objects.not_removed()
            rows = rows.filter(filters.query(tree, people.COLUMNS)).distinct()
        rows = rows.select_related("user").prefetch_related("groups").order_by("pk")
        return rows, lambda person: people.as_json(person, self.base)

    def groups(self, query: Mapping[str, Any]) -> tuple[QuerySet[Any], Callable[[Any], dict[str, Any]]]:
        """The groups that are asked for, and how each is shown."""
        rows = ScimGroup.objects.order_by("pk")
        if text := query.get("filter"):
            rows = rows.filter(filters.query(filters.parse(str(text)), groups.COLUMNS)).distinct()
        members = "members" not in _names(query.get("excludedAttributes"))
        return rows, lambda group: groups.as_json(group, self.base, members=members)


class PeopleView(ScimView):
    """Everybody whom identity providers look after."""

    def get(self, request: Request) -> Response:
        """Those that a filter finds."""
        parameters = request.query_params.dict()
        return self.listed(parameters, self.people(parameters))

    def post(self, request: Request) -> Response:
        """One more; 409 where somebody has that name."""
        values = patching.canonical(self.sent(schemas.USER), documents.PERSON)
        person = people.create(values, self.actor, self.request.build_absolute_uri("/"))
        shown = people.as_json(person, self.base)
        return Response(self.shown(shown), status=201, headers={"Location": shown["meta"]["location"]})


class PersonView(ScimView):
    """One of them."""

    def get(self, request: Request, uid: Any) -> Response:
        """As they stand."""
        return Response(self.shown(people.as_json(self.person(uid), self.base)))

    def put(self, request: Request, uid: Any) -> Response:
        """In place of what was said before; without `active` the account stays open or closed."""
        values = patching.canonical(self.sent(schemas.USER), documents.PERSON)
        return Response(self.shown(people.as_json(people.change(self.person(uid), values, self.actor), self.base)))

    def patch(self, request: Request, uid: Any) -> Response:
        """Some of it changed."""
        person = self.person(uid)
        values = patching.apply(
            people.as_json(person, self.base), _operations(self.sent(schemas.PATCH)), documents.PERSON
        )
        person = people.change(person, patching.canonical(values, documents.PERSON), self.actor)
        return Response(self.shown(people.as_json(person, self.base)))

    def delete(self, request: Request, uid: Any) -> Response:
        """The account is closed; its labels stay."""
        people.remove(self.person(uid), self.actor)
        return Response(status=204)

    def person(self, uid: Any) -> ScimPerson:
        """The person of that id. Raises ScimError."""
        row = ScimPerson.objects.not_removed().select_related("user").filter(uid=uid).first()
        if row is None:
            raise not_found("person of that id")
        return row


class GroupsView(ScimView):
    """Every group."""

    def get(self, request: Request) -> Response:
        """Those that a filter finds."""
        parameters = request.query_params.dict()
        return self.listed(parameters, self.groups(parameters))

    def post(self, request: Request) -> Response:
        """One more; 409 where one has that name."""
        group = groups.create(patching.canonical(self.sent(schemas.GROUP), documents.TEAM), self.actor)
        shown = groups.as_json(group, self.base)
        return Response(self.shown(shown), status=201, headers={"Location": shown["meta"]["location"]})


class GroupView(ScimView):
    """One of them."""

    def get(self, request: Request, uid: Any) -> Response:
        """As it stands."""
        members = "members" not in _names(request.query_params.get("excludedAttributes"))
        return Response(self.shown(groups.as_json(self.group(uid), self.base, members=members)))

    def put(self, request: Request, uid: Any) -> Response:
        """In place of what was said before."""
        values = patching.canonical(self.sent(schemas.GROUP), documents.TEAM)
        return Response(self.shown(groups.as_json(groups.change(self.group(uid), values, self.actor), self.base)))

    def patch(self, request: Request, uid: Any) -> Response:
        """Some of it changed, as a rule its members."""
        group = self.group(uid)
        values = patching.apply(groups.as_json(group, self.base), _operations(self.sent(schemas.PATCH)), documents.TEAM)
        group = groups.change(group, patching.canonical(values, documents.TEAM), self.actor)
        return Response(self.shown(groups.as_json(group, self.base)))

    def delete(self, request: Request, uid: Any) -> Response:
        """Its members lose what it gave."""
        groups.remove(self.group(uid), self.actor)
        return Response(status=204)

    def group(self, uid: Any) -> ScimGroup:
        """The group of that id. Raises ScimError."""
        row = ScimGroup.objects.filter(uid=uid).first()
        if row is None:
            raise not_found("group of that id")
        return row


class SearchView(ScimView):
    """The same questions in a body, so that no address stands in a log: of people, of groups, or of both."""

    of: tuple[str, ...] = ("people", "groups")

    def post(self, request: Request) -> Response:
        """One page of what is found."""
        values = _searched(self.sent(schemas.SEARCH))
        return self.listed(values, *(getattr(self, kind)(values) for kind in self.of))


class ConfigView(ScimView):
    """What this provider can do."""

    def get(self, request: Request) -> Response:
        return Response(schemas.provider_config(self.base))


class DescriptionsView(ScimView):
    """Schemas, or types of resources: all, or the one of that id."""

    def every(self) -> list[dict[str, Any]]:
        """All of them."""
        raise NotImplementedError

    def get(self, request: Request, name: str | None = None) -> Response:
        """All, or one; they are not filtered (RFC 7644, 4)."""
        every = self.every()
        if name is None:
            if "filter" in request.query_params:
                raise ScimError(403, "Descriptions are not filtered.")
            parameters = {"totalResults": len(every), "startIndex": 1, "itemsPerPage": len(every), "Resources": every}
            return Response({"schemas": [schemas.LIST], **parameters})
        schema = next((description for description in every if description["id"].lower() == name.lower()), None)
        if schema is None:
            raise not_found("description of that name")
        return Response(schema)


class SchemasView(DescriptionsView):
    """What a person and a group are made of."""

    def every(self) -> list[dict[str, Any]]:
        """Both."""
        return schemas.schemas(self.base)


class ResourceTypesView(DescriptionsView):
    """Which kinds there are, and where."""

    def every(self) -> list[dict[str, Any]]:
        """Both."""
        return schemas.resource_types(self.base)


class NothingHere(ScimView):
    """Every address below /scim/v2/ that is none."""

    def get(self, request: Request, **_parts: Any) -> Response:
        raise not_found("such address")

    post = put = patch = delete = get


def respond(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Django REST framework's exception handler: every error in SCIM's form."""
    if isinstance(error, ScimError):
        problem = error
    elif isinstance(error, exceptions.ParseError):
        problem = invalid(str(error.detail), "invalidSyntax")
    elif isinstance(error, exceptions.APIException):
        problem = ScimError(error.status_code, str(error.detail))
    elif isinstance(error, IntegrityError):  # another request was first
        problem = ScimError(409, "Somebody has that name already.", "uniqueness")
    elif isinstance(error, RequestDataTooBig):
        problem = ScimError(413, "The body is larger than a request may be.")
    elif isinstance(error, (Http404, PermissionDenied, SuspiciousOperation, UnreadablePostError)):
        return None
    else:
        log.exception("a SCIM request failed", exc_info=error)
        problem = ScimError(500, "The server failed. Its log says where.")
    headers = {"WWW-Authenticate": 'Bearer realm="Routerweb SCIM"'} if problem.status == 401 else {}
    return Response(problem.body, status=problem.status, headers=headers)


def _operations(body: Mapping[str, Any]) -> Any:
    return next((value for key, value in body.items() if key.lower() == "operations"), None)


def _searched(body: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a search, as they stand behind an address's question mark."""
    names = {name.lower(): name for name in ("filter", "startIndex", "count", "attributes", "excludedAttributes")}
    return {names[key.lower()]: value for key, value in body.items() if key.lower() in names}


def _names(value: Any) -> set[str]:
    """The attributes that a parameter names, in small letters."""
    every = value if isinstance(value, list) else str(value or "").split(",")
    return {filters.attribute_of(str(name).strip()) for name in every if str(name).strip()}


def _top(key: str, wanted: set[str]) -> bool:
    return any(key.lower() == name or name.startswith(f"{key.lower()}.") for name in wanted)


def _sub(value: Any, key: str, wanted: set[str]) -> Any:
    """Of a complex attribute only those of its parts that are asked for, where the whole is not."""
    if key.lower() in wanted or key in ("id", "schemas"):
        return value
    parts = {name.removeprefix(f"{key.lower()}.") for name in wanted}
    if isinstance(value, list):
        return [{name: part for name, part in item.items() if name.lower() in parts} for item in value]
    return {name: part for name, part in value.items() if name.lower() in parts} if isinstance(value, dict) else value


def _number(value: Any, default: int) -> int:
    if value is None or value == "":
        return default
    try:
        return min(int(value), 10**9)
    except (TypeError, ValueError):
        raise invalid("startIndex and count are whole numbers.") from None
