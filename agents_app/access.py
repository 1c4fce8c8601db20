"""Who may do what: four roles as Django groups, and the look-ups by which pages check them.

A labeler labels. A reviewer also adjudicates, browses and imports. Ops train, promote and watch. An admin does all of it and
invites people. A page's access check is its look-up: it returns the pool or answers 404 or 403.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
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


def require_role(*roles: Role) -> Callable[[Callable[..., HttpResponseBase]], Callable[..., HttpResponseBase]]:
    """A view that only people with one of `roles` may open: others are asked to sign in, or answered 403."""

    def decorate(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not roles_of(request.user) & set(roles):
                raise PermissionDenied(_("Your role does not open this page. Ask an admin of this site for it."))
            return view(request, *args, **kwargs)

        return login_required(checked)

    return decorate


def get_pool(slug: str) -> Pool:
    """The pool of that slug, or 404."""
    return get_object_or_404(Pool, slug=slug)


def person(request: HttpRequest) -> User:
    """The signed-in person; for views behind `require_role`, where nobody else arrives."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user
