"""Django for the API alone: a middleware list of its own (API_MIDDLEWARE), no session, no CSRF, no cookies, only its addresses.

An application is known by the key in its header, so none of what pages need means anything to it. The host's name and the secure
connection are checked as for every page. Of what Django does for any request, what an API has no use for is left out: template
responses' middleware, ATOMIC_REQUESTS, a log line for each request that was refused; and for a route, which asks the database
nothing, the look at every database connection before and after.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIHandler, get_script_name
from django.core.signals import request_started
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware
from django.template.response import SimpleTemplateResponse
from django.urls import Resolver404, ResolverMatch, set_script_prefix
from django.urls.resolvers import RegexPattern, URLResolver
from django.utils.module_loading import import_string

from routerweb.observing import tracing
from routerweb.serving import admission
from training_app.api.bodies import EVERY_ANSWER, written
from training_app.api.errors import Refused, unknown_host

#: Addresses whose views ask the database nothing.
FROM_MEMORY = frozenset({"/api/route/", "/api/route/batch/", "/api/mcp/"})
#: What balancers, probes and Prometheus ask of one machine by its own address, without TLS and past the proxy.
OF_A_MACHINE = frozenset({"/api/health/", "/api/ready/", "/api/metrics/"})


class ApiSecurity(SecurityMiddleware):
    """The host has to be one of ALLOWED_HOSTS and the connection secure where it has to be; answers tell their length.

    What is asked of one machine, not through the proxy, may come by any name and over http: no answer to it depends on either.
    The headers that tell a browser what a page may do are left out: an answer of the API is no page.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The answer; an error where the host is not this site's, a redirect where the connection has to be secure."""
        direct = request.path_info in OF_A_MACHINE and "HTTP_X_FORWARDED_PROTO" not in request.META
        try:
            if not direct and not admission.known_host(request.META.get("HTTP_HOST", "")):
                request.get_host()  # it says what is wrong with the host
        except DisallowedHost:
            response = refusal(unknown_host(request.META.get("HTTP_HOST", "")))
        else:
            moved = self.process_request(request) if self.redirect and not direct else None
            response = moved or cast(HttpResponse, self.get_response(request))
        headers = response.headers
        if not response.streaming:  # a file knows its length
            headers["Content-Length"] = str(len(response.content))
        if (strict_transport := admission.strict_transport()) != "":
            headers["Strict-Transport-Security"] = strict_transport
        return response


def refusal(refused: Refused) -> HttpResponse:
    """An error outside the views."""
    return HttpResponse(
        written(refused.body), status=refused.status_code, content_type="application/json", headers=dict(EVERY_ANSWER)
    )


class ApiHandler(WSGIHandler):
    """Django's handler with API_MIDDLEWARE for its middleware and the API's addresses for its addresses."""

    def load_middleware(self, is_async: bool = False) -> None:
        """Put API_MIDDLEWARE around the views."""
        handler = convert_exception_to_response(_view_answer)
        for path in reversed(settings.API_MIDDLEWARE):
            handler = convert_exception_to_response(import_string(path)(handler))
        self._middleware_chain = handler

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:  # type: ignore[override]
        """Answer one request; the answer to a HEAD has no body."""
        from_memory = environ["PATH_INFO"] in FROM_MEMORY
        if not from_memory:
            set_script_prefix(get_script_name(environ))
            request_started.send(sender=type(self), environ=environ)
        request = self.request_class(environ)
        with tracing.request(environ) as span:
            response = cast(HttpResponse, self._middleware_chain(request))
            if span.recording:
                match = getattr(request, "resolver_match", None)
                route = f"/api/{match.route}" if match is not None else ""
                tracing.answered(span, str(request.method), route, response.status_code)
        start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
        if response.streaming and environ["REQUEST_METHOD"] != "HEAD":
            return cast(Iterable[bytes], response)  # the server closes it after the last piece
        content = [] if environ["REQUEST_METHOD"] == "HEAD" else [response.content]
        if not from_memory:
            response.close()  # tells that the request is finished, and so lets its database connection go
        return content


def _view_answer(request: HttpRequest) -> HttpResponse:
    match = _resolved(request.path_info)
    request.resolver_match = match
    response = match.func(request, *match.args, **match.kwargs)
    return response.render() if isinstance(response, SimpleTemplateResponse) else response


@lru_cache(maxsize=256)
def _resolved(path: str) -> ResolverMatch:
    return ADDRESSES.resolve(path)


def route_of(path: str) -> str:
    """The template of an address of the API; `none` where it has no such address."""
    try:
        route = _resolved(path).route
    except Resolver404:
        return "none"
    return f"/api/{route}" if route else "none"  # the last address takes what no other does


ADDRESSES = URLResolver(RegexPattern(r"^/api/"), "training_app.api.urls")
