"""Who may do what: four roles as Django groups, three of them in single pools too, and the look-ups by which pages check them.

A labeler labels. A reviewer also adjudicates, browses and imports. Ops train, promote, watch and may label. An admin does all of it
and invites people. Each but the admin's may also be given in one pool alone (`PoolRole`): its pages, and no list of the admin site,
which shows all pools. A page's access check is its look-up: it returns the pool or answers 404 or 403.
"""

from collections.abc import Callable, Collection
from enum import StrEnum
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import Value
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import resolve
from django.utils.translation import gettext as _

from agents_app.models import Pool, PoolRole


class Role(StrEnum):
    LABELER = "labeler"
    REVIEWER = "reviewer"
    OPS = "ops"
    ADMIN = "admin"


IMPLIED: dict[Role, frozenset[Role]] = {
    Role.LABELER: frozenset({Role.LABELER}),
    Role.REVIEWER: frozenset({Role.LABELER, Role.REVIEWER}),
    Role.OPS: frozenset({Role.LABELER, Role.OPS}),
    Role.ADMIN: frozenset(Role),
}


def roles_of(user: Any, pool: Pool | str | int | None = None) -> frozenset[Role]:
    """All roles that a signed-in user has for all pools, and in `pool` (itself, its slug or its key) where one is given; those that
    follow from others included. Read from the database once a request."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    if user.is_superuser:
        return frozenset(Role)
    held = _held(user)
    return held.get(None, frozenset()) | held.get(pool.pk if isinstance(pool, Pool) else pool, frozenset())


def roles_anywhere(user: Any) -> frozenset[Role]:
    """The roles that a user has for all pools or in any of them."""
    for_all = roles_of(user)
    if not user.is_authenticated or not user.is_active or for_all == frozenset(Role):
        return for_all
    return for_all.union(*_held(user).values())


def opens(user: Any, pool: Pool) -> bool:
    """Whether a person has any role in a pool."""
    return bool(roles_of(user, pool))


def _held(user: Any) -> dict[str | int | None, frozenset[Role]]:
    """The roles of a user by pool, each under its key and its slug; those for all pools under None. One query."""
    if not hasattr(user, "_routerweb_roles"):
        of_group = user.groups.filter(name__in=list(Role)).values_list(
            "name", Value(None, models.BigIntegerField()), Value("", models.CharField())
        )
        in_pools = PoolRole.objects.filter(user=user).order_by().values_list("role", "pool_id", "pool__slug")
        held: dict[str | int | None, frozenset[Role]] = {}
        for name, pool, slug in of_group.union(in_pools, all=True):
            for where in (pool, slug) if slug else (None,):
                held[where] = held.get(where, frozenset()) | IMPLIED[Role(name)]
        user._routerweb_roles = held
    roles: dict[str | int | None, frozenset[Role]] = user._routerweb_roles
    return roles


def require_role(
    *roles: Role, anywhere: bool = False, put_away: bool = False
) -> Callable[[Callable[..., HttpResponseBase]], Callable[..., HttpResponseBase]]:
    """A view that only people with one of `roles` may open: others are asked to sign in, or answered 403.

    In a pool's address, its `slug`, a role in that pool is as good as one for all. Elsewhere only the latter counts, but for a view
    that is for whoever has the role `anywhere`.

    Of an archived pool pages are only read, and those of labeling not at all; those of a deleted one are gone (410). A view with
    `put_away` is open to such pools too: it brings them back.
    """

    def decorate(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        def allows(user: Any, slug: str | None) -> bool:
            held = roles_anywhere(user) if anywhere else roles_of(user, slug)
            return bool(held & set(roles))

        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not allows(request.user, kwargs.get("slug")):
                raise PermissionDenied(_("Your role may not open this page. Ask an admin for access."))
            gone = None
            if "slug" in kwargs and not put_away:
                gone = _put_away(get_pool(request, kwargs["slug"]), request, roles)
            return gone or view(request, *args, **kwargs)

        checked.allows = allows  # type: ignore[attr-defined]  # what `may_open` asks
        return login_required(checked)

    return decorate


def may_open(user: Any, address: str) -> bool:
    """Whether a page's roles let this person in; True for an address whose view has none."""
    match = resolve(address)
    allows = getattr(match.func, "allows", None)
    return allows is None or allows(user, match.kwargs.get("slug"))


def get_pool(request: HttpRequest, slug: str) -> Pool:
    """The pool of that slug, or 404; read once a request."""
    pool: Pool | None = getattr(request, "_routerweb_pool", None)
    if pool is None or pool.slug != slug:
        pool = request._routerweb_pool = get_object_or_404(Pool, slug=slug)  # type: ignore[attr-defined]
    return pool


def _put_away(pool: Pool, request: HttpRequest, roles: Collection[Role]) -> HttpResponse | None:
    """What is answered instead of a page of a deleted pool. Raises PermissionDenied in an archived one where something changes."""
    if pool.deleted_at is not None:
        return render(request, "410.html", {"pool": pool}, status=410)
    if pool.archived_at is not None and (request.method not in ("GET", "HEAD") or set(roles) == {Role.LABELER}):
        message = _(
            "The pool “%(pool)s” is archived: it can be read, and nothing is changed in it. Ops can bring it back."
        )
        raise PermissionDenied(message % {"pool": pool.name})
    return None


def person(request: HttpRequest) -> User:
    """The signed-in person; for views behind `require_role`, where nobody else arrives."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user
