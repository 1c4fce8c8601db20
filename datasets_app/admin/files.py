"""Datasets, split groups, imports and snapshots."""

from typing import Any, cast

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin

from agents_app.templatetags.routerweb import ago, state
from datasets_app.admin.history import HistoryAdmin, HistoryInline, chips_of
from datasets_app.models import (
    Dataset,
    Import,
    ImportProblem,
    Query,
    Snapshot,
    Split,
    SplitGroup,
)


def _count_of(queryset: QuerySet[Any], field: str) -> Coalesce:
    """How many rows of `queryset` point at the outer row; counted for the rows that are shown and no others."""
    counted = queryset.filter(**{field: OuterRef("pk")}).order_by().values(field).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted), 0)


@admin.register(Dataset)
class DatasetAdmin(ModelAdmin):
    """A dataset's name may change; it goes only with its pool."""

    list_display = ("name", "pool", "queries_count", "created_at")
    list_filter = ("pool",)
    search_fields = ("name",)
    list_select_related = ("pool",)
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Dataset]:
        alive = Query.objects.alive()
        rows = super().get_queryset(request).annotate(size=_count_of(alive, "dataset"))
        return cast(QuerySet[Dataset], rows)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("pool",) if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description=_("queries"), ordering="size")
    def queries_count(self, dataset: Any) -> int:
        return int(dataset.size)


@admin.register(SplitGroup)
class SplitGroupAdmin(HistoryAdmin):
    list_display = ("short_key", "pool", "split", "queries_count")
    list_filter = ("split", "pool")
    search_fields = ("key",)
    list_select_related = ("pool",)
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[SplitGroup]:
        rows = super().get_queryset(request).annotate(size=_count_of(Query.objects.all(), "group"))
        return cast(QuerySet[SplitGroup], rows)

    @admin.display(description=_("key"), ordering="key")
    def short_key(self, group: SplitGroup) -> str:
        return group.key[:12]

    @admin.display(description=_("queries"))
    def queries_count(self, group: Any) -> int:
        return int(group.size)


class ImportProblemInline(HistoryInline):
    model = ImportProblem
    fields = ("line", "field", "reason", "excerpt", "rejected")
    readonly_fields = fields
    per_page = 50


@admin.register(Import)
class ImportAdmin(HistoryAdmin):
    list_display = (
        "file_name",
        "state_word",
        "dataset",
        "rows_read",
        "queries_added",
        "labels_added",
        "rejected",
        "author",
        "started",
    )
    list_filter = ("status", "format", "dataset")
    search_fields = ("file_name",)
    list_select_related = ("dataset__pool", "author")
    inlines = (ImportProblemInline,)
    exclude = ("attempt", "attempts", "cancel_requested", "last_line")

    @admin.display(description=_("status"), ordering="status")
    def state_word(self, upload: Import) -> SafeString | str:
        return state(upload.status)

    @admin.display(description=_("started"), ordering="created_at")
    def started(self, upload: Import) -> SafeString | str:
        return ago(upload.created_at)


@admin.register(ImportProblem)
class ImportProblemAdmin(HistoryAdmin):
    list_display = ("upload", "line", "field", "reason", "excerpt", "rejected")
    list_filter = ("rejected", "field")
    search_fields = ("reason", "excerpt")
    list_select_related = ("upload",)
    ordering = ("-upload", "line")


@admin.register(Snapshot)
class SnapshotAdmin(HistoryAdmin):
    page = "snapshots"
    list_display = ("__str__", "rows", "sizes", "short_digest", "note", "author", "created", "download")
    list_filter = ("pool",)
    search_fields = ("digest", "note")
    list_select_related = ("pool", "author")
    readonly_fields = ("sizes", "agents", "download", "page_link")
    exclude = ("roster",)

    def page_of(self, obj: Snapshot) -> list[Any]:
        return [obj.pool.slug]

    @admin.display(description=_("agents"))
    def agents(self, snapshot: Snapshot) -> SafeString | str:
        return chips_of([agent["id"] for agent in snapshot.roster], snapshot.pool)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Snapshot]:
        return cast(QuerySet[Snapshot], super().get_queryset(request).defer("roster"))

    @admin.display(description=_("train, validation, test"))
    def sizes(self, snapshot: Snapshot) -> str:
        return " · ".join(str(snapshot.split_sizes.get(split, 0)) for split in Split.values)

    @admin.display(description=_("digest"), ordering="digest")
    def short_digest(self, snapshot: Snapshot) -> str:
        return snapshot.digest[:12]

    @admin.display(description=_("taken"), ordering="created_at")
    def created(self, snapshot: Snapshot) -> SafeString | str:
        return ago(snapshot.created_at)

    @admin.display(description=_("rows"))
    def download(self, snapshot: Snapshot) -> SafeString:
        address = reverse("snapshot_download", args=[snapshot.pool.slug, snapshot.number])
        return format_html('<a href="{}">{}</a>', address, "JSONL")
