"""Every address under /api/; what nothing answers gets a JSON 404, not a page."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.urls import URLPattern, path, re_path, register_converter

from training_app.api.views import (
    a2a,
    ard,
    chat,
    ddqn_router,
    decisions,
    episodes,
    labeling,
    mcp,
    models,
    queries,
    routing,
    rules,
    runs,
    serving,
)
from training_app.api.views.base import NothingHere


class Number:
    """A whole number, in any number of digits; what no database has room for names nothing."""

    regex = "[0-9]+"
    to_url = str

    def to_python(self, value: str) -> int:
        """The number, cut to what every look-up takes."""
        return int(value) if len(value) < 19 else 10**18


class Id:
    """A UUID, in either case."""

    regex = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    to_python = UUID
    to_url = str


class Name:
    """A model's name."""

    regex = "[a-zA-Z0-9_-]+"
    to_python = str
    to_url = str


register_converter(Number, "number")
register_converter(Id, "id")
register_converter(Name, "name")


def address(route: str, view: Any, name: str | None = None) -> list[URLPattern]:
    """An address, with or without its last slash: a redirect would lose what was sent."""
    answer: Callable[..., Any] = view.as_view()
    return [path(route, answer, name=name), path(route.removesuffix("/"), answer)]


urlpatterns = [
    *address("route/", routing.RouteView),
    *address("route/batch/", routing.BatchView),
    *address("outcomes/", routing.OutcomeView),
    *address("orchestrate/", episodes.OrchestrateView),
    *address("orchestrate/next/", episodes.NextView),
    *address("episodes/", episodes.EpisodesView),
    *address("episodes/<id:episode_id>/", episodes.EpisodeView, "api_episode"),
    *address("episodes/<id:episode_id>/cancel/", episodes.CancelEpisodeView),
    *address("episodes/<id:episode_id>/outcome/", episodes.JudgeView),
    *address("ard/search/", ard.SearchView),
    *address("ard/catalog/", ard.CatalogView),
    *address("health/", serving.HealthView),
    *address("ready/", serving.ReadyView),
    *address("metrics/", serving.MetricsView),
    *address("quota/", serving.QuotaView),
    *address("agents/", serving.AgentsView),
    *address("agents/<number:number>/pause/", serving.PauseView),
    *address("agents/<number:number>/resume/", serving.ResumeView),
    *address("schema/", serving.SchemaView, "api_schema"),
    path("docs/", serving.docs, name="api_docs"),
    *address("runs/", runs.RunsView),
    *address("runs/<number:run_id>/", runs.RunView),
    *address("runs/<number:run_id>/cancel/", runs.CancelRunView),
    *address("sweeps/", runs.SweepsView),
    *address("sweeps/<number:sweep_id>/", runs.SweepView),
    *address("sweeps/<number:sweep_id>/cancel/", runs.CancelSweepView),
    *address("models/", models.ModelsView),
    *address("models/<name:name>/promote/", models.PromoteView),
    *address("models/<name:name>/approve/", models.ApproveView),
    *address("models/<name:name>/decline/", models.DeclineView),
    *address("models/<name:name>/withdraw/", models.WithdrawView),
    *address("models/<name:name>/pin/", models.PinView),
    *address("models/<name:name>/unpin/", models.UnpinView),
    *address("models/<name:name>/shadow/", models.StartShadowView),
    *address("models/<name:name>/shadow/stop/", models.StopShadowView),
    *address("models/<name:name>/canary/", models.StartCanaryView),
    *address("models/<name:name>/canary/stop/", models.StopCanaryView),
    *address("models/<name:name>/live/", models.LiveView),
    *address("rollback/", models.RollBackView),
    *address("rules/", rules.RulesView),
    *address("rules/<number:rule_id>/", rules.RuleView),
    *address("rules/<number:rule_id>/delete/", rules.DeleteRuleView),
    *address("decisions/", decisions.DecisionsView),
    *address("decisions/<id:decision_id>/", decisions.DecisionView),
    *address("decisions/<id:decision_id>/replay/", decisions.ReplayView),
    *address("queries/", queries.QueriesView),
    *address("label/next/", labeling.Next),
    *address("label/undo/", labeling.Undo),
    *address("label/heartbeat/", labeling.Heartbeat),
    *address("label/release/", labeling.Release),
    *address("label/<number:query_id>/", labeling.Item),
    *address("label/<number:query_id>/draft/", labeling.Draft),
    *address("label/<number:query_id>/submit/", labeling.Submit),
    *address("label/<number:query_id>/skip/", labeling.Skip),
    *address("v1/chat/completions/", chat.ChatView),
    *address("v1/models/", chat.ModelListView),
    *address("mcp/", mcp.McpView),
    *address("a2a-card/", a2a.CardView),
    *address("a2a/<slug:slug>/", a2a.A2aView),
    *address("a2a/<slug:slug>/card/", a2a.CardView),
    *address("ddqn-router/route/", ddqn_router.DdqnRouteView),
    *address("ddqn-router/route/batch/", ddqn_router.DdqnBatchView),
    *address("ddqn-router/agents/", ddqn_router.DdqnAgentsView),
    *address("ddqn-router/health/", ddqn_router.DdqnHealthView),
    re_path("", NothingHere.as_view(), name="api"),
]
