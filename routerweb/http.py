"""What every page shares: it is drawn inside the admin site's shell, with a title that says what and where."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

Crumb = tuple[str, str]


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
