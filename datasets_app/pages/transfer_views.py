"""Pages that read files in and write them out: import with its report, export, snapshots."""

import csv
import io
from collections.abc import Iterator
from typing import Any, BinaryIO

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app import llm, rosters
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.files.formats import Unreadable
from agents_app.models import Pool
from agents_app.pools import PoolError
from agents_app.views.forms import SeveralAgentsForm
from datasets_app.figures import progress
from datasets_app.files import ddqn_router, exports, imports, undoing, uploads
from datasets_app.labels import snapshots
from datasets_app.models import Import, Snapshot
from datasets_app.pages import import_columns
from datasets_app.pages.transfer_forms import ExportForm, ImportForm
from datasets_app.queries import adding, splits
from datasets_app.traces import exports as trace_exports
from routerweb.http import Crumb, page, takes_file, wants_fragment
from routerweb.pages import paging
from routerweb.pages.downloads import download
from routerweb.pages.shown_errors import show_errors
from training_app.engine.data.files import formula_safe

ROWS = 25
PROBLEMS = 50


def _crumbs(pool: Pool, *above: Crumb) -> list[Crumb]:
    return [(pool.name, reverse("home")), *above]


# ---------------------------------------------------------------------------------------------------- import


@takes_file
@require_http_methods(["GET", "POST"])
@require_role(Role.REVIEWER, Role.OPS)
def import_page(request: HttpRequest, slug: str) -> HttpResponse:
    """The form that takes a file, and the imports that there were; a POST stores the file and shows its import."""
    pool = get_pool(request, slug)
    names = list(pool.datasets.order_by("pk").values_list("name", flat=True))
    posted = request.method == "POST"
    form = ImportForm(
        request.POST if posted else None,
        request.FILES if posted else None,
        initial={"dataset": names[0] if names else "Queries", "split": request.GET.get("split", "")},
    )
    if posted and form.is_valid():
        chosen = form.cleaned_data
        may_add_agents = Role.OPS in roles_of(request.user, pool.pk)
        if may_add_agents and not chosen["format"] and (listed := rosters.among(chosen["file"])):
            return _agents_instead(request, pool, listed)
        try:
            if may_add_agents:
                _agents_of_folder(request, pool, chosen["file"])
            reading = None if chosen["format"] else import_columns.reading_of(pool, chosen["file"])
        except (Unreadable, PoolError) as error:
            form.add_error("file" if chosen["file"] is request.FILES.get("file") else "pasted", str(error))
        else:
            upload = uploads.receive(
                adding.dataset_of(pool, chosen["dataset"]),
                chosen["file"],
                format=chosen["format"],
                split=chosen["split"],
                author=person(request),
                reading=reading,
                made_dataset=chosen["dataset"].casefold() not in {name.casefold() for name in names},
            )
            return redirect("import_columns" if reading else "import_detail", slug, upload.pk)
    imports = Import.objects.filter(dataset__pool=pool).select_related("dataset", "author")
    context = {
        "pool": pool,
        "form": form,
        "names": names,
        "has_agents": pool.agents.exists(),
        "uploads": Paginator(imports, ROWS).get_page(request.GET.get("page")),
    }
    status = 422 if form.errors else 200
    return page(request, "datasets_app/import.html", context, title=_("Import"), crumbs=_crumbs(pool), status=status)


def _agents_of_folder(request: HttpRequest, pool: Pool, file: BinaryIO) -> None:
    """A packed folder of ddqn-router brings the agents of a pool that has none."""
    count = ddqn_router.add_agents(pool, file, person(request))
    if count:
        text = ngettext(
            "%(n)d agent of its config.yaml was added.", "%(n)d agents of its config.yaml were added.", count
        )
        messages.success(request, text % {"n": count})


def _agents_instead(request: HttpRequest, pool: Pool, listed: rosters.Listed) -> HttpResponse:
    """What a file of agents leads to: the form that adds them, filled in."""
    form = SeveralAgentsForm(initial={"agents": listed.as_text()})
    context = {"pool": pool, "form": form, "from_file": True, "unread": ", ".join(listed.unread)}
    return page(
        request,
        "agents_app/agents_several.html",
        context,
        title=_("Add several agents"),
        crumbs=_crumbs(pool, (_("Import"), reverse("import", args=[pool.slug]))),
    )


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def import_detail(request: HttpRequest, slug: str, import_id: int) -> HttpResponse:
    """One import: live while it is read, then its report. An HTMX request gets the live part alone."""
    upload = import_columns.get_upload(slug, import_id)
    pool = upload.dataset.pool
    if upload.status == Import.Status.CHOOSING:
        return redirect("import_columns", slug, import_id)
    kind = request.GET.get("kind", "")
    problems = upload.problems.all()
    if kind in ("left-out", "kept"):
        problems = problems.filter(rejected=kind == "left-out")
    figures = upload.problems.aggregate(rejected=Count("pk", filter=Q(rejected=True)), all=Count("pk"))
    context = {
        "pool": pool,
        "upload": upload,
        "kind": kind,
        "kept": figures["all"] - figures["rejected"],
        "left_out": figures["rejected"],
        "problems": Paginator(problems, PROBLEMS).get_page(request.GET.get("page")),
        "may_label": Role.LABELER in roles_of(request.user, upload.dataset.pool_id),
        "may_train": Role.OPS in roles_of(request.user, upload.dataset.pool_id),
        "can_retry": upload.status == Import.Status.FAILED and upload.chunks.exists(),
    }
    if upload.ended and upload.queries_added and not upload.labels_added and not upload.suggestions_added:
        context["llm_address"] = _llm_address(request, pool)
    context["least_to_train"] = progress.LEAST_TO_TRAIN
    context["are_traces"] = upload.reading.get("shape") in trace_exports.NAMES
    if wants_fragment(request):
        response = render(request, "datasets_app/_import_live.html", context)
        if upload.ended:
            response["HX-Refresh"] = "true"  # the buttons beside the title change as well
        return response
    crumbs = _crumbs(pool, (_("Import"), reverse("import", args=[slug])))
    return page(request, "datasets_app/import_detail.html", context, title=upload.file_name, crumbs=crumbs)


def _llm_address(request: HttpRequest, pool: Pool) -> str:
    """Where an LLM is asked to label the pool's queries, by way of connecting one; "" while there are no agents to choose from."""
    if not pool.agents.active().exists():
        return ""
    if Role.ADMIN in roles_of(request.user) and not llm.connection().ready:
        return reverse("settings_llm", query={"pool": pool.slug})
    return reverse("prelabel", args=[pool.slug])


@require_POST
@require_role(Role.REVIEWER, Role.OPS)
def import_cancel(request: HttpRequest, slug: str, import_id: int) -> HttpResponse:
    """Stop an import; what it has stored stays. One that has not begun leads back to where another file is chosen."""
    upload = import_columns.get_upload(slug, import_id)
    if not imports.cancel(upload):
        messages.info(request, _("The import had ended already."))
    elif upload.status == Import.Status.CHOOSING:
        messages.success(request, _("The file is not imported. Nothing of it was stored."))
        return redirect("import", slug)
    else:
        messages.success(request, _("The import is being stopped. What has been stored stays."))
    return redirect("import_detail", slug, import_id)


@require_POST
@require_role(Role.REVIEWER, Role.OPS)
def import_retry(request: HttpRequest, slug: str, import_id: int) -> HttpResponse:
    """Go on with a failed import behind its last stored row."""
    if not imports.retry(import_columns.get_upload(slug, import_id)):
        messages.error(request, _("This import cannot be resumed: its file is gone. Upload it again."))
    return redirect("import_detail", slug, import_id)


@require_POST
@require_role(Role.REVIEWER, Role.OPS)
def import_undo(request: HttpRequest, slug: str, import_id: int) -> HttpResponse:
    """Take out all that an import brought."""
    upload = import_columns.get_upload(slug, import_id)
    if upload.queries_added + upload.labels_added > undoing.MOST_OF_A_PAGE:
        undone_text = _(
            "This import is too large for a page to undo. Run: manage.py import_queries --undo %(id)d --pool %(pool)s"
        )
        messages.error(request, undone_text % {"id": upload.pk, "pool": slug})
        return redirect("import_detail", slug, import_id)
    with show_errors(request, undoing.UndoError):
        undone = undoing.undo(upload, person(request))
        undone_text = _("“%(file)s” is undone: %(queries)d queries and %(labels)d labels are gone.")
        message = undone_text % {"file": upload.file_name, "queries": undone.queries, "labels": undone.labels}
        if undone.kept:
            stays = ngettext(
                "%(n)d query stays, as it was worked on since.",
                "%(n)d queries stay, as they were worked on since.",
                undone.kept,
            )
            message = f"{message} {stays % {'n': undone.kept}}"
        messages.success(request, message)
        return redirect("import", slug)
    return redirect("import_detail", slug, import_id)


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def import_problems(request: HttpRequest, slug: str, import_id: int) -> FileResponse:
    """All problems of an import as CSV."""
    upload = import_columns.get_upload(slug, import_id)
    problems = upload.problems.values_list("line", "field", "reason", "excerpt", "rejected")

    def lines() -> Iterator[bytes]:
        yield b"line,field,reason,excerpt,left out\r\n"
        for line, field, reason, excerpt, rejected in problems.iterator():
            buffer = io.StringIO()
            cells = [line, *map(formula_safe, (field, reason, excerpt)), "yes" if rejected else "no"]
            csv.writer(buffer).writerow(cells)
            yield buffer.getvalue().encode()

    return download(
        exports.for_spreadsheets(lines(), "csv"), "text/csv; charset=utf-8", f"import-{upload.pk}-problems.csv"
    )


# ---------------------------------------------------------------------------------------------------- export


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def export_page(request: HttpRequest, slug: str) -> HttpResponse:
    """The form that writes a file, with how many queries each choice holds."""
    pool = get_pool(request, slug)
    figures = {"all": progress.labeled(pool).queries, "gold": progress.gold(pool)}
    context = {"pool": pool, "form": ExportForm(pool), "figures": figures}
    return page(request, "datasets_app/export.html", context, title=_("Export"), crumbs=_crumbs(pool))


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def export_download(request: HttpRequest, slug: str) -> HttpResponse | FileResponse:
    """The file, as it is read from the database."""
    pool = get_pool(request, slug)
    form = ExportForm(pool, request.GET)
    if not form.is_valid():
        figures: dict[str, Any] = {}
        context = {"pool": pool, "form": form, "figures": figures}
        return page(request, "datasets_app/export.html", context, title=_("Export"), crumbs=_crumbs(pool), status=422)
    format, dataset = form.cleaned_data["format"], form.cleaned_data["dataset"]
    everything = form.cleaned_data["include_unlabeled"]
    if format == "folder":
        pieces = exports.folder(pool, dataset, everything)
    else:
        rows = exports.rows(exports.selected(pool, dataset, everything))
        pieces = exports.for_spreadsheets(exports.encode(rows, format), format)
    return download(pieces, exports.CONTENT_TYPES[format], exports.file_name(pool, format, dataset))


# ---------------------------------------------------------------------------------------------------- snapshots


@require_http_methods(["GET", "POST"])
@require_role(Role.REVIEWER, Role.OPS)
def snapshot_list(request: HttpRequest, slug: str) -> HttpResponse:
    """All snapshots of the pool; a POST takes one."""
    pool = get_pool(request, slug)
    if request.method == "POST":
        newest = pool.snapshots.order_by("-number").values_list("number", flat=True).first() or 0
        with show_errors(request, snapshots.SnapshotError):
            snapshot = snapshots.take(
                pool,
                author=person(request),
                note=request.POST.get("note", "").strip(),
                include_llm=request.POST.get("include_llm") == "on",
            )
            if snapshot.number > newest:
                messages.success(
                    request, _("%(snapshot)s holds %(rows)s queries.") % {"snapshot": snapshot, "rows": snapshot.rows}
                )
            else:
                messages.info(
                    request, _("Nothing has changed since %(snapshot)s: it stays the newest.") % {"snapshot": snapshot}
                )
        return redirect("snapshots", slug)
    snapshots_of_pool = Snapshot.objects.filter(pool=pool).select_related("pool", "author").order_by("-number")
    context = {
        "pool": pool,
        "snapshots": Paginator(snapshots_of_pool, ROWS).get_page(request.GET.get("page")),
        "gold": progress.gold(pool),
        "llm": paging.total(splits.labeled_by_llm_alone(pool)),
        "llm_counts": splits.with_llm(pool, None),
    }
    return page(request, "datasets_app/snapshots.html", context, title=_("Snapshots"), crumbs=_crumbs(pool))


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def snapshot_download(request: HttpRequest, slug: str, number: int) -> FileResponse:
    """A snapshot's rows as JSONL."""
    snapshot = get_object_or_404(Snapshot.objects.select_related("pool"), pool__slug=slug, number=number)
    return download(snapshots.jsonl(snapshot), "application/x-ndjson", f"{snapshot}.jsonl")
