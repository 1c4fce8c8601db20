"""Addresses of episodes, executors and backends."""

from django.urls import URLPattern, URLResolver, path

from orchestration_app.pages import backend_views, episode_views, executor_views, learning_views

BACKENDS = "p/<slug:slug>/settings/backends/"
urlpatterns: list[URLPattern | URLResolver] = [
    path("p/<slug:slug>/episodes/", episode_views.episode_list, name="episodes"),
    path("p/<slug:slug>/episodes/graph/", episode_views.episode_graph, name="episodes_graph"),
    path("p/<slug:slug>/episodes/new/", episode_views.episode_new, name="episode_new"),
    path("p/<slug:slug>/episodes/<uuid:episode_id>/", episode_views.episode_detail, name="episode"),
    path("p/<slug:slug>/episodes/<uuid:episode_id>/cancel/", episode_views.episode_cancel, name="episode_cancel"),
    path("p/<slug:slug>/episodes/<uuid:episode_id>/reply/", episode_views.episode_reply, name="episode_reply"),
    path("p/<slug:slug>/episodes/<uuid:episode_id>/judge/", episode_views.episode_judge, name="episode_judge"),
    path("p/<slug:slug>/settings/executors/", executor_views.executor_list, name="settings_executors"),
    path("p/<slug:slug>/settings/executors/answers/", executor_views.answer_rule, name="settings_answers"),
    path("p/<slug:slug>/settings/executors/learning/", executor_views.episode_learning, name="episode_learning"),
    path("p/<slug:slug>/settings/executors/check/", executor_views.executors_check, name="executors_check"),
    path("p/<slug:slug>/settings/executors/limit/", executor_views.spend_limit, name="spend_limit"),
    path("p/<slug:slug>/settings/executors/set-up/", executor_views.executors_set_up, name="executors_set_up"),
    path("p/<slug:slug>/settings/executors/<int:number>/", executor_views.executor_edit, name="settings_executor"),
    path("p/<slug:slug>/settings/executors/<int:number>/try/", executor_views.executor_try, name="executor_try"),
    path(
        "p/<slug:slug>/settings/executors/<int:number>/remove/", executor_views.executor_remove, name="executor_remove"
    ),
    path(BACKENDS, backend_views.backend_list, name="settings_backends"),
    path(f"{BACKENDS}add/", backend_views.backend_new, name="settings_backend_new"),
    path(f"{BACKENDS}models/", backend_views.backend_terms, name="settings_backend_terms"),
    path(f"{BACKENDS}point/", backend_views.backend_point, name="backend_point"),
    path(f"{BACKENDS}learning/", learning_views.backend_learning, name="settings_backend_learning"),
    path(f"{BACKENDS}learning/resume/", learning_views.backend_learning_resume, name="backend_learning_resume"),
    path(f"{BACKENDS}<int:backend_id>/", backend_views.backend_edit, name="settings_backend"),
    path(f"{BACKENDS}<int:backend_id>/remove/", backend_views.backend_remove, name="backend_remove"),
]
