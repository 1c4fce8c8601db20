"""The addresses of the queue's settings and of pre-labeling."""

from django.urls import path

from datasets_app.pages import prelabel_views as views

urlpatterns = [
    path("p/<slug:slug>/settings/queue/", views.queue_settings, name="settings_queue"),
    path("p/<slug:slug>/settings/queue/agent/<int:number>/", views.reask_change, name="reask_change"),
    path("p/<slug:slug>/settings/prelabel/", views.prelabel_page, name="prelabel"),
    path("p/<slug:slug>/settings/prelabel/prompt/", views.prompt_page, name="prompt"),
    path("p/<slug:slug>/settings/prelabel/<int:job_id>/", views.prelabel_job, name="prelabel_job"),
    path("p/<slug:slug>/settings/prelabel/<int:job_id>/change/", views.prelabel_change, name="prelabel_change"),
]
