"""Pages that read files in and write them out: import with its report, export, snapshots."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, cast

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app import pools
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Pool
from datasets_app.figures import progress
from datasets_app.files import exports, imports, looking, uploads
from datasets_app.files.tables import Reading, Unreadable
from datasets_app.labels import snapshots
from datasets_app.models import Import, Query, Snapshot
from datasets_app.pages.transfer_forms import MEANINGS, ColumnsForm, ExportForm, ImportForm
from datasets_app.queries import queries
from routerweb.downloads import download
from routerweb.http import Crumb, page, takes_file, wants_fragment
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
        try:
            reading = None if chosen["format"] else _reading(pool, chosen["file"])
        except Unreadable as error:
            form.add_error("file" if chosen["file"] is request.FILES.get("file") else "pasted", str(error))
        else:
            upload = uploads.receive(
                queries.dataset_of(pool, chosen["dataset"]),
                chosen["file"],
                format=chosen["format"],
                split=chosen["split"],
                author=person(request),
                reading=reading,
            )
            return redirect("import_columns" if reading else "import_detail", slug, upload.pk)
    found = Import.objects.filter(dataset__pool=pool).select_related("dataset", "author")
    context = {
        "pool": pool,
        "form": form,
        "names": names,
        "has_agents": pool.agents.exists(),
        "uploads": Paginator(found, ROWS).get_page(request.GET.get("page")),
    }
    status = 422 if form.errors else 200
    return page(request, "datasets_app/import.html", context, title=_("Import"), crumbs=_crumbs(pool), status=status)


def _reading(pool: Pool, file: UploadedFile) -> Reading | None:
    """How a file is to be read; None for one of our own form, of which nothing needs to be asked. Raises Unreadable."""
    looked = looking.look(cast(BinaryIO, file), file.name or "", pools.roster(pool, retired=True))
    file.seek(0)
    return None if looked.plain else looked.reading


@require_http_methods(["GET", "POST"])
@require_role(Role.REVIEWER, Role.OPS)
def import_columns(request: HttpRequest, slug: str, import_id: int) -> HttpResponse:
    """The first rows of a file and what its columns are; a POST reads it in. An HTMX request shows them by other settings."""
    upload = _upload(slug, import_id)
    pool = upload.dataset.pool
    if upload.status != Import.Status.CHOOSING:
        return redirect("import_detail", slug, import_id)
    stored = Reading.of(upload.reading)
    asked = request.POST if request.method == "POST" else request.GET
    form = ColumnsForm(asked or None, initial={**upload.reading, "split": upload.split})
    reading, problem, looked = stored, "", None
    if asked and form.is_valid():
        reading = _corrected(stored, form.cleaned_data)
    agents = pools.roster(pool, retired=True)
    try:
        looked = looking.again(uploads.content(upload), reading, agents, guess=reading != stored)
        if asked and reading == stored:
            named = {meaning: looked.columns[i].key for i, meaning in _meanings(asked, len(looked.columns))}
            looked = looking.again(
                uploads.content(upload), replace(reading, columns=named, keep="keep" in asked), agents
            )
    except Unreadable as error:
        problem = str(error)
    if looked and reading != stored:
        Import.objects.filter(pk=upload.pk).update(reading=looked.reading.as_json())
    elif looked and request.method == "POST":
        if "text" in looked.reading.columns:
            imports.begin(upload, looked.reading, form.cleaned_data.get("split", ""))
            return redirect("import_detail", slug, import_id)
        problem = _("Say which column holds the query's text.")
    shown = looked.reading if looked else reading
    context = {
        "pool": pool,
        "upload": upload,
        "form": ColumnsForm(initial={**shown.as_json(), "split": asked.get("split", upload.split)}),
        "problem": problem,
        "looked": looked,
        "meanings": MEANINGS,
        "columns": _with_meanings(looked) if looked else [],
        "is_table": shown.kind in ("table", "xlsx"),
        "is_text": shown.kind != "xlsx",
    }
    if wants_fragment(request):
        return render(request, "datasets_app/_import_columns.html", context)
    crumbs = _crumbs(pool, (_("Import"), reverse("import", args=[slug])))
    status = 422 if problem and request.method == "POST" else 200
    return page(
        request, "datasets_app/import_columns.html", context, title=upload.file_name, crumbs=crumbs, status=status
    )


def _corrected(stored: Reading, said: Mapping[str, Any]) -> Reading:
    """A reading by what somebody has corrected of how the file is built."""
    changed = replace(stored, encoding=said["encoding"] or stored.encoding)
    if stored.kind in ("table", "xlsx"):
        changed = replace(changed, header=said["header"])
    if stored.kind == "table":
        changed = replace(changed, delimiter=said["delimiter"] or stored.delimiter)
    return changed


def _meanings(asked: Mapping[str, str], count: int) -> Iterator[tuple[int, str]]:
    """(column's place, what it is said to be) of each column that is one of ours; of two of a kind the first."""
    known, taken = dict(MEANINGS), set()
    for place in range(count):
        meaning = asked.get(f"as-{place}", "")
        if meaning in known and meaning not in taken:
            taken.add(meaning)
            yield place, meaning


def _with_meanings(looked: looking.Look) -> list[tuple[looking.Column, str]]:
    by_key = {key: meaning for meaning, key in looked.reading.columns.items()}
    return [(column, by_key.get(column.key, "")) for column in looked.columns]


def _upload(slug: str, import_id: int) -> Import:
    found = Import.objects.select_related("dataset__pool", "author").defer("dataset__pool__guidelines")
    return get_object_or_404(found, pk=import_id, dataset__pool__slug=slug)


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def import_detail(request: HttpRequest, slug: str, import_id: int) -> HttpResponse:
    """One import: live while it is read, then its report. An HTMX request gets the live part alone."""
    upload = _upload(slug, import_id)
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
    if wants_fragment(request):
        response = render(request, "datasets_app/_import_live.html", context)
        if upload.ended:
            response["HX-Refresh"] = "true"  # the buttons beside the title change as well
        return response
    crumbs = _crumbs(pool, (_("Import"), reverse("import", args=[slug])))
    return page(request, "datasets_app/import_detail.html", context, title=upload.file_name, crumbs=crumbs)


@require_POST
@require_role(Role.REVIEWER, Role.OPS)
def import_cancel(request: HttpRequest, slug: str, import_id: int) -> HttpResponse:
    """Stop an import; what it has stored stays."""
    if imports.cancel(_upload(slug, import_id)):
        messages.success(request, _("The import is being stopped. What has been stored stays."))
    else:
        messages.info(request, _("The import had ended already."))
    return redirect("import_detail", slug, import_id)


@require_POST
@require_role(Role.REVIEWER, Role.OPS)
def import_retry(request: HttpRequest, slug: str, import_id: int) -> HttpResponse:
    """Go on with a failed import behind its last stored row."""
    if not imports.retry(_upload(slug, import_id)):
        messages.error(request, _("This import cannot be resumed: its file is gone. Upload it again."))
    return redirect("import_detail", slug, import_id)


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def import_problems(request: HttpRequest, slug: str, import_id: int) -> FileResponse:
    """All problems of an import as CSV."""
    upload = _upload(slug, import_id)
    found = upload.problems.values_list("line", "field", "reason", "excerpt", "rejected")

    def lines() -> Iterator[bytes]:
        yield b"line,field,reason,excerpt,left out\r\n"
        for line, field, reason, excerpt, rejected in found.iterator():
            buffer = io.StringIO()
            cells = [line, *map(formula_safe, (field, reason, excerpt)), "yes" if rejected else "no"]
            csv.writer(buffer).writerow(cells)
            yield buffer.getvalue().encode()

    return download(lines(), "text/csv; charset=utf-8", f"import-{upload.pk}-problems.csv")


# ---------------------------------------------------------------------------------------------------- export


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def export_page(request: HttpRequest, slug: str) -> HttpResponse:
    """The form that writes a file, with how many queries each choice holds."""
    pool = get_pool(request, slug)
    figures = {"all": Query.objects.of(pool).count(), "gold": progress.gold(pool)}
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
        pieces = exports.encode(exports.rows(exports.selected(pool, dataset, everything)), format)
    return download(pieces, exports.CONTENT_TYPES[format], exports.file_name(pool, format, dataset))


# ---------------------------------------------------------------------------------------------------- snapshots


@require_http_methods(["GET", "POST"])
@require_role(Role.REVIEWER, Role.OPS)
def snapshot_list(request: HttpRequest, slug: str) -> HttpResponse:
    """All snapshots of the pool; a POST takes one."""
    pool = get_pool(request, slug)
    if request.method == "POST":
        newest = pool.snapshots.order_by("-number").values_list("number", flat=True).first() or 0
        try:
            snapshot = snapshots.take(
                pool,
                author=person(request),
                note=request.POST.get("note", "").strip(),
                include_llm=request.POST.get("include_llm") == "on",
            )
        except snapshots.SnapshotError as error:
            messages.error(request, str(error))
        else:
            if snapshot.number > newest:
                messages.success(
                    request, _("%(snapshot)s holds %(rows)s queries.") % {"snapshot": snapshot, "rows": snapshot.rows}
                )
            else:
                messages.info(
                    request, _("Nothing has changed since %(snapshot)s: it stays the newest.") % {"snapshot": snapshot}
                )
        return redirect("snapshots", slug)
    found = Snapshot.objects.filter(pool=pool).select_related("pool", "author").order_by("-number")
    context = {
        "pool": pool,
        "snapshots": Paginator(found, ROWS).get_page(request.GET.get("page")),
        "gold": progress.gold(pool),
    }
    return page(request, "datasets_app/snapshots.html", context, title=_("Snapshots"), crumbs=_crumbs(pool))


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def snapshot_download(request: HttpRequest, slug: str, number: int) -> FileResponse:
    """A snapshot's rows as JSONL."""
    snapshot = get_object_or_404(Snapshot.objects.select_related("pool"), pool__slug=slug, number=number)
    return download(snapshots.jsonl(snapshot), "application/x-ndjson", f"{snapshot}.jsonl")
