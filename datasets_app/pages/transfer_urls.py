"""Addresses of the pages that read files in and write them out."""

from django.urls import path

from datasets_app.pages import transfer_views as views
from datasets_app.pages.import_columns import import_columns

urlpatterns = [
    path("p/<slug:slug>/import/", views.import_page, name="import"),
    path("p/<slug:slug>/import/<int:import_id>/", views.import_detail, name="import_detail"),
    path("p/<slug:slug>/import/<int:import_id>/columns/", import_columns, name="import_columns"),
    path("p/<slug:slug>/import/<int:import_id>/cancel/", views.import_cancel, name="import_cancel"),
    path("p/<slug:slug>/import/<int:import_id>/retry/", views.import_retry, name="import_retry"),
    path("p/<slug:slug>/import/<int:import_id>/undo/", views.import_undo, name="import_undo"),
    path("p/<slug:slug>/import/<int:import_id>/problems.csv", views.import_problems, name="import_problems"),
    path("p/<slug:slug>/export/", views.export_page, name="export"),
    path("p/<slug:slug>/export/file/", views.export_download, name="export_download"),
    path("p/<slug:slug>/snapshots/", views.snapshot_list, name="snapshots"),
    path("p/<slug:slug>/snapshots/<int:number>/rows.jsonl", views.snapshot_download, name="snapshot_download"),
]
