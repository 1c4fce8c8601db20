"""The addresses of the pages Queries and one query."""

from django.urls import path

from datasets_app.pages import browse_views as views

urlpatterns = [
    path("p/<slug:slug>/queries/", views.queries, name="queries"),
    path("p/<slug:slug>/queries/export/", views.queries_export, name="queries_export"),
    path("p/<slug:slug>/queries/change/", views.bulk_preview, name="bulk_preview"),
    path("p/<slug:slug>/queries/change/apply/", views.bulk_apply, name="bulk_apply"),
    path("p/<slug:slug>/queries/change/<int:change_id>/undo/", views.bulk_undo, name="bulk_undo"),
    path("p/<slug:slug>/queries/<int:query_id>/", views.query, name="query"),
    path("p/<slug:slug>/queries/<int:query_id>/delete/", views.query_delete, name="query_delete"),
    path("p/<slug:slug>/queries/<int:query_id>/restore/", views.query_restore, name="query_restore"),
    path("p/<slug:slug>/queries/<int:query_id>/erase/", views.query_erase, name="query_erase"),
    path("p/<slug:slug>/queries/<int:query_id>/send/", views.query_send, name="query_send"),
]
