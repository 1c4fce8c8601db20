from django.urls import URLPattern, URLResolver, path

from training_app import home_views, model_views, outcome_views, route_views, run_views

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home_views.home, name="home"),
    path("p/<slug:slug>/runs/", run_views.run_list, name="runs"),
    path("p/<slug:slug>/runs/new/", run_views.run_new, name="run_new"),
    path("p/<slug:slug>/runs/<int:run_id>/", run_views.run_detail, name="run"),
    path("p/<slug:slug>/runs/<int:run_id>/cancel/", run_views.run_cancel, name="run_cancel"),
    path("p/<slug:slug>/runs/<int:run_id>/relaunch/", run_views.run_relaunch, name="run_relaunch"),
    path("p/<slug:slug>/models/", model_views.model_list, name="models"),
    path("p/<slug:slug>/models/rollback/", model_views.model_rollback, name="model_rollback"),
    path("p/<slug:slug>/models/<int:version>/", model_views.model_detail, name="model"),
    path("p/<slug:slug>/models/<int:version>/promote/", model_views.model_promote, name="model_promote"),
    path("p/<slug:slug>/playground/", route_views.playground, name="playground"),
    path("p/<slug:slug>/decisions/", route_views.decision_list, name="decisions"),
    path("p/<slug:slug>/decisions/<uuid:decision_id>/", route_views.decision_detail, name="decision"),
    path("p/<slug:slug>/decisions/<uuid:decision_id>/label/", outcome_views.label_decision, name="decision_label"),
    path("p/<slug:slug>/models/<int:version>/label/", outcome_views.label_error, name="model_label_error"),
]
