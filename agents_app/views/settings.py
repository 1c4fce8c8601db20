"""Pages: a pool's settings, in sections. Guidelines are the reviewers', details are ops'."""

from collections.abc import Collection
from typing import Any, NamedTuple

from django.conf import settings as conf
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from unfold.dataclasses import SearchResult

from agents_app import pools
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.guidelines import rendered
from agents_app.models import Pool
from agents_app.navigation import FINDS, current_pool, says
from agents_app.pools import PoolError
from agents_app.views.forms import GuidelinesForm, PoolDetailsForm
from routerweb import hooks
from routerweb.http import page, wants_fragment
from routerweb.pages.shown_errors import show_errors_in


class Section(NamedTuple):
    """A section of the settings: its page's URL name, its title, and who opens it. One that another package adds stands behind the
    section with the URL name `after`."""

    name: str
    title: str
    roles: Collection[Role]
    after: str = ""


def sections(request: HttpRequest, here: str, pool: Pool | None = None) -> list[tuple[str, str, bool]]:
    """(title, address, is this one) of each section of the settings that the person's role opens."""
    pool = pool or current_pool(request)
    every = [
        Section("settings", _("Guidelines"), {Role.REVIEWER, Role.OPS}),
        Section("settings_queue", _("Queue"), {Role.REVIEWER, Role.OPS}),
        Section("prelabel", _("Pre-labeling"), {Role.REVIEWER, Role.OPS}),
        Section("settings_live", _("Live traffic"), {Role.OPS}),
        Section("settings_allowed_sets", _("Allowed sets"), {Role.OPS}),
        Section("settings_keys", _("API keys"), {Role.OPS}),
        Section("settings_alarms", _("Alarms"), {Role.OPS}),
        Section("settings_privacy", _("Privacy"), {Role.OPS}),
        Section("people", _("People"), {Role.OPS}),
        Section("settings_llm", _("LLM"), {Role.ADMIN}),
        Section("settings_pool", _("Pool"), {Role.OPS}),
        Section("audit", _("Audit trail"), {Role.OPS}),
    ]
    for section in (section for added in hooks.settings_sections() for section in added):
        every.insert(1 + [before.name for before in every].index(section.after), section)
    here_too, for_all = roles_of(request.user, pool), roles_of(request.user)
    entries = []
    for name, title, roles, _after in every:
        # The audit trail and the LLM are the whole site's.
        if not set(roles) & (for_all if name in ("audit", "settings_llm") else here_too):
            continue
        for arguments in ([pool.slug] if pool else [], []):
            try:
                entries.append((title, reverse(name, args=arguments), name == here))
                break
            except NoReverseMatch:
                continue
    return entries


def find(request: HttpRequest, pool: Pool, term: str) -> list[SearchResult]:
    """The sections of the settings that the command search finds."""
    results = [(title, address) for title, address, _here in sections(request, "", pool) if says(term, title)]
    return [SearchResult(title, _("Settings"), address, "settings") for title, address in results]


FINDS.append(find)


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
        with show_errors_in(form, PoolError):
            pools.update_pool(pool, actor=person(request), **form.cleaned_data)
            messages.success(request, _("The pool was saved."))
            return redirect("settings_pool", slug)
    context = {
        "form": form,
        "four_eyes_everywhere": conf.FOUR_EYES,
        "may_turn_off": Role.ADMIN in roles_of(request.user),
    }
    return draw(request, "agents_app/pool_details.html", "settings_pool", context, title=_("Pool"), pool=pool)
