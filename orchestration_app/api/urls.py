"""The addresses of episodes under /api/."""

from collections.abc import Sequence

from django.urls import URLPattern

from orchestration_app.api import gateway, replies, tool_gateway, views
from training_app.api.addresses import address


def patterns() -> Sequence[URLPattern]:
    """For the hook `api_addresses`."""
    return (
        *address("orchestrate/", views.OrchestrateView),
        *address("mcp/<slug:slug>/", tool_gateway.ToolsView),
        *address("v1/responses/", gateway.ResponsesView),
        *address("orchestrate/next/", views.NextView),
        *address("episodes/", views.EpisodesView),
        *address("episodes/<id:episode_id>/", views.EpisodeView, "api_episode"),
        *address("episodes/<id:episode_id>/cancel/", views.CancelEpisodeView),
        *address("episodes/<id:episode_id>/input/", replies.InputView),
        *address("episodes/<id:episode_id>/approval/", replies.ApprovalView),
        *address("episodes/<id:episode_id>/outcome/", views.JudgeView),
    )
