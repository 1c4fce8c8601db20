"""Runs, models, promotions and decisions in the admin: history to look at, and a few actions; nothing is edited here."""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin

from agents_app.access import Role, person, roles_of
from agents_app.admin.leading_on import LeadsOn
from agents_app.admin.read_only import ReadOnly
from agents_app.models import Pool
from agents_app.templatetags.routerweb import ago, state
from datasets_app.admin.history import chips_of
from datasets_app.models import Snapshot
from routerweb.pages.shown_errors import show_errors
from training_app.engine.config import Config
from training_app.models import Decision, Promotion, RouterModel, Run
from training_app.training import runs
from training_app.versions import gate, registry


class ReadOnlyAdmin(LeadsOn, ReadOnly, ModelAdmin):
    """A list and a page to look at. What may be done stands in actions, for ops."""

    list_per_page = 50
    show_full_result_count = False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Whether the person may launch, cancel, promote."""
        return Role.OPS in roles_of(request.user)


def one_by_one(
    request: HttpRequest,
    rows: Iterable[Any],
    act: Callable[[Any], object],
    done: str,
    errors: tuple[type[Exception], ...],
) -> None:
    """Do `act` to each row; what cannot be done is shown, and takes none of the others with it."""
    for row in rows:
        with show_errors(request, *errors):
            act(row)
            messages.success(request, done % {"row": row})


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    page = "run"
    readonly_fields = ("page_link",)
    list_display = ("__str__", "state_word", "snapshot", "where", "author", "launched", "page_link")
    list_filter = ("status", "pool")
    list_select_related = ("pool", "snapshot__pool", "author")
    search_fields = ("=id", "error")
    date_hierarchy = "created_at"
    actions = ("cancel", "launch_again")
    exclude = ("attempt",)

    @admin.display(description=_("status"), ordering="status")
    def state_word(self, run: Run) -> SafeString | str:
        return state(run.status)

    @admin.display(description=_("progress"))
    def where(self, run: Run) -> str:
        return f"{run.phase} {run.step}/{run.total}" if run.total else run.phase or "–"

    @admin.display(description=_("launched"), ordering="created_at")
    def launched(self, run: Run) -> SafeString | str:
        return ago(run.created_at)

    @admin.action(description=_("Cancel"), permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        actor = person(request)
        one_by_one(
            request, queryset, lambda run: runs.cancel(run, actor=actor), _t("%(row)s is cancelled."), (runs.RunError,)
        )

    @admin.action(description=_("Train again"), permissions=["operate"])
    def launch_again(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        actor = person(request)
        one_by_one(
            request, queryset, lambda run: runs.relaunch(run, actor), _t("%(row)s is queued again."), (runs.RunError,)
        )


@admin.register(RouterModel)
class RouterModelAdmin(ReadOnlyAdmin):
    page = "model"
    list_display = ("name", "state_word", "pool", "run", "size", "made", "page_link")
    list_filter = ("state", "pool")
    list_select_related = ("pool", "run__pool")
    search_fields = ("pool__slug", "=version", "artifact_digest")
    actions = ("make_active",)
    ordering = ("pool", "-version")
    readonly_fields = ("page_link", "agents")
    exclude = ("roster",)

    def page_of(self, obj: RouterModel) -> list[Any]:
        return [obj.pool.slug, obj.version]

    def audited_as(self, obj: RouterModel) -> tuple[str, Pool | None]:
        return obj.name, obj.pool

    @admin.display(description=_("agents"))
    def agents(self, model: RouterModel) -> SafeString | str:
        return chips_of([agent["id"] for agent in model.roster], model.pool)

    @admin.display(description=_("state"), ordering="state")
    def state_word(self, model: RouterModel) -> SafeString | str:
        return state(model.state)

    @admin.display(description=_("size in KB"), ordering="artifact_bytes")
    def size(self, model: RouterModel) -> int:
        return round(model.artifact_bytes / 1000)

    @admin.display(description=_("made"), ordering="created_at")
    def made(self, model: RouterModel) -> SafeString | str:
        return ago(model.created_at)

    @admin.action(description=_("Promote"), permissions=["operate"])
    def make_active(self, request: HttpRequest, queryset: QuerySet[RouterModel]) -> None:
        if queryset.values("pool").distinct().count() != queryset.count():
            messages.error(request, _t("Choose one model of a pool: it can have only one active model."))
            return
        actor = person(request)
        one_by_one(
            request,
            queryset,
            lambda model: gate.promote(model, actor=actor),
            _t("%(row)s is active now."),
            (registry.RegistryError,),
        )


@admin.register(Promotion)
class PromotionAdmin(ReadOnlyAdmin):
    list_display = ("at", "pool", "kind", "previous", "model", "author", "reason")
    list_filter = ("pool", "kind")
    list_select_related = ("pool", "model__pool", "previous__pool", "author")
    search_fields = ("reason",)
    date_hierarchy = "at"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Promotion]:
        rows: QuerySet[Promotion] = super().get_queryset(request)
        return rows


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    page = "decision"
    list_display = ("at", "short_text", "chosen", "confidence", "stop_reason", "model", "pool", "page_link")
    readonly_fields = ("page_link", "chosen")
    exclude = ("agents",)
    list_filter = ("pool", "stop_reason", "abstained")
    list_select_related = ("pool", "model__pool")
    search_fields = ("=id", "text")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Decision]:
        rows: QuerySet[Decision] = super().get_queryset(request)
        return rows.prefetch_related("pool__agents")

    @admin.display(description=_("agents"))
    def chosen(self, decision: Decision) -> SafeString | str:
        return chips_of(decision.agents, decision.pool)

    @admin.display(description=_("query"))
    def short_text(self, decision: Decision) -> str:
        return decision.text if len(decision.text) <= 100 else decision.text[:99] + "…"


# ---------------------------------------------------------------------------------------------------- on earlier packages' lists


@admin.action(description=_("Train"))
def launch_on_pools(model_admin: Any, request: HttpRequest, queryset: QuerySet[Pool]) -> HttpResponse | None:
    """One pool: its launch form. Several: one run each, with every setting at its default."""
    return _launch(request, [(pool, None) for pool in queryset])


@admin.action(description=_("Train"))
def launch_on_snapshots(model_admin: Any, request: HttpRequest, queryset: QuerySet[Snapshot]) -> HttpResponse | None:
    """One snapshot: the launch form with it chosen. Several: one run each, with every setting at its default."""
    return _launch(request, [(snapshot.pool, snapshot) for snapshot in queryset.select_related("pool")])


def _launch(request: HttpRequest, chosen: list[tuple[Pool, Snapshot | None]]) -> HttpResponseRedirect | None:
    if Role.OPS not in roles_of(request.user):
        messages.error(request, _t("Only ops launch runs."))
        return None
    if len(chosen) == 1:
        pool, snapshot = chosen[0]
        return redirect(reverse("run_new", args=[pool.slug]) + (f"?snapshot={snapshot.pk}" if snapshot else ""))
    author, config = person(request), Config().changed()
    one_by_one(
        request,
        chosen,
        lambda pair: runs.launch(pair[0], snapshot=pair[1], config=config, author=author),
        _t("A run is queued."),
        (runs.RunError,),
    )
    return None


for _model, _action in ((Pool, launch_on_pools), (Snapshot, launch_on_snapshots)):
    if admin.site.is_registered(_model):
        _page: Any = admin.site.get_model_admin(_model)
        _page.actions = (*(_page.actions or ()), _action)
