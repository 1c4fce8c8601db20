"""Pages: a pool's settings, in sections. Guidelines are the reviewers', details are ops'."""

from typing import Any

from django.conf import settings as conf
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents_app import pools
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.guidelines import rendered
from agents_app.models import Pool
from agents_app.navigation import current_pool
from agents_app.pools import PoolError
from agents_app.views.forms import GuidelinesForm, PoolDetailsForm
from routerweb.http import page, wants_fragment


def sections(request: HttpRequest, here: str, pool: Pool | None = None) -> list[tuple[str, str, bool]]:
    """(title, address, is this one) of each section of the settings that the person's role opens."""
    pool = pool or current_pool(request)
    every = (
        ("settings", _("Guidelines"), {Role.REVIEWER, Role.OPS}),
        ("settings_queue", _("Queue"), {Role.REVIEWER, Role.OPS}),
        ("prelabel", _("Pre-labeling"), {Role.REVIEWER, Role.OPS}),
        ("settings_live", _("Live traffic"), {Role.OPS}),
        ("settings_executors", _("Executors"), {Role.OPS}),
        ("settings_backends", _("Backends"), {Role.OPS}),
        ("settings_keys", _("API keys"), {Role.OPS}),
        ("settings_alarms", _("Alarms"), {Role.OPS}),
        ("settings_privacy", _("Privacy"), {Role.OPS}),
        ("people", _("People"), {Role.ADMIN}),
        ("settings_pool", _("Pool"), {Role.OPS}),
        ("audit", _("Audit trail"), {Role.OPS}),
    )
    here_too, for_all = roles_of(request.user, pool), roles_of(request.user)
    found = []
    for name, title, roles in every:
        # The audit trail is the whole site's.
        if not roles & (for_all if name == "audit" else here_too):
            continue
        for arguments in ([pool.slug] if pool else [], []):
            try:
                found.append((title, reverse(name, args=arguments), name == here))
                break
            except NoReverseMatch:
                continue
    return found


def draw(
    request: HttpRequest, template: str, here: str, context: dict[str, Any], *, title: str, pool: Pool | None
) -> HttpResponse:
    """One section of the settings, with the way to the others."""
    pool = pool or current_pool(request)
    crumbs = [(_("Settings"), reverse("settings", args=(pool.slug,)))] if pool else []
    if pool:
        crumbs.insert(0, (pool.name, reverse("settings", args=(pool.slug,))))
    return page(
        request,
        template,
        {"sections": sections(request, here, pool), "pool": pool, **context},
        title=title,
        crumbs=crumbs,
    )


@require_role(Role.REVIEWER, Role.OPS)
@require_http_methods(["GET", "POST"])
def guidelines(request: HttpRequest, slug: str) -> HttpResponse:
    """The labeling guidelines as Markdown with a preview; `preview` in the form only shows what it would look like."""
    pool = get_pool(request, slug)
    form = GuidelinesForm(request.POST or None, initial={"guidelines": pool.guidelines})
    preview = pool.guidelines
    if request.method == "POST" and form.is_valid():
        preview = form.cleaned_data["guidelines"]
        if wants_fragment(request):
            return render(request, "agents_app/guidelines_preview.html", {"preview": rendered(preview)})
        if "preview" not in request.POST:
            pools.set_guidelines(pool, preview, actor=person(request))
            messages.success(request, _("The guidelines were saved."))
            return redirect("settings", slug)
    context = {"form": form, "preview": rendered(preview)}
    return draw(request, "agents_app/guidelines.html", "settings", context, title=_("Guidelines"), pool=pool)


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def pool_details(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's name and description; its slug stays, because applications and addresses use it."""
    pool = get_pool(request, slug)
    form = PoolDetailsForm(
        request.POST or None, initial={"name": pool.name, "description": pool.description, "currency": pool.currency}
    )
    if request.method == "POST" and form.is_valid():
        try:
            pools.update_pool(pool, actor=person(request), **form.cleaned_data)
        except PoolError as error:
            form.add_error(error.field if error.field in form.fields else None, str(error))
        else:
            messages.success(request, _("The pool was saved."))
            return redirect("settings_pool", slug)
    context = {
        "form": form,
        "four_eyes_everywhere": conf.FOUR_EYES,
        "may_turn_off": Role.ADMIN in roles_of(request.user),
    }
    return draw(request, "agents_app/pool_details.html", "settings_pool", context, title=_("Pool"), pool=pool)
