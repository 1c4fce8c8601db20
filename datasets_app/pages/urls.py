"""Addresses of labeling, review, queries, pre-labeling, files and traffic."""

from django.urls import URLPattern, URLResolver, path

from datasets_app.pages import (
    browse_views,
    correction_views,
    labeling_views,
    narrowed,
    own_views,
    prelabel_views,
    review_views,
    similar_views,
    traffic_views,
    transfer_views,
    writing_views,
)
from datasets_app.pages.import_columns import import_columns


def _queue(prefix: str, name: str) -> list[URLPattern]:
    """The queue of whole sets, or that of one question about an agent that was added later."""
    return [
        path(prefix, labeling_views.label, name=name),
        path(f"{prefix}next/", labeling_views.label_next, name=f"{name}_next"),
        path(f"{prefix}done/", own_views.label_done, name=f"{name}_done"),
        path(f"{prefix}undo/", labeling_views.label_undo, name=f"{name}_undo"),
        path(f"{prefix}heartbeat/", labeling_views.label_heartbeat, name=f"{name}_heartbeat"),
        path(f"{prefix}skipped/", labeling_views.label_skipped, name=f"{name}_skipped"),
        path(f"{prefix}<int:query_id>/", labeling_views.label_item, name=f"{name}_item"),
        path(f"{prefix}<int:query_id>/words/", labeling_views.label_words, name=f"{name}_words"),
        path(f"{prefix}<int:query_id>/draft/", labeling_views.label_draft, name=f"{name}_draft"),
        path(f"{prefix}<int:query_id>/submit/", labeling_views.label_submit, name=f"{name}_submit"),
        path(f"{prefix}<int:query_id>/skip/", labeling_views.label_skip, name=f"{name}_skip"),
    ]


urlpatterns: list[URLPattern | URLResolver] = [
    path("p/<slug:slug>/label/mine/", own_views.my_labels, name="my_labels"),
    path("p/<slug:slug>/label/mine/<int:label_id>/note/", own_views.label_note, name="label_note"),
    path("p/<slug:slug>/correct/", correction_views.correct, name="correct"),
    *_queue("p/<slug:slug>/label/", "label"),
    path("p/<slug:slug>/label/narrow/", narrowed.label_narrow, name="label_narrow"),
    path("p/<slug:slug>/label/<int:query_id>/similar/", similar_views.label_similar, name="label_similar"),
    *_queue("p/<slug:slug>/label/agent/<int:number>/", "reask"),
    path("p/<slug:slug>/label/release/<int:person_id>/", labeling_views.label_release, name="label_release"),
    path("p/<slug:slug>/label/<int:query_id>/history/", labeling_views.label_history, name="label_history"),
    path("p/<slug:slug>/review/", review_views.review, name="review"),
    path("p/<slug:slug>/review/<int:query_id>/", review_views.review_query, name="review_query"),
    path("p/<slug:slug>/review/<int:query_id>/judge/", review_views.review_judge, name="review_judge"),
    path("p/<slug:slug>/review/undo/<int:label_id>/", review_views.review_undo, name="review_undo"),
    path("p/<slug:slug>/agreement/", review_views.agreement_page, name="agreement"),
    path("p/<slug:slug>/agreement/items/", review_views.agreement_items, name="agreement_items"),
    path("p/<slug:slug>/queries/", browse_views.queries, name="queries"),
    path("p/<slug:slug>/queries/export/", browse_views.queries_export, name="queries_export"),
    path("p/<slug:slug>/queries/change/", browse_views.bulk_preview, name="bulk_preview"),
    path("p/<slug:slug>/queries/change/apply/", browse_views.bulk_apply, name="bulk_apply"),
    path("p/<slug:slug>/queries/change/<int:change_id>/undo/", browse_views.bulk_undo, name="bulk_undo"),
    path("p/<slug:slug>/queries/<int:query_id>/", browse_views.query, name="query"),
    path("p/<slug:slug>/queries/<int:query_id>/delete/", browse_views.query_delete, name="query_delete"),
    path("p/<slug:slug>/queries/<int:query_id>/restore/", browse_views.query_restore, name="query_restore"),
    path("p/<slug:slug>/queries/<int:query_id>/erase/", browse_views.query_erase, name="query_erase"),
    path("p/<slug:slug>/queries/<int:query_id>/send/", browse_views.query_send, name="query_send"),
    path("p/<slug:slug>/settings/queue/", prelabel_views.queue_settings, name="settings_queue"),
    path("p/<slug:slug>/settings/queue/agent/<int:number>/", prelabel_views.reask_change, name="reask_change"),
    path("p/<slug:slug>/settings/prelabel/", prelabel_views.prelabel_page, name="prelabel"),
    path("p/<slug:slug>/settings/prelabel/prompt/", prelabel_views.prompt_page, name="prompt"),
    path("p/<slug:slug>/settings/prelabel/<int:job_id>/", prelabel_views.prelabel_job, name="prelabel_job"),
    path(
        "p/<slug:slug>/settings/prelabel/<int:job_id>/change/", prelabel_views.prelabel_change, name="prelabel_change"
    ),
    path("p/<slug:slug>/settings/prelabel/written/", writing_views.written, name="written"),
    path("p/<slug:slug>/settings/prelabel/written/job/", writing_views.written_job, name="written_job"),
    path("p/<slug:slug>/settings/prelabel/written/change/", writing_views.written_change, name="written_change"),
    path("p/<slug:slug>/import/", transfer_views.import_page, name="import"),
    path("p/<slug:slug>/import/<int:import_id>/", transfer_views.import_detail, name="import_detail"),
    path("p/<slug:slug>/import/<int:import_id>/columns/", import_columns, name="import_columns"),
    path("p/<slug:slug>/import/<int:import_id>/cancel/", transfer_views.import_cancel, name="import_cancel"),
    path("p/<slug:slug>/import/<int:import_id>/retry/", transfer_views.import_retry, name="import_retry"),
    path("p/<slug:slug>/import/<int:import_id>/undo/", transfer_views.import_undo, name="import_undo"),
    path("p/<slug:slug>/import/<int:import_id>/problems.csv", transfer_views.import_problems, name="import_problems"),
    path("p/<slug:slug>/export/", transfer_views.export_page, name="export"),
    path("p/<slug:slug>/export/file/", transfer_views.export_download, name="export_download"),
    path("p/<slug:slug>/snapshots/", transfer_views.snapshot_list, name="snapshots"),
    path("p/<slug:slug>/snapshots/<int:number>/rows.jsonl", transfer_views.snapshot_download, name="snapshot_download"),
    path("p/<slug:slug>/traffic/", traffic_views.traffic_page, name="traffic"),
    path("p/<slug:slug>/traffic/agents/", traffic_views.traffic_agents, name="traffic_agents"),
    path("p/<slug:slug>/traffic/label/", traffic_views.traffic_label, name="traffic_label"),
]
