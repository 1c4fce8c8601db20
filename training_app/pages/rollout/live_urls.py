"""Addresses of live traffic: shadows and canaries, outcomes, off-policy estimates, a pool's live settings."""

from django.urls import URLPattern, URLResolver, path

from training_app.pages.rollout import check_views, live_views

urlpatterns: list[URLPattern | URLResolver] = [
    path("p/<slug:slug>/check/", check_views.check, name="check_answers"),
    path("p/<slug:slug>/decisions/live/", live_views.live, name="decisions_live"),
    path("p/<slug:slug>/decisions/outcomes/", live_views.outcomes, name="decisions_outcomes"),
    path("p/<slug:slug>/decisions/off-policy/", live_views.off_policy, name="decisions_off_policy"),
    path("p/<slug:slug>/settings/live/", live_views.settings, name="settings_live"),
]
