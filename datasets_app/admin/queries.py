"""Queries with their labels, the history of these, and gold."""

from collections.abc import Callable
from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import FileResponse, HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from agents_app.access import person
from agents_app.models import Pool
from agents_app.templatetags.routerweb import ago, state
from datasets_app.admin import labeling
from datasets_app.admin.filters import (
    AgentFilter,
    CurrentFilter,
    DeletedFilter,
    DisagreementFilter,
    SourceFilter,
    SplitFilter,
)
from datasets_app.admin.history import NOTHING, HistoryAdmin, HistoryInline, asked_chips, chips, chips_of, excerpt
from datasets_app.files import exports
from datasets_app.labels import snapshots
from datasets_app.models import (
    Gold,
    Label,
    Query,
    Split,
    SplitGroup,
)
from datasets_app.queries import query_columns, splits
from routerweb.pages.downloads import download
from routerweb.pages.shown_errors import show_errors


class LabelInline(HistoryInline):
    model = Label
    verbose_name_plural = _("labels and their history")
    fields = ("source", "author", "needed", "asked_of", "unsure", "reason", "created_at", "superseded_at")
    readonly_fields = fields
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).select_related("author", "query__dataset__pool")
        return cast(QuerySet[Any], rows.prefetch_related("query__dataset__pool__agents"))

    @admin.display(description=_("required agents"))
    def needed(self, label: Label) -> SafeString | str:
        return chips_of(label.required, label.query.dataset.pool)

    @admin.display(description=_("asked agents"))
    def asked_of(self, label: Label) -> SafeString | str:
        return asked_chips(label.asked, label.query.dataset.pool)


class GoldInline(HistoryInline):
    model = Gold
    fields = ("needed", "asked_of", "decided", "composed_at")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).select_related("query__dataset__pool")
        return cast(QuerySet[Any], rows.prefetch_related("query__dataset__pool__agents"))

    @admin.display(description=_("required agents"))
    def needed(self, gold: Gold) -> SafeString | str:
        return chips_of(gold.required, gold.query.dataset.pool)

    @admin.display(description=_("asked agents"))
    def asked_of(self, gold: Gold) -> SafeString | str:
        return asked_chips(gold.asked, gold.query.dataset.pool)

    @admin.display(description=_("decided by"))
    def decided(self, gold: Gold) -> SafeString | str:
        by_label: dict[int, list[int]] = {}
        for agent, label in gold.decided_by.items():
            by_label.setdefault(label, []).append(int(agent))
        deciding = Label.objects.filter(pk__in=by_label).select_related("author").order_by("-pk")
        lines = (
            (label.get_source_display(), label.author or "", chips_of(by_label[label.pk], gold.query.dataset.pool))
            for label in deciding
        )
        return format_html_join(SafeString("<br>"), "{} {}: {}", lines)


def _cell(column: query_columns.QueryColumn) -> Callable[[Query], SafeString | str]:
    """A column of the admin's list that shows a column of queries."""

    @admin.display(ordering=column.lookup if column.sorts else None)
    def cell(query: Query) -> SafeString | str:
        return (column.badge(query) if column.badge else "") or NOTHING

    cell.__name__ = column.name
    cell.short_description = column.label  # type: ignore[attr-defined]
    return cell


@admin.register(Query)
class QueryAdmin(HistoryAdmin):
    page = "query"
    list_display = ("short_text", "required_set", *map(_cell, query_columns.LISTED), "dataset_name", "page_link")
    list_filter = ("state", SourceFilter, AgentFilter, DisagreementFilter, SplitFilter, "dataset", DeletedFilter)
    list_select_related = ("dataset__pool", "group", "gold")
    search_fields = ("text", "=external_id")
    search_help_text = _("Words of the text, or the id in its source")
    ordering = ("-pk",)
    inlines = (GoldInline, LabelInline)
    actions = (*labeling.ACTIONS, "export_selected", "take_snapshot", "to_train", "to_val", "to_test")
    fields = (
        "page_link",
        "text",
        "dataset",
        "state",
        "split",
        "origin",
        *(column.lookup for column, _entry in query_columns.entries()),
        "extra",
        "created_at",
        "updated_at",
        "deleted_at",
    )
    readonly_fields = ("split", "page_link")

    def page_of(self, obj: Query) -> list[Any]:
        return [obj.dataset.pool.slug, obj.pk]

    def audited_as(self, obj: Query) -> tuple[str, Pool | None]:
        return f"query {obj.pk}", obj.dataset.pool

    @admin.display(description=_("page"))
    def page_link(self, query: Query) -> SafeString | str:
        page = self.page_of(query)
        pages = (("query", _("Open its page")), ("label_item", _("Label this")), ("review_query", _("Review this")))
        return self.links(*((words, reverse(name, args=page)) for name, words in pages))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Query]:
        rows = super().get_queryset(request)
        if request.resolver_match and request.resolver_match.url_name == "datasets_app_query_changelist":
            rows = rows.defer("extra", "dataset__pool__guidelines").prefetch_related("gold__members__agent")
        return cast(QuerySet[Query], rows)

    @admin.display(description=_("query"), ordering="pk")
    def short_text(self, query: Query) -> str:
        return excerpt(query)

    @admin.display(description=_("gold"))
    def required_set(self, query: Query) -> SafeString | str:
        gold = getattr(query, "gold", None)
        if gold is None:
            return NOTHING
        return chips(sorted((member.agent for member in gold.members.all()), key=lambda agent: agent.number))

    @admin.display(description=_("split"))
    def split(self, query: Query) -> str:
        return query.group.get_split_display() or NOTHING

    @admin.display(description=_("dataset"))
    def dataset_name(self, query: Query) -> str:
        return str(query.dataset)

    @admin.action(description=_("Export as JSONL"), permissions=["curate"])
    def export_selected(self, request: HttpRequest, queryset: QuerySet[Query]) -> FileResponse:
        chosen = Query.objects.filter(pk__in=queryset.order_by().values("pk"), erased_at__isnull=True)
        pieces = exports.encode(exports.rows(chosen), "jsonl")
        return download(pieces, exports.CONTENT_TYPES["jsonl"], "queries.jsonl")

    @admin.action(description=_("Take a snapshot of their pool"), permissions=["curate"])
    def take_snapshot(self, request: HttpRequest, queryset: QuerySet[Query]) -> None:
        chosen = queryset.order_by().values("dataset__pool")
        for pool in Pool.objects.filter(pk__in=chosen):
            with show_errors(request, snapshots.SnapshotError):
                snapshot = snapshots.take(pool, author=person(request))
                messages.success(
                    request,
                    _t("%(snapshot)s holds all %(rows)s labeled queries of the pool.")
                    % {"snapshot": snapshot, "rows": snapshot.rows},
                )

    @admin.action(description=_("Assign to train"), permissions=["curate"])
    def to_train(self, request: HttpRequest, queryset: QuerySet[Query]) -> None:
        self._assign(request, queryset, Split.TRAIN)

    @admin.action(description=_("Assign to validation"), permissions=["curate"])
    def to_val(self, request: HttpRequest, queryset: QuerySet[Query]) -> None:
        self._assign(request, queryset, Split.VAL)

    @admin.action(description=_("Assign to test"), permissions=["curate"])
    def to_test(self, request: HttpRequest, queryset: QuerySet[Query]) -> None:
        self._assign(request, queryset, Split.TEST)

    def _assign(self, request: HttpRequest, queryset: QuerySet[Query], split: Split) -> None:
        groups = SplitGroup.objects.filter(pk__in=queryset.order_by().values("group"))
        excluded = groups.exclude(split__in=("", split)).count()
        changed = splits.give_where(groups, split)
        messages.success(
            request,
            ngettext(
                "%(count)s group of equal texts is now in %(split)s.",
                "%(count)s groups of equal texts are now in %(split)s.",
                changed,
            )
            % {"count": changed, "split": split.label},
        )
        if excluded:
            messages.warning(
                request,
                ngettext(
                    "%(count)s group keeps the split that it has: one that was given never changes.",
                    "%(count)s groups keep the split that they have: one that was given never changes.",
                    excluded,
                )
                % {"count": excluded},
            )


class OfQuery:
    """Of an admin page: what belongs to a query, drawn with its pool's agents; the page is the query's."""

    page = "query"

    def page_of(self, obj: Label | Gold) -> list[Any]:
        return [obj.query.dataset.pool.slug, obj.query_id]

    def audited_as(self, obj: Label | Gold) -> tuple[str, Pool | None]:
        return f"query {obj.query_id}", obj.query.dataset.pool

    @admin.display(description=_("asked agents"))
    def asked_of(self, obj: Label | Gold) -> SafeString | str:
        return asked_chips(obj.asked, obj.query.dataset.pool)


@admin.register(Label)
class LabelAdmin(OfQuery, HistoryAdmin):
    fields = (
        "page_link", "query", "source", "author", "needed", "asked_of", "scores", "unsure", "reason", "provenance", "created_at",
        "superseded_at",
    )  # fmt: skip
    readonly_fields = ("page_link", "needed", "asked_of")
    list_display = ("query_text", "source", "author", "needed", "unsure", "made", "is_current")
    list_filter = ("source", CurrentFilter, "unsure", "query__dataset")
    search_fields = ("query__text", "reason")
    list_select_related = ("author", "query__dataset__pool")
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Label]:
        rows = super().get_queryset(request).defer("query__extra", "scores")
        return cast(QuerySet[Label], rows.prefetch_related("query__dataset__pool__agents"))

    @admin.display(description=_("query"))
    def query_text(self, label: Label) -> str:
        return excerpt(label.query)

    @admin.display(description=_("required agents"))
    def needed(self, label: Label) -> SafeString | str:
        return chips_of(label.required, label.query.dataset.pool)

    @admin.display(description=_("made"), ordering="created_at")
    def made(self, label: Label) -> SafeString | str:
        return ago(label.created_at)

    @admin.display(description=_("current"), boolean=True)
    def is_current(self, label: Label) -> bool:
        return label.superseded_at is None


@admin.register(Gold)
class GoldAdmin(OfQuery, HistoryAdmin):
    fields = ("page_link", "query", "needed", "asked_of", "decided_by", "composed_at")
    readonly_fields = ("page_link", "needed", "asked_of")
    list_display = ("query_text", "needed", "query_state", "composed")
    list_filter = ("query__state", "query__dataset")
    search_fields = ("query__text",)
    list_select_related = ("query__dataset__pool",)
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Gold]:
        rows = super().get_queryset(request).filter(query__deleted_at__isnull=True).defer("query__extra")
        return cast(QuerySet[Gold], rows.prefetch_related("members__agent"))

    @admin.display(description=_("query"))
    def query_text(self, gold: Gold) -> str:
        return excerpt(gold.query)

    @admin.display(description=_("required agents"))
    def needed(self, gold: Gold) -> SafeString | str:
        return chips(member.agent for member in gold.members.all())

    @admin.display(description=_("state"))
    def query_state(self, gold: Gold) -> SafeString | str:
        return state(gold.query.state)

    @admin.display(description=_("composed"), ordering="composed_at")
    def composed(self, gold: Gold) -> SafeString | str:
        return ago(gold.composed_at)
