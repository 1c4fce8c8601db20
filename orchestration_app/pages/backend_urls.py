"""Addresses of the pages of backends."""

from django.urls import URLPattern, URLResolver, path

from orchestration_app.pages import backend_views, learning_views

SETTINGS = "p/<slug:slug>/settings/backends/"
urlpatterns: list[URLPattern | URLResolver] = [
    path(SETTINGS, backend_views.backend_list, name="settings_backends"),
    path(SETTINGS + "add/", backend_views.backend_new, name="settings_backend_new"),
    path(SETTINGS + "models/", backend_views.backend_terms, name="settings_backend_terms"),
    path(SETTINGS + "point/", backend_views.backend_point, name="backend_point"),
    path(SETTINGS + "learning/", learning_views.backend_learning, name="settings_backend_learning"),
    path(SETTINGS + "learning/resume/", learning_views.backend_learning_resume, name="backend_learning_resume"),
    path(SETTINGS + "<int:backend_id>/", backend_views.backend_edit, name="settings_backend"),
    path(SETTINGS + "<int:backend_id>/remove/", backend_views.backend_remove, name="backend_remove"),
]
