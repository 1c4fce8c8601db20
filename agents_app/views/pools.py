"""Pages: every pool with its state; one is archived, deleted by its typed name, and brought back."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app import archive
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.checks import PoolError
from agents_app.models import Pool
from agents_app.pools import set_four_eyes
from agents_app.views.forms import PoolDeletionForm
from agents_app.views.settings import draw
from routerweb.http import page
from routerweb.pages.shown_errors import show_errors_in


@require_role(Role.OPS, anywhere=True)
@require_GET
def pools(request: HttpRequest) -> HttpResponse:
    """Every pool that the person operates: those in use first, then the archived and the deleted ones, with the way back."""
    mine = [pool for pool in Pool.objects.defer("guidelines") if Role.OPS in roles_of(request.user, pool)]
    ordered = sorted(mine, key=lambda pool: ("active", "archived", "deleted").index(pool.state))
    rows = [(pool, archive.purged_at(pool)) for pool in ordered]
    return page(
        request,
        "agents_app/pools.html",
        {"rows": rows, "may_make": Role.OPS in roles_of(request.user)},
        title=_("Pools"),
    )


@require_role(Role.OPS)
@require_POST
def pool_four_eyes(request: HttpRequest, slug: str) -> HttpResponse:
    """Promotions need a second person with `on=1`. Only an admin turns it off: ops would promote alone after one click."""
    pool, on = get_pool(request, slug), request.POST.get("on") == "1"
    if not on and Role.ADMIN not in roles_of(request.user):
        raise PermissionDenied(_("Only an admin can let one person promote alone again."))
    had_four = pool.four_eyes
    set_four_eyes(pool, on, actor=person(request))
    if on != had_four:
        messages.success(request, _("Promotions need a second person.") if on else _("One person promotes alone."))
    return redirect("settings_pool", slug)


@require_role(Role.OPS)
@require_POST
def pool_archive(request: HttpRequest, slug: str) -> HttpResponse:
    """Put the pool away; `pool_restore` undoes it."""
    pool = archive.archive(get_pool(request, slug), actor=person(request))
    messages.success(
        request,
        _("“%(pool)s” is archived.") % {"pool": pool.name},
        extra_tags="undo:" + reverse("pool_restore", args=(slug,)),
    )
    return redirect("pools")


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def pool_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """What goes with the pool, with counts; then, its name typed, delete it. `pool_restore` undoes that for 30 days."""
    pool = get_pool(request, slug)
    form = PoolDeletionForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, PoolError, field="typed"):
            archive.delete(pool, form.cleaned_data["typed"], actor=person(request))
            day = formats.date_format(timezone.localtime(archive.purged_at(pool)))
            messages.success(
                request,
                _("“%(pool)s” is deleted. You can restore it until %(day)s.") % {"pool": pool.name, "day": day},
                extra_tags="undo:" + reverse("pool_restore", args=(slug,)),
            )
            return redirect("pools")
    context = {"form": form, "holds": archive.holds(pool), "days": archive.KEPT.days}
    title = _("Delete the pool “%(name)s”?") % {"name": pool.name}
    return draw(request, "agents_app/pool_delete.html", "settings_pool", context, title=title, pool=pool)


@require_role(Role.OPS, put_away=True)
@require_POST
def pool_restore(request: HttpRequest, slug: str) -> HttpResponse:
    """Take an archived or deleted pool into use again."""
    pool = archive.bring_back(get_pool(request, slug), actor=person(request))
    messages.success(request, _("“%(pool)s” is in use again, with its API keys.") % {"pool": pool.name})
    return redirect("pools")
