"""Pages: the API keys of a pool, and one key: its secrets, its quota, its end. A secret is in one answer, and nowhere else."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from agents_app import keys
from agents_app.access import Role, get_pool, opens, person, require_role, roles_of
from agents_app.models import ApiKey, Pool
from agents_app.navigation import pools_of
from agents_app.views.forms import KeyForm, QuotaForm, RotationForm
from agents_app.views.settings import draw
from routerweb.pages.shown_errors import show_errors_in

#: So many of a key's last changes stand on its page.
HISTORY = 20


@require_role(Role.OPS)
@never_cache
@require_http_methods(["GET", "POST"])
def api_keys(request: HttpRequest, slug: str) -> HttpResponse:
    """The keys that open this pool; a new one's secret is in the answer to its making, and nowhere else, ever."""
    pool = get_pool(request, slug)
    operated = [each for each in pools_of(request) if Role.OPS in roles_of(request.user, each)]
    form = KeyForm(request.POST or None, pools=operated, initial={"pools": [pool.pk]})
    context: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        with show_errors_in(form, keys.KeyRefused):
            key, secret = keys.create_key(
                values["name"], values["pools"], values["scopes"], person(request), _in_days(values["days"])
            )
            # Of several pools the one that the page is about.
            first = pool if pool in values["pools"] else values["pools"][0]
            context = {"key": key, **_told(request, secret, first)}
            form = KeyForm(pools=operated, initial={"pools": [pool.pk]})
    now = timezone.now()
    rows = list(
        ApiKey.objects.filter(pools=pool)
        .select_related("created_by", "person")
        .prefetch_related("pools")
        .order_by("-created_at")
    )
    used, uses = keys.last_used([row.pk for row in rows]), keys.uses(rows)
    context |= {
        "form": form,
        "rows": [
            {
                "key": row,
                "state": _state(row, now),
                "used": used.get(row.pk),
                "pools": _opened(request, row),
                "operated": _operates_all(request, row),
                "soon": _ends_soon(row, now),
                "share": max((use.share for use in uses.get(row.pk, ())), default=None),
            }
            for row in rows
        ],
    }
    return draw(request, "agents_app/keys.html", "settings_keys", context, title=_("API keys"), pool=pool)


@require_role(Role.OPS)
@never_cache
@require_http_methods(["GET", "POST"])
def api_key(request: HttpRequest, slug: str, key_id: int) -> HttpResponse:
    """One key: what it opens, its secrets, what it may send in a month and has sent; the form sets the quota."""
    pool, key = _key(request, slug, key_id)
    form = None
    if request.method == "POST":
        _require_all(request, key)
        form = QuotaForm(request.POST)
        if form.is_valid():
            with show_errors_in(form, keys.KeyRefused):
                keys.set_quota(key, person(request), **form.cleaned_data)
                messages.success(request, _("The quota is saved. All processes apply it within two seconds."))
                return redirect("api_key", slug, key.pk)
    return _draw_key(request, pool, key, **({"quota_form": form} if form else {}))


@require_role(Role.OPS)
@never_cache
@require_POST
def key_rotate(request: HttpRequest, slug: str, key_id: int) -> HttpResponse:
    """A new secret for the key, shown once; the old one goes on for a while."""
    pool, key = _key(request, slug, key_id)
    _require_all(request, key)
    form = RotationForm(request.POST)
    if form.is_valid():
        values = form.cleaned_data
        with show_errors_in(form, keys.KeyRefused):
            secret = keys.rotate(key, person(request), grace=values["grace"], expires_at=_in_days(values["days"]))
            return _draw_key(request, pool, key, **_told(request, secret, pool))
    return _draw_key(request, pool, key, rotation_form=form)


@require_role(Role.OPS)
@require_POST
def key_end_old(request: HttpRequest, slug: str, key_id: int) -> HttpResponse:
    """End the old secret of a rotated key now."""
    _pool, key = _key(request, slug, key_id)
    _require_all(request, key)
    if keys.end_old_secret(key, person(request)):
        messages.success(request, _("The old secret of “%(name)s” has ended.") % {"name": key.name})
    else:
        messages.info(request, _("“%(name)s” has no old secret that works.") % {"name": key.name})
    return redirect("api_key", slug, key.pk)


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def key_revoke(request: HttpRequest, slug: str, key_id: int) -> HttpResponse:
    """What revoking a key would do; then do it. It cannot be undone: nobody has the secret any more."""
    pool, key = _key(request, slug, key_id)
    _require_all(request, key)
    if request.method == "POST" or key.revoked_at is not None:
        if key.revoked_at is None and keys.revoke(key, person(request)):
            messages.success(request, _("The key “%(name)s” is revoked.") % {"name": key.name})
        else:
            messages.info(request, _("The key “%(name)s” was revoked before.") % {"name": key.name})
        return redirect("settings_keys", slug)
    title = _("Revoke the key “%(name)s”?") % {"name": key.name}
    return draw(request, "agents_app/key_revoke.html", "settings_keys", {"key": key}, title=title, pool=pool)


def _key(request: HttpRequest, slug: str, key_id: int) -> tuple[Pool, ApiKey]:
    pool = get_pool(request, slug)
    keys_of_pool = ApiKey.objects.filter(pools=pool).select_related("created_by", "person").prefetch_related("pools")
    return pool, get_object_or_404(keys_of_pool, pk=key_id)


def _draw_key(request: HttpRequest, pool: Pool, key: ApiKey, **more: Any) -> HttpResponse:
    now = timezone.now()
    term = key.expires_at - (key.rotated_at or key.created_at) if key.expires_at else None
    quota = {"queries": key.monthly_queries, "characters": key.monthly_characters}
    operated = _operates_all(request, key)
    context = {
        "key": key,
        "state": _state(key, now),
        "soon": _ends_soon(key, now),
        "used": keys.last_used([key.pk]).get(key.pk),
        "pools": _opened(request, key),
        "operated": operated,
        "history": keys.history(key)[:HISTORY] if operated else (),
        "uses": keys.uses([key]).get(key.pk, []),
        "quota_form": QuotaForm(initial=quota),
        "rotation_form": RotationForm(
            initial={"grace": "24h", "days": round(term / timedelta(days=1)) or None if term else None}
        ),
        "address": reverse("api_key", args=(pool.slug, key.pk)),
    }
    title = _("Key “%(name)s”") % {"name": key.name}
    return draw(request, "agents_app/key.html", "settings_keys", context | more, title=title, pool=pool)


def _told(request: HttpRequest, secret: str, pool: Pool) -> dict[str, Any]:
    """What is shown of a secret, once."""
    return {
        "secret": secret,
        "endpoint": request.build_absolute_uri("/api/route/"),
        "traces_endpoint": request.build_absolute_uri(f"/v1/traces?pool={pool.slug}"),
        "body": f'{{"query": "…", "pool": "{pool.slug}"}}',
    }


def _in_days(days: int | None) -> datetime | None:
    return timezone.now() + timedelta(days=days) if days else None


def _ends_soon(key: ApiKey, now: datetime) -> bool:
    return _state(key, now) == "active" and key.expires_at is not None and key.expires_at - now <= keys.EXPIRES_SOON


def _opened(request: HttpRequest, key: ApiKey) -> list[str]:
    """The pools of a key that the person may know of."""
    return [each.name for each in key.pools.all() if opens(request.user, each)]


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if any(maker is not None and not maker.is_active for maker in (key.created_by, key.person)):
        return "stopped"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "active"


def _operates_all(request: HttpRequest, key: ApiKey) -> bool:
    """Whether the person may change a key: that counts in all its pools."""
    return all(Role.OPS in roles_of(request.user, each) for each in key.pools.all())


def _require_all(request: HttpRequest, key: ApiKey) -> None:
    if not _operates_all(request, key):
        raise PermissionDenied(
            _("This key also gives access to other pools. Only ops of all its pools can change or revoke it.")
        )
