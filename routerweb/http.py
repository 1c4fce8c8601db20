"""What every page shares: it is drawn inside the admin site's shell, with a title that says what and where."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

Crumb = tuple[str, str]


class PermissionsPolicy:
    """Middleware: pages ask the browser for none of its devices, and nothing that is slipped into one may either."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self.get_response(request)
        answer.headers.setdefault("Permissions-Policy", settings.PERMISSIONS_POLICY)
        return answer


View = TypeVar("View", bound=Callable[..., Any])


def takes_file(view: View) -> View:
    """Mark a view whose form takes a file: only there may a signed-in person send more than a form's worth."""
    view.takes_file = True  # type: ignore[attr-defined]
    return reads_file(view)


def reads_file(view: View) -> View:
    """Mark a view that reads a file, which a child process does: it waits in threads apart, so that no other page waits with it."""
    view.reads_file = True  # type: ignore[attr-defined]
    return view


def wants_fragment(request: HttpRequest) -> bool:
    """Whether HTMX asks, and so for the part of the page that changes alone."""
    return bool(request.htmx)  # type: ignore[attr-defined]  # django_htmx's middleware sets it


def page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    title: str,
    crumbs: Sequence[Crumb] = (),
    status: int = 200,
) -> HttpResponse:
    """Render a page that extends `page.html`, in the shell of the admin site.

    `crumbs` are (text, address) pairs of the pages above this one, nearest last. A template for an HTMX fragment is rendered with
    Django's own `render` and needs none of this.
    """
    shell = admin.site.each_context(request)
    answer = render(request, template, {**shell, "title": title, "crumbs": crumbs, **context}, status=status)
    named = request.resolver_match.kwargs.get("slug", "") if request.resolver_match else ""
    if named and status == 200:
        remember_pool(request, answer, named)
    return answer


def opening(request: HttpRequest, title: str) -> HttpResponse:
    """A page in place of one whose opening writes something, such as who works on an item: it sends a POST to its own address, by
    itself where scripts run, else by a button. So no link, preview or prefetch writes."""
    return page(request, "routerweb/opening.html", {}, title=title)


#: The cookie that names the pool of the last page: where links of the whole site lead.
LAST_POOL = "pool"


def remember_pool(request: HttpRequest, answer: HttpResponse, slug: str) -> None:
    """Let the browser remember the pool that somebody was in last, so that no page has to write it."""
    if request.COOKIES.get(LAST_POOL) != slug:
        answer.set_cookie(
            LAST_POOL, slug, max_age=365 * 86_400, httponly=True, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE
        )
