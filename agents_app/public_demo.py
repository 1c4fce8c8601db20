"""A public demo (`DEMO=1`): whoever comes is a visitor who may open every page of the demo's pools and try routing and labeling.

All other requests that would change something are refused, and each hour the database is set back to what it was when the demo
was ready.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import MiddlewareNotUsed, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from agents_app.access import Role

VISITOR = "visitor"
SAFE = ("GET", "HEAD", "OPTIONS")
#: The addresses at which a visitor may try something, by the beginnings of their names: what labels change lasts until the next hour.
TRIES = ("playground", "label", "reask")
#: A visitor's notes and other people's places are no part of that.
NO_TRIES = ("label_note", "label_release")
#: Here whoever keeps the demo signs in, so nobody is a visitor.
SIGN_IN = ("account_login", "mfa_authenticate", "setup", "password_reset_confirm", "admin_password_reset")


#: What is said of people, and the shared account itself, is nobody's to look at; of the admin site only its search is open.
CLOSED = ("people", "person", "provisioning", "scim", "audit", "account", "sessions", "second_factor", "recovery")


class PublicDemo:
    """Middleware behind all that asks who somebody is: makes strangers the visitor, and refuses what a visitor may not do."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not settings.DEMO:
            raise MiddlewareNotUsed
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        """Raises PermissionDenied for a visitor's request that is no try."""
        match = request.resolver_match
        name = (match.url_name if match else "") or ""
        if request.user.is_authenticated or name in SIGN_IN:
            return
        visitor = User.objects.filter(username=VISITOR, is_active=True).first()
        if visitor is None:
            return
        request.user = visitor
        request.is_visitor = True  # type: ignore[attr-defined]
        if name.startswith(CLOSED) or (match and "admin" in match.namespaces and name != "search"):
            raise PermissionDenied(_("This page is closed in the public demo."))
        if request.method not in SAFE and (not name.startswith(TRIES) or name in NO_TRIES):
            raise PermissionDenied(
                _(
                    "This is a public demo: you may look at everything, route and label, but not change this. Start your own to do so."
                )
            )


def make_visitor() -> User:
    """The account that all visitors share: it opens every pool, has no password and no rights in the admin's lists of people."""
    user, _made = User.objects.get_or_create(username=VISITOR, defaults={"is_staff": True})
    user.set_unusable_password()
    user.save()
    user.groups.set(Group.objects.filter(name__in=[Role.LABELER, Role.REVIEWER, Role.OPS]))
    return user


def key() -> str:
    """The demo's key, which may only route, for visitors to try; "" where this is no public demo."""
    if not settings.DEMO:
        return ""
    try:
        return str(json.loads((Path(settings.DATA_DIR) / "demo.json").read_text("utf-8"))["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def copy_path() -> Path:
    """Where the database of the demo as it was when it was ready is kept."""
    return Path(settings.DATA_DIR) / "demo-as-it-was.sqlite3"


def keep_copy() -> None:
    """Keep the database as it is now, to set it back to."""
    part = copy_path().with_suffix(".part")
    part.unlink(missing_ok=True)
    _copy(Path(settings.DATABASES["default"]["NAME"]), part)
    part.replace(copy_path())


def set_back() -> None:
    """Make the database what it was when the copy was kept, in one transaction that waits for others. Raises sqlite3.Error."""
    _copy(copy_path(), Path(settings.DATABASES["default"]["NAME"]))


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target, timeout=60)) as written:
        read.backup(written)
