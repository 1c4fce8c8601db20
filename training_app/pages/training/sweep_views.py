"""Pages of sweeps: the list, the form that launches one, and its results, live while its runs train."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Pool
from routerweb.http import page
from routerweb.pages.shown_errors import show_errors_in
from training_app.models import Run, Sweep
from training_app.pages.training import sweep_pictures
from training_app.pages.training.launch_form import SweepForm
from training_app.training import runs, sweeps

ROWS = 25
UNENDED = Q(runs__status__in=sweeps.UNENDED)


@require_GET
@require_role(Role.OPS)
def sweep_list(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's sweeps, newest first."""
    pool = get_pool(request, slug)
    sweeps_of_pool = Sweep.objects.filter(pool=pool).select_related("pool", "snapshot__pool", "author")
    done = Count("runs", filter=Q(runs__status=Run.Status.DONE))
    counted = sweeps_of_pool.annotate(count=Count("runs"), done=done, going=Count("runs", filter=UNENDED)).order_by(
        "-pk"
    )
    rows = Paginator(counted, ROWS).get_page(request.GET.get("page"))
    context = {"pool": pool, "rows": [(sweep, sweeps.written(sweep.space)) for sweep in rows], "page_of_rows": rows}
    return page(request, "training_app/sweeps.html", context, title=_("Sweeps"), crumbs=_crumbs(pool)[:2])


@require_http_methods(["GET", "POST"])
@require_role(Role.OPS)
def sweep_new(request: HttpRequest, slug: str) -> HttpResponse:
    """The form that launches a sweep; an HTMX request gets how many runs it would be, or what is wrong."""
    pool = get_pool(request, slug)
    if request.headers.get("HX-Request") and request.method == "GET":
        form = SweepForm(pool, request.GET)
        form.is_valid()
        return render(request, "training_app/_sweep_preview.html", {"form": form})
    form = SweepForm(pool, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, runs.RunError, field="snapshot"):
            sweep = sweeps.launch(
                pool,
                base=form.config(),
                snapshot=form.cleaned_data["snapshot"],
                author=person(request),
                **form.wanted(form.cleaned_data),
            )
            text = ngettext("%(count)d run is queued.", "%(count)d runs are queued.", form.planned)
            messages.success(request, text % {"count": form.planned})
            return redirect("run_sweep", slug, sweep.pk)
    context = {"pool": pool, "form": form}
    status = 422 if form.errors else 200
    return page(
        request, "training_app/sweep_new.html", context, title=_("Start a sweep"), crumbs=_crumbs(pool), status=status
    )


@require_GET
@require_role(Role.OPS)
def sweep_detail(request: HttpRequest, slug: str, sweep_id: int) -> HttpResponse:
    """A sweep's runs by validation Jaccard; `?sort=` sorts by another column. An HTMX request gets the part that changes."""
    sweep = _sweep(request, slug, sweep_id)
    results = sweeps.results(sweep)
    sort = request.GET.get("sort") or "-validation"
    going = sum(not row.run.ended for row in results)
    context: dict[str, Any] = {
        "pool": sweep.pool,
        "sweep": sweep,
        "space": sweeps.written(sweep.space),
        "varied": list(sweep.space),
        "rows": sweeps.ranked(results, sort.removeprefix("-"), sort.startswith("-")),
        "best": next((row for row in results if row.best), None),
        "several": "seed" in sweep.space and len(sweep.space) > 1,
        "going": going,
        "done": sum(row.run.status == Run.Status.DONE for row in results),
        "pictures": sweep_pictures.by_setting(sweep, results),
    }
    if request.headers.get("HX-Request"):
        response = render(request, "training_app/_sweep_results.html", context)
        if not going:
            response["HX-Refresh"] = "true"
        return response
    title = _("Sweep %(number)d") % {"number": sweep.pk}
    return page(request, "training_app/sweep.html", context, title=title, crumbs=_crumbs(sweep.pool))


@require_POST
@require_role(Role.OPS)
def sweep_cancel(request: HttpRequest, slug: str, sweep_id: int) -> HttpResponse:
    """End every run of the sweep that has not ended."""
    sweep = _sweep(request, slug, sweep_id)
    ended = sweeps.cancel(sweep, actor=person(request))
    text = ngettext("%(count)d run is cancelled.", "%(count)d runs are cancelled.", ended) % {"count": ended}
    messages.success(request, text)
    return redirect("run_sweep", slug, sweep_id)


def _sweep(request: HttpRequest, slug: str, sweep_id: int) -> Sweep:
    sweeps = Sweep.objects.select_related("pool", "snapshot__pool", "author")
    return get_object_or_404(sweeps, pool=get_pool(request, slug), pk=sweep_id)


def _crumbs(pool: Pool) -> list[tuple[str, str]]:
    sweeps_of = (_("Sweeps"), reverse("run_sweeps", args=[pool.slug]))
    return [(pool.name, reverse("home")), (_("Runs"), reverse("runs", args=[pool.slug])), sweeps_of]
