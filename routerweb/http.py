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
    return render(request, template, {**shell, "title": title, "crumbs": crumbs, **context}, status=status)
