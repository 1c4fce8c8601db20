"""Addresses of alarms, drift, and whom they are told to."""

from django.urls import URLPattern, URLResolver, path

from training_app.pages.watching import alarm_views, proposal_views

urlpatterns: list[URLPattern | URLResolver] = [
    path("p/<slug:slug>/alarms/", alarm_views.alarm_list, name="alarms"),
    path("p/<slug:slug>/alarms/health/", alarm_views.health_page, name="health_page"),
    path("p/<slug:slug>/alarms/<int:alarm_id>/mute/", alarm_views.alarm_mute, name="alarm_mute"),
    path("p/<slug:slug>/proposals/", proposal_views.proposal_list, name="proposals"),
    path("p/<slug:slug>/drift/", alarm_views.drift_page, name="drift"),
    path("p/<slug:slug>/drift/look/", alarm_views.drift_look, name="drift_look"),
    path("p/<slug:slug>/drift/accept/", alarm_views.drift_accept, name="drift_accept"),
    path("p/<slug:slug>/settings/alarms/", alarm_views.receiver_list, name="settings_alarms"),
    path("p/<slug:slug>/settings/alarms/<int:receiver_id>/test/", alarm_views.receiver_test, name="receiver_test"),
    path(
        "p/<slug:slug>/settings/alarms/<int:receiver_id>/remove/", alarm_views.receiver_remove, name="receiver_remove"
    ),
    path(
        "p/<slug:slug>/settings/alarms/<int:receiver_id>/restore/",
        alarm_views.receiver_restore,
        name="receiver_restore",
    ),
]
