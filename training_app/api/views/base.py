"""What every view of the API is: JSON alone, a key, a scope, one form of error."""

from typing import IO, Any, TypeVar, cast

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.request import Empty, Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from agents_app.models import Pool
from training_app.api.bodies import EVERY_ANSWER, JSONBody, JSONText
from training_app.api.errors import Refused, not_allowed, not_found, unknown_field
from training_app.api.keys import Access, KeyAuthentication, OpensAddress

AnySerializer = TypeVar("AnySerializer", bound=Serializer[Any])
Row = TypeVar("Row", bound=Model)


class JSONRequest(Request):
    """A request whose body is JSON, however its length is told: no forms, no files."""

    @property
    def data(self) -> Any:
        """The JSON object that was sent."""
        if self._full_data is Empty:  # type: ignore[has-type]
            self._full_data = _PARSER.parse(cast(IO[bytes], self._request), None, self.parser_context)
        return self._full_data


class ApiView(APIView):
    """A view for keys of `scope`; "" is any key's. Its methods answer, and every error of theirs is told in the one form."""

    scope = ""
    http_method_names = ["get", "post", "head"]
    authentication_classes = [KeyAuthentication]
    permission_classes = [OpensAddress]
    throttle_classes = []
    parser_classes = [JSONBody]
    renderer_classes = [JSONText]

    @property
    def access(self) -> Access:
        """What the request's key opens."""
        return self.request.auth  # type: ignore[return-value]

    def pool(self, slug: str | None) -> Pool:
        """The pool that is meant; None is the key's only one. Raises Refused."""
        return Pool.objects.get(pk=self.access.pool(slug).pk)

    def one_of(self, rows: QuerySet[Row], key: Any, noun: str, *, path: str = "pool", hint: str = "") -> Row:
        """The row of that key; `path` leads from it to its pool. Raises Refused where the API key opens no pool that has it."""
        row = rows.filter(pk=key, **{f"{path}__slug__in": self.access.caller.pools}).first()
        if row is None:
            raise Refused(
                404, "not_found", f"There is no {noun} {key} in the pools that this API key opens.", hint=hint
            )
        return row

    def body(self, serializer: type[AnySerializer], **context: Any) -> dict[str, Any]:
        """What the request's body holds, checked. Raises Refused."""
        return self._checked(serializer, self.request.data, context)

    def query_string(self, serializer: type[AnySerializer]) -> dict[str, Any]:
        """What stands behind the address's question mark, checked; of a name that stands there twice, the last. Raises Refused."""
        return self._checked(serializer, self.request.query_params.dict(), {})

    def _checked(self, serializer: type[AnySerializer], data: Any, context: dict[str, Any]) -> dict[str, Any]:
        checked = serializer(data=data, context={"view": self, **context})
        checked.is_valid(raise_exception=True)
        return checked.validated_data

    @property
    def default_response_headers(self) -> dict[str, str]:
        """None: every answer has EVERY_ANSWER, and only a wrong method is told which there are."""
        return {}

    # --- How Django REST framework goes through it --------------------------------------------------------------------

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        """The request, with one parser and one way to know who calls."""
        return JSONRequest(
            request, parsers=[_PARSER], authenticators=self.get_authenticators(), negotiator=_NEGOTIATOR,
            parser_context={"view": self, "args": args, "kwargs": kwargs},
        )  # fmt: skip

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """A method that the address has comes first, then the key and its scope, then the names behind the question mark; nothing is
        negotiated, as all is JSON."""
        name = (request.method or "").lower()
        if name not in self.http_method_names or not hasattr(self, name):
            raise not_allowed(request.path_info, request.method, self.allowed_methods)
        request.accepted_renderer, request.accepted_media_type = _RENDERER, _RENDERER.media_type
        self.perform_authentication(request)
        self.check_permissions(request)
        names: frozenset[str] | None = getattr(getattr(self, "get" if name == "head" else name), "query_names", None)
        unknown = [] if names is None else [sent for sent in request.query_params if sent not in names]
        if names is not None and unknown:
            raise unknown_field(unknown[0], names)

    def finalize_response(  # type: ignore[override]
        self, request: Request, response: HttpResponseBase, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """The answer as JSON, whatever the request accepts, with the headers of every answer."""
        if isinstance(response, Response):
            response.accepted_renderer, response.accepted_media_type = _RENDERER, _RENDERER.media_type
            response.renderer_context = {}  # type: ignore[attr-defined]
        for name, value in EVERY_ANSWER:
            response[name] = value
        return response


class NothingHere(ApiView):
    """Every address under /api/ that is none."""

    authentication_classes = []
    permission_classes = []

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Whatever the method, there is nothing."""
        raise not_found(request.path_info)


_PARSER = JSONBody()
_RENDERER = JSONText()
_NEGOTIATOR = ApiView.content_negotiation_class()
