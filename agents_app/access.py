"""Who may do what: four roles as Django groups, and the look-ups by which pages check them.

A labeler labels. A reviewer also adjudicates, browses and imports. Ops train, promote and watch. An admin does all of it and
invites people. A page's access check is its look-up: it returns the pool or answers 404 or 403.
"""

from collections.abc import Callable, Collection
from enum import StrEnum
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _

from agents_app.models import Pool


class Role(StrEnum):
    LABELER = "labeler"
    REVIEWER = "reviewer"
    OPS = "ops"
    ADMIN = "admin"


IMPLIED: dict[Role, frozenset[Role]] = {
    Role.LABELER: frozenset({Role.LABELER}),
    Role.REVIEWER: frozenset({Role.LABELER, Role.REVIEWER}),
    Role.OPS: frozenset({Role.OPS}),
    Role.ADMIN: frozenset(Role),
}


def roles_of(user: Any) -> frozenset[Role]:
    """All roles that a signed-in user has, those that follow from others included; read from the database once a request."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    if user.is_superuser:
        return frozenset(Role)
    if not hasattr(user, "_routerweb_roles"):
        names = set(user.groups.values_list("name", flat=True)) & set(Role)
        user._routerweb_roles = frozenset().union(*(IMPLIED[Role(name)] for name in names))
    roles: frozenset[Role] = user._routerweb_roles
    return roles


def require_role(
    *roles: Role, put_away: bool = False
) -> Callable[[Callable[..., HttpResponseBase]], Callable[..., HttpResponseBase]]:
    """A view that only people with one of `roles` may open: others are asked to sign in, or answered 403.

    Of an archived pool pages are only read, and those of labeling not at all; those of a deleted one are gone (410). A view with
    `put_away` is open to such pools too: it brings them back.
    """

    def decorate(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not roles_of(request.user) & set(roles):
                raise PermissionDenied(_("Your role does not open this page. Ask an admin of this site for it."))
            gone = None
            if "slug" in kwargs and not put_away:
                gone = _put_away(get_pool(request, kwargs["slug"]), request, roles)
            return gone or view(request, *args, **kwargs)

        return login_required(checked)

    return decorate


def get_pool(request: HttpRequest, slug: str) -> Pool:
    """The pool of that slug, or 404; read once a request."""
    known: Pool | None = getattr(request, "_routerweb_pool", None)
    if known is None or known.slug != slug:
        known = request._routerweb_pool = get_object_or_404(Pool, slug=slug)  # type: ignore[attr-defined]
    return known


def _put_away(pool: Pool, request: HttpRequest, roles: Collection[Role]) -> HttpResponse | None:
    """What is answered instead of a page of a deleted pool. Raises PermissionDenied in an archived one where something changes."""
    if pool.deleted_at is not None:
        return render(request, "410.html", {"pool": pool}, status=410)
    if pool.archived_at is not None and (request.method not in ("GET", "HEAD") or set(roles) == {Role.LABELER}):
        said = _(
            "The pool “%(pool)s” is archived: it can be read, and nothing is changed in it. Ops can bring it back."
        )
        raise PermissionDenied(said % {"pool": pool.name})
    return None


def person(request: HttpRequest) -> User:
    """The signed-in person; for views behind `require_role`, where nobody else arrives."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user
