"""Episodes, and what agents are called by and run on, in the admin: to look at; each leads on to its own page."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.admin import ModelAdmin

from agents_app.access import person
from agents_app.admin.read_only import ReadOnly
from orchestration_app.episodes import episodes
from orchestration_app.models import Backend, Episode, Executor, Provider
from training_app.admin import ReadOnlyAdmin, one_by_one


@admin.register(Executor)
class ExecutorAdmin(ReadOnly, ModelAdmin):
    """To look at; Settings changes them, and no page shows their secrets."""

    list_display = ("agent", "kind", "address", "model", "active", "changed_at")
    list_filter = ("kind", "active", "agent__pool")
    list_select_related = ("agent",)
    search_fields = ("agent__name", "address", "model")
    exclude = ("secret",)


@admin.register(Provider)
class ProviderAdmin(ReadOnly, ModelAdmin):
    """To look at; each leads on to the pool's backends, where it is changed. No page shows its secret."""

    list_display = ("name", "pool", "address", "backend_count", "leads_on")
    list_filter = ("pool",)
    list_select_related = ("pool",)
    search_fields = ("name", "address")
    fields = ("name", "pool", "address", "leads_on")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Provider]:
        return super().get_queryset(request).annotate(backend_count=Count("backends"))

    @admin.display(description=gettext_lazy("backends"), ordering="backend_count")
    def backend_count(self, provider: Any) -> int:
        return int(provider.backend_count)

    @admin.display(description=gettext_lazy("page"))
    def leads_on(self, provider: Provider) -> str:
        address = reverse("settings_backends", args=(provider.pool.slug,))
        return format_html('<a href="{}">{}</a>', address, _("Backends of the pool"))


@admin.register(Backend)
class BackendAdmin(ReadOnly, ModelAdmin):
    """To look at; each leads on to its own page, where it is changed."""

    list_display = ("model", "provider", "agent", "active", "healthy", "cooling_until", "leads_on")
    list_filter = ("agent__pool", "active", "healthy")
    list_select_related = ("provider", "agent__pool")
    search_fields = ("model", "provider__name", "agent__name")
    exclude = ("health_url",)

    @admin.display(description=gettext_lazy("page"))
    def leads_on(self, backend: Backend) -> str:
        address = reverse("settings_backend", args=(backend.agent.pool.slug, backend.pk))
        return format_html('<a href="{}">{}</a>', address, _("Figures and changes"))


@admin.register(Episode)
class EpisodeAdmin(ReadOnlyAdmin):
    page = "episode"
    readonly_fields = ("page_link",)
    list_display = ("created_at", "short_task", "status", "stop_reason", "steps", "cost", "policy", "pool", "page_link")
    list_filter = ("pool", "status", "stop_reason")
    list_select_related = ("pool",)
    search_fields = ("=id", "task")
    actions = ("cancel",)
    exclude = ("attempt", "idempotency_key", "request_digest")

    @admin.display(description=gettext_lazy("task"))
    def short_task(self, episode: Episode) -> str:
        return episode.task if len(episode.task) <= 100 else episode.task[:99] + "…"

    @admin.action(description=gettext_lazy("Cancel"), permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Episode]) -> None:
        actor = person(request)
        one_by_one(
            request, queryset.select_related("pool"), lambda episode: episodes.cancel(episode, actor=actor),
            _("%(row)s is cancelled."), (episodes.EpisodeError,),
        )  # fmt: skip
