"""The addresses of labeling: everything that a labeler opens or sends."""

from django.urls import path

from datasets_app import labeling_views as views

urlpatterns = [
    path("p/<slug:slug>/label/", views.label, name="label"),
    path("p/<slug:slug>/label/next/", views.label_next, name="label_next"),
    path("p/<slug:slug>/label/undo/", views.label_undo, name="label_undo"),
    path("p/<slug:slug>/label/heartbeat/", views.label_heartbeat, name="label_heartbeat"),
    path("p/<slug:slug>/label/skipped/", views.label_skipped, name="label_skipped"),
    path("p/<slug:slug>/label/release/<int:person_id>/", views.label_release, name="label_release"),
    path("p/<slug:slug>/label/<int:query_id>/", views.label_item, name="label_item"),
    path("p/<slug:slug>/label/<int:query_id>/draft/", views.label_draft, name="label_draft"),
    path("p/<slug:slug>/label/<int:query_id>/submit/", views.label_submit, name="label_submit"),
    path("p/<slug:slug>/label/<int:query_id>/skip/", views.label_skip, name="label_skip"),
    path("p/<slug:slug>/label/<int:query_id>/history/", views.label_history, name="label_history"),
]
