"""The addresses of labeling: the queue of whole sets, and for each agent that was added later its queue of one question."""

from django.urls import URLPattern, path

from datasets_app.pages import correction_views, narrowed, own_views, similar_views
from datasets_app.pages import labeling_views as views


def _queue(prefix: str, name: str) -> list[URLPattern]:
    return [
        path(prefix, views.label, name=name),
        path(f"{prefix}next/", views.label_next, name=f"{name}_next"),
        path(f"{prefix}done/", own_views.label_done, name=f"{name}_done"),
        path(f"{prefix}undo/", views.label_undo, name=f"{name}_undo"),
        path(f"{prefix}heartbeat/", views.label_heartbeat, name=f"{name}_heartbeat"),
        path(f"{prefix}skipped/", views.label_skipped, name=f"{name}_skipped"),
        path(f"{prefix}<int:query_id>/", views.label_item, name=f"{name}_item"),
        path(f"{prefix}<int:query_id>/words/", views.label_words, name=f"{name}_words"),
        path(f"{prefix}<int:query_id>/draft/", views.label_draft, name=f"{name}_draft"),
        path(f"{prefix}<int:query_id>/submit/", views.label_submit, name=f"{name}_submit"),
        path(f"{prefix}<int:query_id>/skip/", views.label_skip, name=f"{name}_skip"),
    ]


urlpatterns = [
    path("p/<slug:slug>/label/mine/", own_views.my_labels, name="my_labels"),
    path("p/<slug:slug>/label/mine/<int:label_id>/note/", own_views.label_note, name="label_note"),
    path("p/<slug:slug>/correct/", correction_views.correct, name="correct"),
    *_queue("p/<slug:slug>/label/", "label"),
    path("p/<slug:slug>/label/narrow/", narrowed.label_narrow, name="label_narrow"),
    path("p/<slug:slug>/label/<int:query_id>/similar/", similar_views.label_similar, name="label_similar"),
    *_queue("p/<slug:slug>/label/agent/<int:number>/", "reask"),
    path("p/<slug:slug>/label/release/<int:person_id>/", views.label_release, name="label_release"),
    path("p/<slug:slug>/label/<int:query_id>/history/", views.label_history, name="label_history"),
]
