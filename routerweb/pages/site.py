"""The admin site, whose lists every page's sidebar shows."""

from typing import Any

from django.http import HttpRequest
from unfold.sites import UnfoldAdminSite


class Site(UnfoldAdminSite):
    """Unfold's, which works its lists out once a request: the sidebar, the shell and the first page ask for them one after another."""

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[dict[str, Any]]:
        lists: dict[str | None, list[dict[str, Any]]] = request.__dict__.setdefault("_routerweb_lists", {})
        if app_label not in lists:
            lists[app_label] = super().get_app_list(request, app_label)
        return lists[app_label]
