"""Pages of runs: the list, the form that launches one, and one run, live while it trains."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Pool
from datasets_app.models import Snapshot
from routerweb.http import page
from routerweb.pages import parameters
from routerweb.pages.shown_errors import show_errors
from training_app.engine.config import ConfigError
from training_app.models import SET_ROUTER, Checkpoint, RouterModel, Run
from training_app.pages import sorting
from training_app.pages.training import curves
from training_app.pages.training.launch_form import LaunchForm, initial_of, title_of
from training_app.pages.versions import scorecard_rows, scorecard_tables
from training_app.pages.versions.model_views import gate_context
from training_app.training import near_duplicates as near
from training_app.training import presets, previews, runs, stages
from training_app.versions import headlines, kinds, more_labels, registry, verdict

ROWS = 25
#: What the list sorts by, `?sort=` to the database's column; the first is the default, newest first.
SORTS = {
    "run": "pk",
    "status": "status",
    "snapshot": "snapshot__number",
    "exact": "exact",
    "launched": "created_at",
}


@require_GET
@require_role(Role.OPS)
def run_list(request: HttpRequest, slug: str) -> HttpResponse:
    """All runs of the pool, newest first; `?status=` filters, `?sort=` sorts."""
    pool = get_pool(request, slug)
    status = request.GET.get("status", "")
    runs = Run.objects.filter(pool=pool).select_related("snapshot__pool", "pool", "author")
    sort, order = sorting.order(request.GET.get("sort", ""), SORTS, "-run")
    if "exact" in sort:
        # Only figures of the same test queries compare: each snapshot's runs are sorted among themselves, as in the list of models.
        runs = runs.annotate(exact=headlines.figure_column("exact", "model__measured__"))
        order = [F("snapshot__number").desc(), *order]
    runs = runs.order_by(*order)
    if status in Run.Status.values:
        runs = runs.filter(status=status)
    rows = Paginator(runs, ROWS).get_page(request.GET.get("page"))
    models_of_runs = registry.models(pool).filter(run__in=list(rows))
    models = {model.run_id: model for model in verdict.for_list(headlines.with_headlines(list(models_of_runs)))}
    context = {
        "pool": pool,
        "rows": [(run, changed_settings(run), models.get(run.pk)) for run in rows],
        "page_of_rows": rows,
        "status": status,
        "sort": sort,
        "by_figure": "exact" in sort,
        "statuses": Run.Status.choices,
    }
    return page(request, "training_app/runs.html", context, title=_("Runs"), crumbs=[(pool.name, reverse("home"))])


@require_http_methods(["GET", "POST"])
@require_role(Role.OPS)
def run_new(request: HttpRequest, slug: str) -> HttpResponse:
    """The form that launches a run, of the kind that `?kind=` names. `?from=` takes another run's settings; an HTMX request gets the
    preview alone, and checks."""
    pool = get_pool(request, slug)
    kind = _kind(request, pool)
    data = request.POST if request.method == "POST" else None
    form = LaunchForm(kind, pool, data, initial=_initial(request, pool, kind))
    if request.method == "POST" and form.is_valid():
        try:
            run = runs.launch(
                pool,
                kind=kind.name,
                config=form.config(),
                snapshot=form.cleaned_data["snapshot"],
                promote=form.cleaned_data["promote"],
                include_llm=form.cleaned_data["include_llm"],
                author=person(request),
            )
        except ConfigError as error:
            form.add_error(error.field, error.reason)
        except runs.RunError as error:
            form.add_error("snapshot", str(error))
        else:
            messages.success(request, _("%(run)s is queued.") % {"run": run})
            return redirect("run", slug, run.pk)
    if request.headers.get("HX-Request"):
        return _preview(request, pool)
    chosen = _chosen_snapshot(request, pool)
    fields = (
        form.data if form.is_bound else {name: form[name].initial for name in previews.MATTERS if name in form.fields}
    )
    preview = previews.preview(pool, chosen, **_matters(fields))
    context = {
        "pool": pool,
        "form": form,
        "preview": preview,
        "kind": kind.name,
        **kind.material_of(pool),
        "kinds": [(name, each.label) for name, each in kinds.every().items()],
        "presets": presets.expected(pool, kind.presets, preview.queries, preview.agents),
        "preset": form.data.get("preset") or "full",
        "near_at": _near_address(pool, chosen),
    }
    crumbs = [(pool.name, reverse("home")), (_("Runs"), reverse("runs", args=[slug]))]
    status = 422 if form.errors else 200
    return page(request, "training_app/run_new.html", context, title=_("Train a model"), crumbs=crumbs, status=status)


def _preview(request: HttpRequest, pool: Pool) -> HttpResponse:
    """The preview for the settings in the address, with what is wrong with them. The near-duplicates are looked for apart."""
    chosen = _chosen_snapshot(request, pool)
    preview = previews.preview(pool, chosen, **_matters(request.GET))
    # Without the whole form there is nothing to check, only a snapshot to look at.
    kind = _kind(request, pool)
    wrong = LaunchForm(kind, pool, request.GET).errors if "seed" in request.GET else {}
    context = {
        "preview": preview,
        **kind.material_of(pool),
        "errors": [(title_of(name), errors[0]) for name, errors in wrong.items()],
        "near_at": _near_address(pool, chosen),
    }
    return render(request, "training_app/_preview.html", context)


def _kind(request: HttpRequest, pool: Pool) -> kinds.Kind:
    """The kind that the address asks for: by its name, or as that of another run."""
    kind, origin = request.GET.get("kind", ""), parameters.key(request.GET.get("from"))
    if origin is not None:
        kind = Run.objects.filter(pool=pool, pk=origin).values_list("kind", flat=True).first() or kind
    return kinds.every().get(kind) or kinds.of(SET_ROUTER)


def _matters(fields: Mapping[str, Any]) -> dict[str, bool]:
    return {name: bool(fields.get(name)) for name in previews.MATTERS}


def _near_address(pool: Pool, snapshot: Snapshot | None) -> str:
    return reverse("run_near", args=[pool.slug]) + (f"?snapshot={snapshot.pk}" if snapshot else "")


@require_GET
@require_role(Role.OPS)
def run_near(request: HttpRequest, slug: str) -> HttpResponse:
    """Near-duplicates across splits, as a part of the preview; a page of its own without HTMX."""
    pool = get_pool(request, slug)
    context = {"pool": pool, "near": near.across_splits(pool, _chosen_snapshot(request, pool))}
    if request.headers.get("HX-Request"):
        return render(request, "training_app/_near.html", context)
    crumbs = [(pool.name, reverse("home")), (_("Train a model"), reverse("run_new", args=[slug]))]
    return page(request, "training_app/near.html", context, title=_("Near-duplicates across splits"), crumbs=crumbs)


@require_GET
@require_role(Role.OPS)
def run_detail(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """One run. An HTMX request gets the part that changes while it trains, and a reload of the page when it has ended."""
    run = _run(request, slug, run_id)
    context: dict[str, Any] = {
        "pool": run.pool,
        "run": run,
        "picture": curves.read(run),
        "changed": changed_settings(run),
        "preset": preset_of(run),
        "course": stages.course(run) if run.status == Run.Status.RUNNING else None,
        "again": run.status in (Run.Status.FAILED, Run.Status.CANCELLED),
    }
    if context["again"]:
        context["has_checkpoint"] = Checkpoint.objects.filter(run=run).exists()
    if run.status == Run.Status.QUEUED:
        before = Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING), pk__lt=run.pk)
        context["before"] = before.count()  # of every pool: they share the training workers
    if request.headers.get("HX-Request"):
        response = render(request, "training_app/_run_live.html", context)
        if run.ended:
            response["HX-Refresh"] = "true"
        return response
    model = RouterModel.objects.filter(run=run).select_related("pool", "run__snapshot").first()
    if model:
        may_label = Role.LABELER in roles_of(request.user, slug)
        context |= {
            "model": model,
            "active": registry.active(run.pool),
            "verdict": verdict.of(model),
            "may_label": may_label,
            **scorecard_rows.context(model),
            **more_labels.context(model),
            **gate_context(model),
            **scorecard_tables.context(model, request.GET, may_label=may_label),
        }
    crumbs = [(run.pool.name, reverse("home")), (_("Runs"), reverse("runs", args=[slug]))]
    return page(
        request, "training_app/run.html", context, title=_("Run %(number)d") % {"number": run.pk}, crumbs=crumbs
    )


@require_POST
@require_role(Role.OPS)
def run_cancel(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """End a queued or running run."""
    run = _run(request, slug, run_id)
    with show_errors(request, runs.RunError):
        runs.cancel(run, actor=person(request))
        messages.success(request, _("%(run)s is cancelled.") % {"run": run})
    return redirect("run", slug, run_id)


@require_POST
@require_role(Role.OPS)
def run_relaunch(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """Put a failed or cancelled run back into the queue."""
    run = _run(request, slug, run_id)
    with show_errors(request, runs.RunError):
        runs.relaunch(run, person(request))
        messages.success(request, _("%(run)s is queued again.") % {"run": run})
    return redirect("run", slug, run_id)


def changed_settings(run: Run) -> dict[str, Any]:
    """The run's settings that somebody changed: those that differ from the defaults, less what its preset sets. What this version does
    not know stands as it is."""
    kind = kinds.of(run.kind)
    preset, defaults = preset_of(run), kind.config({}).to_mapping()
    expected = defaults | (dict(preset.settings) if preset else {})
    changed = {name: value for name, value in run.config.items() if name not in expected or expected[name] != value}
    return {name: value for name, value in changed.items() if name != "seed"}


def preset_of(run: Run) -> kinds.Preset | None:
    """The preset whose settings the run has, the one with most of them; None where its kind has no presets."""
    fitting = [
        preset
        for preset in kinds.of(run.kind).presets
        if all(run.config.get(name) == value for name, value in preset.settings.items())
    ]
    return max(fitting, key=lambda preset: len(preset.settings), default=None)


def _run(request: HttpRequest, slug: str, run_id: int) -> Run:
    runs: QuerySet[Run] = Run.objects.select_related("pool", "snapshot__pool", "author")
    return get_object_or_404(runs, pool=get_pool(request, slug), pk=run_id)


def _initial(request: HttpRequest, pool: Pool, kind: kinds.Kind) -> dict[str, Any]:
    origin, classifier = request.GET.get("from", ""), request.GET.get("classifier", "")
    chosen = _chosen_snapshot(request, pool)
    initial: dict[str, Any] = {"snapshot": chosen.pk} if chosen else {}
    if origin:
        run = get_object_or_404(Run, pool=pool, pk=parameters.key(origin))
        initial |= {**initial_of(run.config), "promote": run.promote}
    if (promised := parameters.decimal(request.GET.get("most_wrong"))) is not None:
        initial["most_wrong"] = promised
    if classifier in kind.classifiers:
        initial |= {"recipe": "classifier", "classifier": classifier, "promote": False}
    return initial


def _chosen_snapshot(request: HttpRequest, pool: Pool) -> Snapshot | None:
    chosen = parameters.key((request.POST if request.method == "POST" else request.GET).get("snapshot"))
    return None if chosen is None else Snapshot.objects.filter(pool=pool, pk=chosen).first()
