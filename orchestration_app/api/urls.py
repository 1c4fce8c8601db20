"""The addresses of episodes under /api/."""

from collections.abc import Sequence

from django.urls import URLPattern

from orchestration_app.api import views
from training_app.api.addresses import address


def patterns() -> Sequence[URLPattern]:
    """For the hook `api_addresses`."""
    return (
        *address("orchestrate/", views.OrchestrateView),
        *address("orchestrate/next/", views.NextView),
        *address("episodes/", views.EpisodesView),
        *address("episodes/<id:episode_id>/", views.EpisodeView, "api_episode"),
        *address("episodes/<id:episode_id>/cancel/", views.CancelEpisodeView),
        *address("episodes/<id:episode_id>/outcome/", views.JudgeView),
    )
