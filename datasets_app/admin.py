"""Datasets, queries, labels, gold, splits, imports and snapshots in the admin. What is history is read-only; what may be done
stands in actions that call the same functions as the pages."""

from collections.abc import Iterable
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.admin import ModelAdmin, TabularInline

from agents_app.access import Role, roles_of
from agents_app.models import Agent, Pool
from agents_app.templatetags.routerweb import agent_chip, ago, state
from datasets_app import exports, snapshots, splits
from datasets_app.models import (
    Dataset,
    Gold,
    GoldAgent,
    Import,
    ImportProblem,
    Label,
    Query,
    Snapshot,
    Split,
    SplitGroup,
)

NOTHING = "–"


def chips(agents: Iterable[Agent]) -> SafeString | str:
    """Agents by their codes, or a dash for none."""
    drawn = format_html_join(" ", "{}", ((agent_chip(agent, code_only=True),) for agent in agents))
    return drawn or _t("none of these")


def chips_of(numbers: Iterable[int], pool: Pool) -> SafeString | str:
    """The same for ids; the pool's agents must be prefetched where there is more than one row."""
    by_number = {agent.number: agent for agent in pool.agents.all()}
    return chips(by_number[number] for number in numbers if number in by_number)


def asked_chips(numbers: Iterable[int], pool: Pool) -> SafeString | str:
    """The same for the agents that were asked: one word where they were all."""
    everyone = {agent.number for agent in pool.agents.all() if agent.state == Agent.State.ACTIVE}
    return _t("all") if everyone <= set(numbers) else chips_of(numbers, pool)


def excerpt(query: Query) -> str:
    """The query's text in one line of at most 80 characters."""
    return _t("(erased)") if query.erased_at else str(query).replace("\n", " ")


class HistoryAdmin(ModelAdmin):
    """A list and a page to look at: nothing of it is added, changed or deleted here."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_curate_permission(self, request: HttpRequest) -> bool:
        """Whether the person may assign splits, export and take snapshots."""
        return bool(roles_of(request.user) & {Role.REVIEWER, Role.OPS})


class HistoryInline(TabularInline):
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


# ---------------------------------------------------------------------------------------------------- filters


class AgentFilter(admin.SimpleListFilter):
    title = _("required agent")
    parameter_name = "agent"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        agents = Agent.objects.select_related("pool").order_by("pool__name", "number")
        several = len({agent.pool_id for agent in agents}) > 1
        return [(str(agent.pk), f"{agent.pool.name}: {agent}" if several else str(agent)) for agent in agents]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Query]) -> QuerySet[Query]:
        value = self.value()
        if not value or not value.isdecimal():
            return queryset
        return queryset.filter(Exists(GoldAgent.objects.filter(gold__query=OuterRef("pk"), agent=int(value))))


class SourceFilter(admin.SimpleListFilter):
    title = _("label source")
    parameter_name = "source"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(Label.Source.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Query]) -> QuerySet[Query]:
        if self.value() not in Label.Source.values:
            return queryset
        return queryset.filter(Exists(Label.objects.current().filter(query=OuterRef("pk"), source=self.value())))


class SplitFilter(admin.SimpleListFilter):
    title = _("split")
    parameter_name = "split"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [*Split.choices, ("none", _("None yet"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Query]) -> QuerySet[Query]:
        if self.value() in Split.values:
            return queryset.filter(group__split=self.value())
        return queryset.filter(group__split="") if self.value() == "none" else queryset


class DeletedFilter(admin.SimpleListFilter):
    """Queries that are there; deleted ones on demand."""

    title = _("deleted")
    parameter_name = "deleted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("Deleted and erased")), ("all", _("All"))]

    def choices(self, changelist: Any) -> Any:
        first, *rest = super().choices(changelist)
        yield {**first, "display": _("Not deleted")}
        yield from rest

    def queryset(self, request: HttpRequest, queryset: QuerySet[Query]) -> QuerySet[Query]:
        if self.value() == "all":
            return queryset
        return queryset.filter(deleted_at__isnull=self.value() != "yes")


class CurrentFilter(admin.SimpleListFilter):
    title = _("current")
    parameter_name = "current"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("Current")), ("no", _("Superseded"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Label]) -> QuerySet[Label]:
        if self.value() in ("yes", "no"):
            return queryset.filter(superseded_at__isnull=self.value() == "yes")
        return queryset


# ---------------------------------------------------------------------------------------------------- queries


class LabelInline(HistoryInline):
    model = Label
    verbose_name_plural = _("labels and their history")
    fields = ("source", "author", "needed", "asked_of", "unsure", "reason", "created_at", "superseded_at")
    readonly_fields = fields
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found = super().get_queryset(request).select_related("author", "query__dataset__pool")
        return cast(QuerySet[Any], found.prefetch_related("query__dataset__pool__agents"))

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
        found = super().get_queryset(request).select_related("query__dataset__pool")
        return cast(QuerySet[Any], found.prefetch_related("query__dataset__pool__agents"))

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
        return format_html_join(format_html("<br>"), "{} {}: {}", lines)


@admin.register(Query)
class QueryAdmin(HistoryAdmin):
    list_display = ("short_text", "required_set", "state_word", "split", "dataset_name", "updated")
    list_filter = ("state", SourceFilter, AgentFilter, SplitFilter, "dataset", DeletedFilter)
    list_select_related = ("dataset__pool", "group", "gold")
    search_fields = ("text", "=external_id")
    search_help_text = _("Words of the text, or the id in its source")
    ordering = ("-pk",)
    inlines = (GoldInline, LabelInline)
    actions = ("export_selected", "take_snapshot", "to_train", "to_val", "to_test")
    fields = (
        "text",
        "dataset",
        "state",
        "split",
        "origin",
        "external_id",
        "extra",
        "created_at",
        "updated_at",
        "deleted_at",
    )
    readonly_fields = ("split",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Query]:
        found = super().get_queryset(request)
        if request.resolver_match and request.resolver_match.url_name == "datasets_app_query_changelist":
            found = found.defer("extra", "dataset__pool__guidelines").prefetch_related("gold__members__agent")
        return cast(QuerySet[Query], found)

    @admin.display(description=_("query"), ordering="pk")
    def short_text(self, query: Query) -> str:
        return excerpt(query)

    @admin.display(description=_("gold"))
    def required_set(self, query: Query) -> SafeString | str:
        gold = getattr(query, "gold", None)
        if gold is None:
            return NOTHING
        return chips(sorted((member.agent for member in gold.members.all()), key=lambda agent: agent.number))

    @admin.display(description=_("state"), ordering="state")
    def state_word(self, query: Query) -> SafeString | str:
        return state(query.state)

    @admin.display(description=_("split"))
    def split(self, query: Query) -> str:
        return query.group.get_split_display() or NOTHING

    @admin.display(description=_("dataset"))
    def dataset_name(self, query: Query) -> str:
        return str(query.dataset)

    @admin.display(description=_("updated"), ordering="updated_at")
    def updated(self, query: Query) -> SafeString | str:
        return ago(query.updated_at)

    @admin.action(description=_("Export as JSONL"), permissions=["curate"])
    def export_selected(self, request: HttpRequest, queryset: QuerySet[Query]) -> StreamingHttpResponse:
        chosen = Query.objects.filter(pk__in=queryset.order_by().values("pk"), erased_at__isnull=True)
        return StreamingHttpResponse(
            exports.encode(exports.rows(chosen), "jsonl"),
            content_type=exports.CONTENT_TYPES["jsonl"],
            headers={"Content-Disposition": 'attachment; filename="queries.jsonl"', "Cache-Control": "no-store"},
        )

    @admin.action(description=_("Take a snapshot of their pool"), permissions=["curate"])
    def take_snapshot(self, request: HttpRequest, queryset: QuerySet[Query]) -> None:
        chosen = queryset.order_by().values("dataset__pool")
        for pool in Pool.objects.filter(pk__in=chosen):
            try:
                snapshot = snapshots.take(pool, author=cast(User, request.user))
            except snapshots.SnapshotError as error:
                messages.error(request, str(error))
            else:
                messages.success(
                    request,
                    _t("%(snapshot)s holds all %(rows)s gold queries of the pool.")
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
        kept = groups.exclude(split__in=("", split)).count()
        given = splits.give_where(groups, split)
        messages.success(
            request,
            ngettext(
                "%(count)s group of equal texts is now in %(split)s.",
                "%(count)s groups of equal texts are now in %(split)s.",
                given,
            )
            % {"count": given, "split": split.label},
        )
        if kept:
            messages.warning(
                request,
                ngettext(
                    "%(count)s group keeps the split that it has: one that was given never changes.",
                    "%(count)s groups keep the split that they have: one that was given never changes.",
                    kept,
                )
                % {"count": kept},
            )


@admin.register(Label)
class LabelAdmin(HistoryAdmin):
    list_display = ("query_text", "source", "author", "needed", "unsure", "made", "is_current")
    list_filter = ("source", CurrentFilter, "unsure", "query__dataset")
    search_fields = ("query__text", "reason")
    list_select_related = ("author", "query__dataset__pool")
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Label]:
        found = super().get_queryset(request).defer("query__extra", "scores")
        return cast(QuerySet[Label], found.prefetch_related("query__dataset__pool__agents"))

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
class GoldAdmin(HistoryAdmin):
    list_display = ("query_text", "needed", "query_state", "composed")
    list_filter = ("query__state", "query__dataset")
    search_fields = ("query__text",)
    list_select_related = ("query__dataset__pool",)
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Gold]:
        found = super().get_queryset(request).defer("query__extra")
        return cast(QuerySet[Gold], found.prefetch_related("members__agent"))

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


# ---------------------------------------------------------------------------------------------------- around them


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
        alive = Query.objects.filter(deleted_at__isnull=True)
        found = super().get_queryset(request).annotate(size=_count_of(alive, "dataset"))
        return cast(QuerySet[Dataset], found)

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
        found = super().get_queryset(request).annotate(size=_count_of(Query.objects.all(), "group"))
        return cast(QuerySet[SplitGroup], found)

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
    list_display = ("__str__", "rows", "sizes", "short_digest", "note", "author", "taken", "download")
    list_filter = ("pool",)
    search_fields = ("digest", "note")
    list_select_related = ("pool", "author")
    readonly_fields = ("sizes", "download")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Snapshot]:
        return cast(QuerySet[Snapshot], super().get_queryset(request).defer("roster"))

    @admin.display(description=_("train, validation, test"))
    def sizes(self, snapshot: Snapshot) -> str:
        return " · ".join(str(snapshot.split_sizes.get(split, 0)) for split in Split.values)

    @admin.display(description=_("digest"), ordering="digest")
    def short_digest(self, snapshot: Snapshot) -> str:
        return snapshot.digest[:12]

    @admin.display(description=_("taken"), ordering="created_at")
    def taken(self, snapshot: Snapshot) -> SafeString | str:
        return ago(snapshot.created_at)

    @admin.display(description=_("rows"))
    def download(self, snapshot: Snapshot) -> SafeString:
        address = reverse("snapshot_download", args=[snapshot.pool.slug, snapshot.number])
        return format_html('<a href="{}">{}</a>', address, "JSONL")
