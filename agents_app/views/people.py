"""Pages: the people of this site, and the trail of what they did. Both are the site's, not a pool's."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.accounts import people as accounts
from agents_app.accounts import personal, second_factor, sessions
from agents_app.accounts.people import PeopleError
from agents_app.models import AuditEntry, PoolRole
from agents_app.navigation import pools_of
from agents_app.views.forms import ROLE_CHOICES, InviteForm, PoolRoleForm, RoleForm
from agents_app.views.settings import draw
from routerweb.pages import parameters
from routerweb.pages.downloads import download
from routerweb.pages.shown_errors import show_errors, show_errors_in

PAGE = 50
EXPORTED_AT_ONCE = 500


def _base_url(request: HttpRequest) -> str:
    return request.build_absolute_uri("/")


def _get_user(user_id: int) -> User:
    return get_object_or_404(User.objects.prefetch_related("groups"), pk=user_id)


@require_role(Role.ADMIN, Role.OPS, anywhere=True)
@never_cache
@require_http_methods(["GET", "POST"])
def people(request: HttpRequest) -> HttpResponse:
    """A form that invites somebody, whose link is shown for delivery by hand. Ops invite labelers; admins see everybody below."""
    form = InviteForm(request.POST or None, inviter=request.user)
    invitation = None
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        with show_errors_in(form, PeopleError, field="email"):
            invitation = accounts.invite(
                values["email"], values["role"], person(request), base_url=_base_url(request), pool=values["pool"]
            )
            form = InviteForm(inviter=request.user)
    return _draw_people(request, form, invitation)


def _draw_people(request: HttpRequest, form: InviteForm, invitation: accounts.Invitation | None = None) -> HttpResponse:
    context: dict[str, Any] = {"form": form, "invitation": invitation}
    if Role.ADMIN in roles_of(request.user):
        context |= _everybody(request)
    return draw(request, "agents_app/people.html", "people", context, title=_("People"), pool=None)


def _everybody(request: HttpRequest) -> dict[str, Any]:
    everybody = User.objects.prefetch_related("groups", "pool_roles__pool").order_by("-is_active", "username")
    text = request.GET.get("q", "").strip()
    if text:
        everybody = everybody.filter(
            Q(username__icontains=text) | Q(first_name__icontains=text) | Q(last_name__icontains=text)
        )
    rows = Paginator(everybody, PAGE).get_page(request.GET.get("page"))
    users = list(rows)
    signed_in, with_second = sessions.live(users), second_factor.has_them(users)
    return {
        "rows": rows,
        "people": [
            (user, accounts.role_of(user), _state(user), user.pk in with_second, signed_in.get(user.pk, 0))
            for user in users
        ],
        "roles": ROLE_CHOICES,
        "pool_roles": PoolRole.Role.choices,
        "pools": pools_of(request),
        "text": text,
    }


def _state(user: User) -> str:
    if accounts.is_former(user):
        return "erased"
    if not user.is_active:
        return "deactivated"
    return "active" if user.has_usable_password() or user.last_login else "invited"


@require_role(Role.ADMIN)
@never_cache
@require_POST
def person_link(request: HttpRequest, user_id: int) -> HttpResponse:
    """A new set-password link for a person, shown once and mailed where mail is set up."""
    with show_errors(request, PeopleError):
        invitation = accounts.new_link(_get_user(user_id), person(request), base_url=_base_url(request))
        return _draw_people(request, InviteForm(inviter=request.user), invitation)
    return redirect("people")


@require_role(Role.ADMIN)
@require_POST
def person_role(request: HttpRequest, user_id: int) -> HttpResponse:
    """Give a person another role."""
    user, form = _get_user(user_id), RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Choose one of the roles in the list."))
        return redirect("people")
    with show_errors(request, PeopleError):
        accounts.set_role(user, form.cleaned_data["role"], person(request))
        role = dict(ROLE_CHOICES).get(form.cleaned_data["role"])
        message = _("%(person)s is now %(role)s.") if role else _("%(person)s no longer has a role in all pools.")
        messages.success(request, message % {"person": user.get_username(), "role": role})
    return redirect("people")


@require_role(Role.ADMIN)
@require_POST
def person_pool_role(request: HttpRequest, user_id: int) -> HttpResponse:
    """Give a person a role in one pool, or take it away."""
    user, form = _get_user(user_id), PoolRoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Choose a pool, and one of the roles in the list."))
        return redirect("people")
    pool, role = get_pool(request, form.cleaned_data["pool"]), form.cleaned_data["role"]
    with show_errors(request, PeopleError):
        accounts.set_pool_role(user, pool, role, person(request))
        word = dict(PoolRole.Role.choices).get(role)
        message = (
            _("%(person)s is now %(role)s in %(pool)s.")
            if role
            else _("%(person)s has no role of its own in %(pool)s.")
        )
        messages.success(request, message % {"person": user.get_username(), "role": word, "pool": pool.name})
    return redirect("people")


@require_role(Role.ADMIN)
@require_POST
def person_deactivate(request: HttpRequest, user_id: int) -> HttpResponse:
    """Close an account; `person_activate` undoes it."""
    user = _get_user(user_id)
    with show_errors(request, PeopleError):
        accounts.deactivate(user, person(request))
        message = _("%(person)s can no longer sign in. Their labels stay.") % {"person": user.get_username()}
        if stopped := ", ".join(key.name for key in accounts.keys_of(user)):
            message += " " + _("Their API keys have stopped until they are reactivated: %(keys)s.") % {"keys": stopped}
        messages.success(request, message, extra_tags="undo:" + reverse("person_activate", args=(user.pk,)))
    return redirect("people")


@require_role(Role.ADMIN)
@require_POST
def person_activate(request: HttpRequest, user_id: int) -> HttpResponse:
    """Open a closed account again."""
    with show_errors(request, PeopleError):
        user = accounts.reactivate(_get_user(user_id), person(request))
        messages.success(request, _("%(person)s can sign in again.") % {"person": user.get_username()})
    return redirect("people")


@require_role(Role.ADMIN)
@require_POST
def person_sessions(request: HttpRequest, user_id: int) -> HttpResponse:
    """Sign a person out everywhere."""
    user = _get_user(user_id)
    count = sessions.end_by(user, person(request))
    message = ngettext("%(n)d session of %(person)s was ended.", "%(n)d sessions of %(person)s were ended.", count)
    messages.success(request, message % {"n": count, "person": user.get_username()})
    return redirect("people")


@require_role(Role.ADMIN)
@require_POST
def person_second_factor(request: HttpRequest, user_id: int) -> HttpResponse:
    """Take away the second factor of somebody who lost it."""
    user = _get_user(user_id)
    with show_errors(request, PeopleError):
        had_one = second_factor.reset(user, person(request))
        message = (
            _("The second factor of %(person)s is reset, and they are signed out everywhere.")
            if had_one
            else _("%(person)s has no second factor.")
        )
        messages.success(request, message % {"person": user.get_username()})
    return redirect("people")


@require_role(Role.ADMIN)
@never_cache
@require_http_methods(["GET", "POST"])
def person_data(request: HttpRequest, user_id: int) -> HttpResponse:
    """What is stored on a person, counted; a post with `sure` erases who they are. Their labels stay."""
    user = _get_user(user_id)
    if request.method == "POST" and request.POST.get("sure") == "1":
        with show_errors(request, PeopleError):
            former = personal.erase(user, person(request))
            message = _("Erased. What they labeled and did is that of “%(former)s” now.")
            messages.success(request, message % {"former": former})
            return redirect("people")
        return redirect("person_data", user_id)
    context = {"subject": user, "counts": personal.counts(user), "former": accounts.is_former(user)}
    title = _("Data of %(name)s") % {"name": user.get_username()}
    return draw(request, "agents_app/person_data.html", "people", context, title=title, pool=None)


@require_role(Role.ADMIN)
@require_POST
def person_data_file(request: HttpRequest, user_id: int) -> HttpResponseBase:
    """All that is stored on a person, as a file."""
    user = _get_user(user_id)
    return download([personal.export(user, person(request))], "application/zip", f"person-{user.pk}.zip")


@require_role(Role.OPS)
@require_GET
def audit(request: HttpRequest) -> HttpResponseBase:
    """Who did what, latest first: `?actor=`, `?action=` (or its noun, as `model.`), `?in=` (a pool's slug), `?from=` and `?to=` (days)
    filter, `?format=jsonl` exports what is left."""
    entries = AuditEntry.objects.select_related("pool")
    wanted = {name: request.GET.get(name, "").strip() for name in ("actor", "action", "in", "from", "to")}
    problems = []
    if wanted["actor"]:
        entries = entries.filter(actor_name__icontains=wanted["actor"])
    if wanted["action"]:
        entries = entries.filter(action__startswith=wanted["action"])
    if wanted["in"]:
        entries = entries.filter(pool__slug=wanted["in"])
    for name, lookup, days in (("from", "at__gte", 0), ("to", "at__lt", 1)):
        if not wanted[name]:
            continue
        day = parameters.day(wanted[name])
        if day is None:
            problems.append(_("“%(day)s” is not a date. Write it as 2026-01-31.") % {"day": wanted[name]})
        else:
            start = datetime.combine(day + timedelta(days=days), datetime.min.time())
            entries = entries.filter(**{lookup: timezone.make_aware(start)})
    if request.GET.get("format") == "jsonl" and not problems:
        return download(_lines(entries), "application/x-ndjson", "audit.jsonl")
    rows = Paginator(entries, PAGE).get_page(request.GET.get("page"))
    address = request.GET.copy()
    address["format"] = "jsonl"
    actions = list(AuditEntry.objects.order_by("action").values_list("action", flat=True).distinct())
    context: dict[str, Any] = {
        "rows": rows,
        "entries": [(entry, _said(entry.detail)) for entry in rows],
        "wanted": wanted,
        "actions": actions,
        "nouns": sorted({action.partition(".")[0] + "." for action in actions}),
        "export": f"?{address.urlencode()}",
        "pools": pools_of(request),
        "problems": problems,
        "filtered": any(wanted.values()),
    }
    return draw(request, "agents_app/audit.html", "audit", context, title=_("Audit trail"), pool=None)


def _said(detail: dict[str, Any]) -> list[tuple[str, str]]:
    """The details of an entry, each in words; what says nothing is left out."""
    lines = []
    for name, value in detail.items():
        if value in (None, "", [], {}):
            continue
        words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if isinstance(value, list):
            words = ", ".join(map(str, value))
        elif isinstance(value, bool):
            words = _("yes") if value else _("no")
        lines.append((name.replace("_", " "), words[:12] + "…" if name == "digest" else words))
    return lines


def _lines(entries: "QuerySet[AuditEntry]") -> Iterator[str]:
    columns = ("pk", "at", "actor_name", "action", "pool__slug", "target", "detail")
    last: tuple[Any, ...] | None = None
    while True:
        page = entries if last is None else entries.filter(Q(at__lt=last[1]) | Q(at=last[1], pk__lt=last[0]))
        rows = list(page.values_list(*columns)[:EXPORTED_AT_ONCE])
        for _pk, at, actor, action, pool, target, detail in rows:
            line = {
                "at": at.isoformat(),
                "actor": actor,
                "action": action,
                "pool": pool,
                "target": target,
                "detail": detail,
            }
            yield json.dumps(line, ensure_ascii=False) + "\n"
        if len(rows) < EXPORTED_AT_ONCE:
            return
        last = rows[-1]
