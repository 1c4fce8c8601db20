"""What queries and labels are filtered by."""

from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent
from datasets_app.models import GoldAgent, Label, Query, QueueItem, Split
from routerweb.pages import parameters


class AgentFilter(admin.SimpleListFilter):
    title = _("required agent")
    parameter_name = "agent"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        agents = Agent.objects.select_related("pool").order_by("pool__name", "number")
        several = len({agent.pool_id for agent in agents}) > 1
        return [(str(agent.pk), f"{agent.pool.name}: {agent}" if several else str(agent)) for agent in agents]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Query]) -> QuerySet[Query]:
        agent = parameters.key(self.value())
        if agent is None:
            return queryset
        return queryset.filter(Exists(GoldAgent.objects.filter(gold__query=OuterRef("pk"), agent=agent)))


class SourceFilter(admin.SimpleListFilter):
    title = _("label source")
    parameter_name = "source"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(Label.Source.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Query]) -> QuerySet[Query]:
        if self.value() not in Label.Source.values:
            return queryset
        return queryset.filter(Exists(Label.objects.current().filter(query=OuterRef("pk"), source=self.value())))


class DisagreementFilter(admin.SimpleListFilter):
    title = _("disagreement")
    parameter_name = "disagreement"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("people", _("Between people")), ("llm", _("Between people and the LLM"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Query]) -> QuerySet[Query]:
        column = {"people": "disagreement", "llm": "llm_disagreement"}.get(self.value() or "")
        if column is None:
            return queryset
        apart = QueueItem.objects.filter(query=OuterRef("pk"), agent__isnull=True, **{f"{column}__gt": 0})
        return queryset.filter(Exists(apart))


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
